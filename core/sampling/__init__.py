"""Which units a batch is made of."""
