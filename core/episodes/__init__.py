"""Rows that make episodes: how they are laid out, written, stacked, summed, and may start."""
