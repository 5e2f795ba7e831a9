"""cpprb as it is read: single frames of stacks, or vectors; drawn alike, or by priority."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from cpprb import PrioritizedReplayBuffer, ReplayBuffer
from measure import STACK, Recording, check_full, load, stacks
from serve import ALPHA, BETA, Pair, Reads, Work, blocks, errors, serve, settings, vectors


def pictures(kind: type, recording: Recording, count: int, **options: Any) -> ReplayBuffer:
    """A full memory of stacks, which holds each of their frames once."""
    parts = {
        "obs": {"shape": (*recording.frames.shape[1:], STACK), "dtype": np.uint8},
        "act": {"dtype": recording.action.dtype},
        "rew": {},
        "done": {},
    }
    memory = kind(count, parts, next_of="obs", stack_compress="obs", **options)
    for obs, next_obs, step in islice(stacks(recording, axis=-1), count):
        memory.add(
            obs=obs, act=step.action, rew=step.reward, next_obs=next_obs, done=step.terminated
        )
        if step.over:
            memory.on_episode_end()
    return memory


def rows(kind: type, recording: Recording, count: int, **options: Any) -> ReplayBuffer:
    """A full memory of vectors, successors held apart: it reads those the faster."""
    width = {"shape": recording.frames.shape[1]}
    act = {"shape": recording.action.shape[1]}
    memory = kind(
        count, {"obs": width, "next_obs": width, "act": act, "rew": {}, "done": {}}, **options
    )
    for block in blocks(recording, count):
        memory.add(
            obs=block["obs"],
            act=block["action"],
            rew=block["reward"],
            next_obs=block["next_obs"],
            done=block["terminated"],
        )
    return memory


def to_input(memory: ReplayBuffer, size: int) -> Work:
    """A batch as float32 tensors `[B, 4, H, W]` from 0 to 1."""
    import torch

    def work() -> list[torch.Tensor]:
        batch = memory.sample(size)
        return [
            torch.from_numpy(batch[name]).permute(0, 3, 1, 2).float().div_(255)
            for name in ("obs", "next_obs")
        ]

    return work


def told(memory: PrioritizedReplayBuffer, size: int) -> Work:
    """A batch, and the errors of it."""
    sizes = errors(size)
    return lambda: memory.update_priorities(memory.sample(size, beta=BETA)["indexes"], sizes)


def main() -> None:
    """Fills, and reads as it is told."""
    given = settings()
    flat = given["what"] == "vectors"
    recording = Recording(**vectors()) if flat else load(Path(given["folder"]))
    priority = given["mode"] == "prioritized"
    kind, options = (PrioritizedReplayBuffer, {"alpha": ALPHA}) if priority else (ReplayBuffer, {})
    memory = (rows if flat else pictures)(kind, recording, given["count"], **options)
    check_full(memory.get_stored_size(), given["count"])

    def look(size: int) -> Pair:
        batch = memory.sample(size)
        obs, next_obs = (batch[name] for name in ("obs", "next_obs"))
        if flat:
            return obs[:, None], next_obs[:, None]
        return np.moveaxis(obs, -1, 1), np.moveaxis(next_obs, -1, 1)

    works = {
        "uniform": lambda size: lambda: memory.sample(size),
        "input": lambda size: to_input(memory, size),
        "prioritized": lambda size: told(memory, size),
    }
    serve("cpprb", recording, Reads(works, look), given)


if __name__ == "__main__":
    main()
