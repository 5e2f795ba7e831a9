"""Where bytes live. Knows nothing of reinforcement learning."""
