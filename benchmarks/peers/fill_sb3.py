"""Stable-Baselines3: ReplayBuffer, as DQN makes it."""

from functools import partial
from itertools import islice

import numpy as np
from gymnasium.spaces import Box, Discrete
from measure import Recording, check_full, main, stacks
from stable_baselines3.common.buffers import ReplayBuffer


def fill(recording: Recording, transitions: int, optimize: bool) -> ReplayBuffer:
    """A full memory; its memory-saving mode cannot tell time-outs apart, so it must not try."""
    frames, action = recording.frames, recording.action
    space = Box(0, 255, (4, *frames.shape[1:]), np.uint8)
    actions = Discrete(18) if action.ndim == 1 else Box(-1, 1, action.shape[1:], np.float32)
    memory = ReplayBuffer(
        transitions,
        space,
        actions,
        device="cpu",
        optimize_memory_usage=optimize,
        handle_timeout_termination=not optimize,
    )
    for obs, next_obs, step in islice(stacks(recording, axis=0), transitions):
        memory.add(
            obs[None],
            next_obs[None],
            np.asarray(step.action)[None],
            np.array([step.reward]),
            np.array([step.over]),
            [{"TimeLimit.truncated": step.truncated}],
        )
    check_full(memory.size(), transitions)
    return memory


if __name__ == "__main__":
    modes = {"default": partial(fill, optimize=False), "optimized": partial(fill, optimize=True)}
    main("sb3", "stable_baselines3", modes)
