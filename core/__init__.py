"""Memory, environments and the loops of training: mechanisms on numpy, without torch."""
