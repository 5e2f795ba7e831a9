"""The mathematics of the agents: tensors in, tensors out."""
