"""Tianshou as it is read: last frames of stacks, or vectors; drawn alike, or by priority."""

from itertools import islice
from pathlib import Path
from typing import Any

import torch
from fill_tianshou import as_batch
from measure import STACK, Recording, check_full, load, stacks, steps
from serve import ALPHA, BETA, Pair, Reads, Work, errors, serve, settings, vectors
from tianshou.data import PrioritizedVectorReplayBuffer, VectorReplayBuffer


def fill(recording: Recording, count: int, flat: bool, priority: bool) -> VectorReplayBuffer:
    """A full memory of one environment: successors of vectors are held, those of stacks not."""
    options: dict[str, Any] = {"alpha": ALPHA, "beta": BETA} if priority else {}
    if not flat:
        options |= {"stack_num": STACK, "ignore_obs_next": True, "save_only_last_obs": True}
    kind = PrioritizedVectorReplayBuffer if priority else VectorReplayBuffer
    memory = kind(count, buffer_num=1, **options)
    walk = (
        ((step.frame, step.next_frame, step) for step in steps(recording))
        if flat
        else stacks(recording, axis=0)
    )
    for obs, next_obs, step in islice(walk, count):
        memory.add(as_batch(obs, next_obs, step), buffer_ids=[0])
    check_full(len(memory), count)
    return memory


def to_input(memory: VectorReplayBuffer, size: int) -> Work:
    """A batch as float32 tensors `[B, 4, H, W]` from 0 to 1."""

    def work() -> list[torch.Tensor]:
        batch, _ = memory.sample(size)
        return [torch.from_numpy(part).float().div_(255) for part in (batch.obs, batch.obs_next)]

    return work


def told(memory: PrioritizedVectorReplayBuffer, size: int) -> Work:
    """A batch, and the errors of it."""
    sizes = errors(size)
    return lambda: memory.update_weight(memory.sample(size)[1], sizes)


def main() -> None:
    """Fills, and reads as it is told."""
    given = settings()
    flat = given["what"] == "vectors"
    recording = Recording(**vectors()) if flat else load(Path(given["folder"]))
    memory = fill(recording, given["count"], flat, given["mode"] == "prioritized")

    def look(size: int) -> Pair:
        batch, _ = memory.sample(size)
        if flat:
            return batch.obs[:, None], batch.obs_next[:, None]
        return batch.obs, batch.obs_next

    works = {
        "uniform": lambda size: lambda: memory.sample(size),
        "input": lambda size: to_input(memory, size),
        "prioritized": lambda size: told(memory, size),
    }
    serve("tianshou", recording, Reads(works, look), given)


if __name__ == "__main__":
    main()
