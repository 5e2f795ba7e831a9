"""Memory: what every kind promises, and the parts they share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from .options import Options, SharedOptions, option
from .seeding import generator_state, restore_generator
from .types import Array, ArraySpec, Batch, Columns, EnvSpec, Tree, Unit


class MemoryOptions(Options):
    """The key that every kind of memory reads."""

    memory_limit: int = option(
        100_000,
        ge=2,
        unit="rows",
        help="rows the memory holds, split evenly over the lanes",
    )

    @property
    def takes_feedback(self) -> bool:
        """Whether agents are to tell it their errors; see `Memory.feedback`."""
        return False


@dataclass(frozen=True)
class MemoryContext:
    """What a memory is built from, beside its own options."""

    env: EnvSpec
    shared: SharedOptions
    rng: np.random.Generator
    extras: Mapping[str, ArraySpec] = field(default_factory=dict)
    parameters: int = 0
    """D, the numbers in the agent's policy."""

    forecasts: Mapping[str, float] = field(default_factory=dict)
    """Bytes that a compressed picture of a column is expected to take, as far as that is known."""

    folder: Path | None = None
    """Where a memory on disk lies, and where it is saved."""

    progress: Callable[[], float] = lambda: 0.0
    """Share of the run that is over."""

    unit: Unit | None = None
    """What `sample` is to give, of what the kind can; None: `Memory.gives`."""


class Plan(Protocol):
    """What a memory will take and hold."""

    @property
    def bytes_full(self) -> int:
        """Bytes once it is full, as far as is known."""

    @property
    def bytes_low(self) -> int:
        """Bytes once it is full, if pictures can be compressed better than in a short sample."""

    @property
    def bytes_high(self) -> int:
        """Bytes that it never exceeds."""

    @property
    def tiers(self) -> Mapping[str, int]:
        """Bytes of `bytes_full` by tier: heap, shared, disk."""

    @property
    def bytes_saved(self) -> int:
        """Bytes on disk that its log never exceeds, where it is saved in one."""

    @property
    def rows_full(self) -> int:
        """Rows held once it is full."""


class Writer(Protocol):
    """Fills a memory from some lanes; see `core.episodes.rows.RowWriter` for the terms."""

    def start(self, obs: Columns, lanes: NDArray[np.int64] | None = None) -> None:
        """The first observations of new episodes, `[L, ...]`."""

    def append(
        self,
        action: Array,
        reward: Array,
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        next_obs: Columns,
        extras: Columns | None = None,
        *,
        lost_life: NDArray[np.bool_] | None = None,
        lanes: NDArray[np.int64] | None = None,
    ) -> None:
        """One step of each lane, `[L, ...]`."""


class Newest(Protocol):
    """A memory of trajectories that knows the newest steps."""

    def latest(self, columns: Sequence[str] | None = None) -> Batch:
        """Each lane's newest `trajectory_length` steps, cut where episodes end; none is drawn."""


class Memory(ABC):
    """What the runtime writes and an agent learns from.

    A caller may rely on this: what is sampled equals bit for bit what was written; a unit never
    crosses an episode's end, a lane, or the edge of what is held; every legal unit can be drawn.
    """

    gives: ClassVar[Unit]
    also: ClassVar[tuple[Unit, ...]] = ()
    """What `sample` can give instead, where the context says so."""

    Options: ClassVar[type[MemoryOptions]] = MemoryOptions

    @classmethod
    @abstractmethod
    def plan(cls, options: MemoryOptions, context: MemoryContext) -> Plan:
        """What the memory will take and hold; raises UsageError for what cannot work."""

    @classmethod
    def pictures(cls, options: MemoryOptions, context: MemoryContext) -> tuple[str, ...]:
        """Columns that it compresses, so that only a look at them tells what they will take."""
        return ()

    @classmethod
    def forecast(
        cls, options: MemoryOptions, context: MemoryContext, frames: Columns
    ) -> dict[str, float]:
        """Bytes that a picture of those columns takes, by some, `[N, ...]` in order of play."""
        return {}

    @classmethod
    def most_units(cls, options: MemoryOptions, shared: SharedOptions) -> int:
        """The greatest `len` that such a memory can have."""
        return options.memory_limit

    @classmethod
    def given(cls, reads: Collection[Unit]) -> Unit | None:
        """The unit for an agent that reads those; None where this kind has none of them."""
        return next((unit for unit in (cls.gives, *cls.also) if unit in reads), None)

    def __init__(self, options: MemoryOptions, context: MemoryContext) -> None:
        self._rng = context.rng

    @abstractmethod
    def writer(self, lanes: Sequence[int] | None = None) -> Writer:
        """The one writer of those lanes, by default of all."""

    @abstractmethod
    def sample(
        self,
        batch_size: int,
        *,
        columns: Sequence[str] | None = None,
        out: Batch | None = None,
    ) -> Batch:
        """A batch of `batch_size` units, drawn with replacement.

        `columns` names what to read, by default everything. Arrays are fresh, unless `out` gives
        some to fill; those are valid until the next sample. Those of an observation and its
        successor may be views of one. Raises ValueError while empty.
        """

    def statistics(self) -> dict[str, float | None]:
        """How it is drawn from, since this was last asked; see `core.sampling.statistics`."""
        return {}

    @property
    def takes_feedback(self) -> bool:
        """Whether `feedback` changes anything."""
        return False

    def feedback(  # noqa: B027  most memories do nothing
        self, ids: NDArray[np.int64], errors: NDArray[np.floating]
    ) -> None:
        """Tells how wrong the agent was about sampled units, `[B]` each; the sign means nothing.

        Most memories do nothing. Units that are gone meanwhile are passed over. Raises
        RunFailedError, and changes nothing, where an error is not finite.
        """

    @abstractmethod
    def __len__(self) -> int:
        """Legal units: how many different ones a batch may hold."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """Rows held."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Rows there is room for; bytes may run out before."""

    @property
    @abstractmethod
    def full(self) -> bool:
        """Whether it holds what it ever will: from here on old rows go for new ones."""

    @property
    @abstractmethod
    def bytes_full(self) -> int:
        """Bytes it takes once full."""

    @property
    def short_of_bytes(self) -> bool:
        """Whether it lets go of what it has room for, since bytes run out first."""
        return False

    @abstractmethod
    def usage(self) -> dict[str, int]:
        """Bytes in use, by tier."""

    @abstractmethod
    def check(self) -> None:
        """Proves the invariants of what is held; raises CorruptMemoryError with what is wrong."""

    def ready(self, units: int) -> bool:
        """Whether `units` units are there, or as many as there can be."""
        count = len(self)
        return count >= units or (count > 0 and self.full)

    def state(self) -> Tree:
        """Everything that changes, for a checkpoint."""
        return {"rng": generator_state(self._rng)}

    def load(self, state: Tree) -> None:
        """Takes over a saved state."""
        restore_generator(self._rng, state["rng"])
