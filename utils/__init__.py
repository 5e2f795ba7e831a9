"""What a person touches: rows, flags, the board."""
