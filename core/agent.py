"""What the loops need of an agent; every agent is used through this alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from .errors import UsageError
from .memory import Memory, MemoryOptions
from .options import Options, SharedOptions
from .schedules import Clock
from .seeding import SeedTree
from .types import Array, ArraySpec, Columns, EnvSpec, Tree, Unit

Metrics = Mapping[str, float]


class AgentOptions(Options):
    """Base of the agents' options, with what the factory checks before anything is built."""

    reads: ClassVar[frozenset[Unit]] = frozenset()
    actions: ClassVar[frozenset[str]] = frozenset({"discrete", "continuous"})
    models: ClassVar[frozenset[str]] = frozenset()

    def check(self, shared: SharedOptions, most_units: int) -> None:
        """Raises UsageError where these keys contradict the run's, or the memory's most units."""

    def check_memory(self, memory: MemoryOptions) -> None:
        """Raises UsageError where these keys and the memory's contradict each other."""
        if memory.takes_feedback:
            raise UsageError(
                "sampler prioritized needs errors, and this agent tells none; set --sampler uniform"
            )


@dataclass(frozen=True)
class AgentContext:
    """What an agent is built from, beside its own options and its network."""

    env: EnvSpec
    shared: SharedOptions
    seeds: SeedTree
    clock: Clock
    say: Callable[[str], None] = lambda line: None
    """Tells the person a line, now or as soon as there is somebody to tell."""


Restart = tuple[NDArray[np.int64], Sequence[int]]
"""Lanes to begin anew, and the seeds of their episodes."""


class Actor(Protocol):
    """Chooses actions in some lanes; owns their frame stacks and its own generator."""

    @property
    def playing(self) -> NDArray[np.bool_] | None:
        """Lanes whose steps count, `[L]`; None for all. The others wait for something to play."""

    def restarts(self, first: NDArray[np.bool_]) -> Restart | None:
        """Lanes that the actor wants to begin anew before it acts, asked before every step.

        `first` is what `act` will get. Most agents never ask.
        """

    def act(
        self, obs: Columns, first: NDArray[np.bool_], step: int, *, explore: bool
    ) -> tuple[Array, Columns]:
        """Actions `[L]` or `[L, A]` for observations `[L, ...]`, and the extras to store.

        `first` marks lanes whose episode begins here; `step` is the clock; without `explore` the
        actions are the greedy ones.
        """

    def take(self, weights: Tree) -> None:
        """Acts with these weights from now on, as `Agent.weights` gave them."""

    def broken_off(self, lanes: NDArray[np.bool_]) -> None:
        """Told that the open episodes of these lanes, `[L]`, never end; the lanes begin anew.

        Most agents do not mind. Who needs an episode's end plays it again.
        """

    def state(self) -> Tree:
        """Everything that acting changes, copied; not the weights, which the agent has."""

    def load(self, state: Tree) -> None:
        """Takes over a saved state, after its agent took over its own."""


class Agent(Protocol):
    """Learns from a memory."""

    metrics: tuple[str, ...]
    """Names of what `learn` reports, fixed; `loss` and `q_mean` are among the run's own."""

    updates: int
    """Optimizer steps so far."""

    @property
    def parameters(self) -> int:
        """D, the numbers in its policy."""

    def extras(self) -> Mapping[str, ArraySpec]:
        """Columns that the actor adds to each step; known before the memory is built."""

    def actor(self, lanes: int, rng: np.random.Generator, *, weights: Tree | None = None) -> Actor:
        """An actor that follows this agent as it learns or, given weights, keeps to those."""

    def learn(self, memory: Memory) -> Metrics:
        """One update. Raises RunFailedError, naming the tensor, where a number is not finite."""

    def exploration(self, step: int) -> float | None:
        """Share of random actions at a step, or None where that means nothing."""

    def weights(self) -> Tree:
        """What acting needs, copied."""

    def state(self) -> Tree:
        """Everything that learning changes, for a checkpoint."""

    def load(self, state: Tree) -> None:
        """Takes over a saved state."""
