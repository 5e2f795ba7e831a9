"""Gymnasium environments made ready: true last observations, flat observations, lanes."""
