"""Loops of other people over our memories."""
