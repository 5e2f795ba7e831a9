"""Memories for loops of other people: what their libraries ask of a replay buffer."""
