"""Stable-Baselines3 as it is read: ReplayBuffer as DQN makes it, and as SAC does of vectors."""

from functools import partial
from pathlib import Path

import numpy as np
import torch
from fill_sb3 import fill
from gymnasium.spaces import Box
from measure import Recording, check_full, load, steps
from serve import Pair, Reads, Work, serve, settings, vectors
from stable_baselines3.common.buffers import ReplayBuffer


def rows(recording: Recording, count: int) -> ReplayBuffer:
    """A full memory of vectors."""
    space = Box(-np.inf, np.inf, recording.frames.shape[1:], np.float32)
    actions = Box(-1, 1, recording.action.shape[1:], np.float32)
    memory = ReplayBuffer(count, space, actions, device="cpu")
    for _, step in zip(range(count), steps(recording), strict=False):
        memory.add(
            step.frame[None],
            step.next_frame[None],
            step.action[None],
            np.array([step.reward]),
            np.array([step.over]),
            [{"TimeLimit.truncated": step.truncated}],
        )
    check_full(memory.size(), count)
    return memory


def to_input(memory: ReplayBuffer, size: int) -> Work:
    """A batch as float32 tensors `[B, 4, H, W]` from 0 to 1."""

    def work() -> list[torch.Tensor]:
        batch = memory.sample(size)
        return [stack.float().div_(255) for stack in (batch.observations, batch.next_observations)]

    return work


def main() -> None:
    """Fills, and reads as it is told."""
    given = settings()
    torch.set_num_threads(1)
    flat = given["what"] == "vectors"
    recording = Recording(**vectors()) if flat else load(Path(given["folder"]))
    make = rows if flat else partial(fill, optimize=False)
    memory = make(recording, given["count"])

    def look(size: int) -> Pair:
        batch = memory.sample(size)
        obs, next_obs = batch.observations.numpy(), batch.next_observations.numpy()
        return (obs[:, None], next_obs[:, None]) if flat else (obs, next_obs)

    works = {
        "uniform": lambda size: lambda: memory.sample(size),
        "input": lambda size: to_input(memory, size),
    }
    serve("stable_baselines3", recording, Reads(works, look), given)


if __name__ == "__main__":
    main()
