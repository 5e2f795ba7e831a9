"""TorchRL as it is read: transitions dense or compressed, slices, vectors, by priority.

Slices are of stacks without their successors, one step longer than is asked for: so they hold what
a window of ours holds, and are half of what its own way of writing makes of them.
"""

from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from fill_torchrl import BATCH, fill, flat_entry, nested_entry
from measure import Recording, check_full, load, stacks
from serve import ALPHA, BETA, Pair, Reads, Work, blocks, errors, serve, settings, vectors
from tensordict import TensorDict
from torchrl.data import (
    CompressedListStorage,
    LazyTensorStorage,
    PrioritizedSampler,
    ReplayBuffer,
    SliceSampler,
    TensorDictReplayBuffer,
)

ENTRIES = {
    "dense": (LazyTensorStorage, nested_entry),
    "compressed_flat": (CompressedListStorage, flat_entry),
}


def rows(recording: Recording, count: int) -> ReplayBuffer:
    """A full memory of vectors."""
    memory = ReplayBuffer(storage=LazyTensorStorage(count), batch_size=32)
    for block in blocks(recording, count):
        column = {name: torch.from_numpy(array) for name, array in block.items()}
        ends = {"done": column["over"][:, None], "terminated": column["terminated"][:, None]}
        following = {"obs": column["next_obs"], "reward": column["reward"][:, None], **ends}
        entry = {"obs": column["obs"], "action": column["action"], "next": following}
        memory.extend(TensorDict(entry, [len(column["obs"])]))
    check_full(len(memory), count)
    return memory


def by_priority(recording: Recording, count: int, flat: bool) -> ReplayBuffer:
    """A full memory whose sampler goes by priority. Raises where its extension does not load."""
    sampler = PrioritizedSampler(count, ALPHA, BETA)
    dense = partial(fill, storage=LazyTensorStorage, entry=nested_entry)
    held = (rows if flat else dense)(recording, count)
    memory = ReplayBuffer(storage=LazyTensorStorage(count), sampler=sampler, batch_size=32)
    for begin in range(0, count, 1_000):
        memory.extend(held[begin : begin + 1_000])
    return memory


def slices(recording: Recording, count: int, length: int, many: int) -> ReplayBuffer:
    """A full memory of single steps, drawn `many` slices of so many at once."""
    sampler = SliceSampler(
        slice_len=length, end_key=("next", "done"), init_key=None, truncated_key=None
    )
    memory = TensorDictReplayBuffer(
        storage=LazyTensorStorage(count), sampler=sampler, batch_size=length * many
    )
    walk = islice(stacks(recording, axis=0), count)
    while batch := list(islice(walk, BATCH)):
        following = {
            "reward": torch.tensor([[step.reward] for _, _, step in batch]),
            "done": torch.tensor([[step.over] for _, _, step in batch]),
            "terminated": torch.tensor([[step.terminated] for _, _, step in batch]),
        }
        entry = {
            "pixels": torch.stack([torch.from_numpy(obs) for obs, _, _ in batch]),
            "action": torch.tensor([step.action for _, _, step in batch]),
            "next": following,
        }
        memory.extend(TensorDict(entry, [len(batch)]))
    check_full(len(memory), count)
    return memory


def pair_of(batch: Any, flat: bool) -> Pair:
    """Observations and successors of a batch."""
    name = "obs" if flat else "pixels"
    following = batch["next_pixels"] if "next_pixels" in batch else batch["next", name]
    obs, next_obs = batch[name].numpy(), following.numpy()
    return (obs[:, None], next_obs[:, None]) if flat else (obs, next_obs)


def to_input(memory: ReplayBuffer, size: int) -> Work:
    """A batch as float32 tensors `[B, 4, H, W]` from 0 to 1."""

    def work() -> list[torch.Tensor]:
        batch = memory.sample(size)
        return [batch[key].float().div_(255) for key in ("pixels", ("next", "pixels"))]

    return work


def told(memory: ReplayBuffer, size: int) -> Work:
    """A batch, and the errors of it."""
    sizes = torch.from_numpy(errors(size))

    def work() -> None:
        _, info = memory.sample(size, return_info=True)
        memory.update_priority(info["index"], sizes)

    return work


def windows(recording: Recording, given: dict[str, Any]) -> Reads:
    """Slices, and what they are beside the recording."""
    many, length = int(given["loops"][0].split()[1]), given["length"]
    memory = slices(recording, given["count"], length + 1, many)

    def look(size: int) -> Pair:
        pixels = memory.sample()["pixels"].numpy().reshape(many, length + 1, 4, 84, 84)
        obs, next_obs = pixels[:, :-1], pixels[:, 1:]
        return obs.reshape(-1, 4, 84, 84)[:size], next_obs.reshape(-1, 4, 84, 84)[:size]

    return Reads({"windows": lambda _: memory.sample}, look, length)


def transitions(recording: Recording, given: dict[str, Any]) -> Reads:
    """Single steps, of stacks or of vectors."""
    flat, count, mode = given["what"] == "vectors", given["count"], given["mode"]
    if mode == "prioritized":
        memory = by_priority(recording, count, flat)
    elif flat:
        memory = rows(recording, count)
    else:
        storage, entry = ENTRIES[mode]
        memory = fill(recording, count, storage, entry)
    works = {
        "uniform": lambda size: lambda: memory.sample(size),
        "input": lambda size: to_input(memory, size),
        "prioritized": lambda size: told(memory, size),
    }
    return Reads(works, lambda size: pair_of(memory.sample(size), flat))


def main() -> None:
    """Fills, and reads as it is told."""
    given = settings()
    torch.set_num_threads(1)
    flat = given["what"] == "vectors"
    recording = Recording(**vectors()) if flat else load(Path(given["folder"]))
    make = windows if given["what"] == "windows" else transitions
    serve("torchrl", recording, make(recording, given), given)


if __name__ == "__main__":
    main()
