"""cpprb: ReplayBuffer, which holds overlapping frames of stacks and the next observations once."""

from itertools import islice

import numpy as np
from cpprb import ReplayBuffer
from measure import STACK, Recording, check_full, main, stacks


def fill(recording: Recording, transitions: int) -> ReplayBuffer:
    """A full memory; it must be told of every episode's end, or its stacks run into the next."""
    frames, action = recording.frames, recording.action
    parts = {
        "obs": {"shape": (*frames.shape[1:], STACK), "dtype": np.uint8},
        "act": {"shape": action.shape[1:] or 1, "dtype": action.dtype},
        "rew": {},
        "done": {},
    }
    memory = ReplayBuffer(transitions, parts, next_of="obs", stack_compress="obs")
    for obs, next_obs, step in islice(stacks(recording, axis=-1), transitions):
        memory.add(
            obs=obs, act=step.action, rew=step.reward, next_obs=next_obs, done=step.terminated
        )
        if step.over:
            memory.on_episode_end()
    check_full(memory.get_stored_size(), transitions)
    return memory


if __name__ == "__main__":
    main("cpprb", "cpprb", {"stack_compress": fill})
