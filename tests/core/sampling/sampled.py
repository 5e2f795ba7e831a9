"""Memories with samplers, for tests: over random lives, and of numbers."""

from dataclasses import dataclass, field, replace

import numpy as np

from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.types import ArraySpec, DiscreteActions, EnvSpec
from tests.oracles.history import Happened
from tests.oracles.worlds import Twin, World

NUMBER = EnvSpec({"obs": ArraySpec((), np.dtype(np.float32))}, DiscreteActions(2))
MIXED = {"uniform": 0.3, "prioritized": 0.25, "recent": 0.25, "balanced": 0.2}
SAMPLERS = {
    "balanced by reward": {"sampler": "balanced"},
    "balanced by return": {"sampler": "balanced", "balance_by": "return"},
    "recent": {"sampler": "recent", "recent_rows": 7, "recent_decay": 0.9},
    "mixture": {"sampler": "mixture", "mixture": MIXED, "balance_by": "return", "recent_rows": 5},
}


class Rounded:
    """A twin whose rewards are whole numbers, often 0."""

    def happening(self, code: int) -> Happened:
        happened = super().happening(code)  # type: ignore[misc]
        return replace(happened, reward=float(np.round(happened.reward)) + 0.0)


class RoundedTwin(Rounded, Twin):
    """A sequential memory, its slow twin, and rewards that are whole numbers."""


@dataclass(frozen=True)
class SampledWorld(World):
    """A world with more keys."""

    keys: dict = field(default_factory=dict)

    def memory(self) -> SequentialMemory:
        options = SequentialOptions(memory_limit=self.capacity, storage=self.storage, **self.keys)
        shared = SharedOptions(
            window_length=self.window, n_step=self.n_step, gamma=self.gamma, num_envs=self.lanes
        )
        return SequentialMemory(
            options, MemoryContext(self.env, shared, np.random.default_rng(self.seed))
        )


def ids_of(units) -> list[int]:
    """The names of units of a slow twin."""
    return [unit.lane * 2**40 + unit.row for unit in units]


def memory_of(limit: int, *, lanes: int = 1, seed: int = 0, progress=lambda: 0.0, **options):
    """A memory of numbers."""
    context = MemoryContext(
        NUMBER, SharedOptions(num_envs=lanes), np.random.default_rng(seed), progress=progress
    )
    return SequentialMemory(SequentialOptions(memory_limit=limit, **options), context)


def play(memory, rewards, length: int = 50) -> None:
    """Steps of one lane with those rewards, in episodes of `length`; obs name the step."""
    writer = memory.writer()
    no, obs = np.zeros(1, np.bool_), {"obs": np.zeros(1, np.float32)}
    for at, reward in enumerate(rewards):
        if at % length == 0:
            writer.start(obs)
        obs = {"obs": np.full(1, at + 1, np.float32)}
        end = no | ((at + 1) % length == 0)
        writer.append(np.zeros(1, int), np.full(1, reward), end, no, obs)
