"""What a unit is: the kinds of memory."""
