"""Tianshou: the buffer of its Atari examples, which keeps the last frame of each stack."""

from itertools import islice

import numpy as np
from measure import STACK, Recording, Step, check_full, main, stacks
from tianshou.data import Batch, VectorReplayBuffer


def as_batch(obs: np.ndarray, next_obs: np.ndarray, step: Step) -> Batch:
    """A step of the one environment, no info kept (a recording has none)."""
    return Batch(
        obs=obs[None],
        act=np.asarray(step.action)[None],
        rew=np.array([step.reward]),
        terminated=np.array([step.terminated]),
        truncated=np.array([step.truncated]),
        obs_next=next_obs[None],
        info=Batch(),
    )


def fill(recording: Recording, transitions: int) -> VectorReplayBuffer:
    """A full memory of one environment."""
    memory = VectorReplayBuffer(
        transitions,
        buffer_num=1,
        stack_num=STACK,
        ignore_obs_next=True,
        save_only_last_obs=True,
    )
    for obs, next_obs, step in islice(stacks(recording, axis=0), transitions):
        memory.add(as_batch(obs, next_obs, step), buffer_ids=[0])
    check_full(len(memory), transitions)
    return memory


if __name__ == "__main__":
    main("tianshou", "tianshou", {"last_frame": fill})
