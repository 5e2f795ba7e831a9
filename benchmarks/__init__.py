"""What it costs: run `make bench`."""
