"""Agents: what learns from a memory."""
