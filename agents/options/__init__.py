"""Options of the agents; importing them loads no torch."""
