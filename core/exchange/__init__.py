"""Episodes out of one memory and into another, by way of files that others can read."""
