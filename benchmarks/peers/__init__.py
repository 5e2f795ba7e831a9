"""Other libraries' replay memories, measured on our recordings; each in a venv of its own."""
