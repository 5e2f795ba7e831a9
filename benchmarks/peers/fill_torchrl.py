"""TorchRL: a replay buffer over its dense storage, and over its compressing one."""

from collections.abc import Callable
from functools import partial
from itertools import islice

import numpy as np
import torch
from measure import Recording, Step, check_full, main, stacks
from tensordict import TensorDict
from torchrl.data import CompressedListStorage, LazyTensorStorage, ReplayBuffer, Storage

BATCH = 100  # transitions the collector hands over at once

Entry = Callable[[np.ndarray, np.ndarray, Step], TensorDict]


def nested_entry(obs: np.ndarray, next_obs: np.ndarray, step: Step) -> TensorDict:
    """A step as TorchRL's environments write it: what followed stands in a dict of its own.

    Pixels stay uint8, although its Atari recipe makes them floats of four times the size.
    """
    outcome = {
        "pixels": torch.from_numpy(next_obs),
        "reward": torch.tensor([step.reward], dtype=torch.float32),
        "done": torch.tensor([step.over]),
        "terminated": torch.tensor([step.terminated]),
        "truncated": torch.tensor([step.truncated]),
    }
    start = {
        "pixels": torch.from_numpy(obs),
        "action": torch.as_tensor(step.action),
        "done": torch.zeros(1, dtype=torch.bool),
        "terminated": torch.zeros(1, dtype=torch.bool),
        "truncated": torch.zeros(1, dtype=torch.bool),
    }
    return TensorDict({**start, "next": outcome})


def flat_entry(obs: np.ndarray, next_obs: np.ndarray, step: Step) -> TensorDict:
    """The least a learner can do with, in one dict: the compressing storage leaves nested ones raw.

    Each tensor more costs it about 800 bytes a transition, be it a single flag.
    """
    return TensorDict(
        {
            "pixels": torch.from_numpy(obs),
            "action": torch.as_tensor(step.action),
            "next_pixels": torch.from_numpy(next_obs),
            "reward": torch.tensor([step.reward], dtype=torch.float32),
            "terminated": torch.tensor([step.terminated]),
        }
    )


def fill(
    recording: Recording, transitions: int, storage: type[Storage], entry: Entry
) -> ReplayBuffer:
    """A full memory, filled in batches as a collector fills it."""
    memory = ReplayBuffer(storage=storage(transitions), batch_size=32)
    source = (entry(*row) for row in islice(stacks(recording, axis=0), transitions))
    while batch := list(islice(source, BATCH)):
        memory.extend(torch.stack(batch))
    check_full(len(memory), transitions)
    return memory


if __name__ == "__main__":
    modes = {
        "dense": partial(fill, storage=LazyTensorStorage, entry=nested_entry),
        "compressed": partial(fill, storage=CompressedListStorage, entry=nested_entry),
        "compressed_flat": partial(fill, storage=CompressedListStorage, entry=flat_entry),
    }
    main("torchrl", "torchrl", modes)
