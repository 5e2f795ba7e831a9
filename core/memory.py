"""Memory: what every kind promises, and the parts they share."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from .episodes.rows import Evict, RowWriter, check_rows, plan_rows
from .errors import UsageError
from .options import Options, SharedOptions, option
from .sampling.uniform import Draw, LegalStarts, Sampler
from .seeding import generator_state, restore_generator
from .storage.columns import Chunking, FloatRule, FrameCodec, FrameRule
from .storage.ring import RingBuffer, StorePlan, plan_store
from .types import Array, ArraySpec, Batch, Columns, EnvSpec, Tree, Unit


class MemoryOptions(Options):
    """The key that every kind of memory reads."""

    memory_limit: int = option(
        100_000,
        ge=2,
        unit="rows",
        help="rows the memory holds, split evenly over the lanes",
    )


class RowMemoryOptions(MemoryOptions):
    """Keys of the memories that keep rows of episodes."""

    frames: FrameRule = option("auto", help="keep pictures apart from the packed rows")
    float_frames: FloatRule = option(
        "exact",
        help="float pictures: store as uint8 where exact and refuse else, or keep as is",
    )
    frame_codec: FrameCodec = option("raw", help="how pictures are compressed, without loss")
    chunk_frames: int = option(
        16, ge=2, le=256, unit="frames", help="pictures of a lane compressed together"
    )
    frame_dictionary: bool = option(
        False, help="zstd: learn a dictionary from the first pictures; halves quiet games"
    )

    @model_validator(mode="after")
    def _dictionary(self) -> Self:
        if self.frame_dictionary and self.frame_codec != "zstd":
            raise ValueError("frame_dictionary with frame_codec zstd alone")
        return self


@dataclass(frozen=True)
class MemoryContext:
    """What a memory is built from, beside its own options."""

    env: EnvSpec
    shared: SharedOptions
    rng: np.random.Generator
    extras: Mapping[str, ArraySpec] = field(default_factory=dict)
    parameters: int = 0
    """D, the numbers in the agent's policy."""


class Plan(Protocol):
    """What a memory will take."""

    @property
    def bytes_full(self) -> int:
        """Bytes once it is full, at most."""

    @property
    def bytes_least(self) -> int:
        """Bytes once it is full, however well pictures can be compressed."""


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


class Memory(ABC):
    """What the runtime writes and an agent learns from.

    A caller may rely on this: what is sampled equals bit for bit what was written; a unit never
    crosses an episode's end, a lane, or the edge of what is held; every legal unit can be drawn.
    """

    gives: ClassVar[Unit]
    Options: ClassVar[type[MemoryOptions]] = MemoryOptions

    @classmethod
    @abstractmethod
    def plan(cls, options: MemoryOptions, context: MemoryContext) -> Plan:
        """What the memory will take when full; raises UsageError for what cannot work."""

    @classmethod
    def most_units(cls, options: MemoryOptions, shared: SharedOptions) -> int:
        """The greatest `len` that such a memory can have."""
        return options.memory_limit

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
        """Rows it holds once full."""

    @property
    @abstractmethod
    def full(self) -> bool:
        """Whether each new row evicts an old one."""

    @property
    @abstractmethod
    def bytes_full(self) -> int:
        """Bytes it takes once full."""

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


class UnitReader(Protocol):
    """Gathers the units of a draw."""

    def read(
        self, draw: Draw, columns: Sequence[str] | None = None, out: Batch | None = None
    ) -> Batch:
        """The units that start at those rows; see `Memory.sample` for the arguments."""


class RingMemory(Memory):
    """A memory over one ring of episode rows: where units start, which are drawn, what is read.

    Its kinds differ in those three, which they put in place.
    """

    starts: LegalStarts
    reader: UnitReader
    _sampler: Sampler

    evict: ClassVar[Evict | None] = None
    """What goes beside the one row that makes room for a new one."""

    @classmethod
    def most_units(cls, options: MemoryOptions, shared: SharedOptions) -> int:
        """See `Memory.most_units`: each lane's newest row has no step yet."""
        return options.memory_limit - shared.num_envs

    @staticmethod
    @abstractmethod
    def least_rows(shared: SharedOptions) -> tuple[int, str]:
        """Rows that a lane needs, and the keys that say so."""

    @classmethod
    def plan(cls, options: MemoryOptions, context: MemoryContext) -> StorePlan:
        """See `Memory.plan`."""
        own = cast(RowMemoryOptions, options)
        chunking = Chunking(own.frame_codec, own.chunk_frames, own.frame_dictionary)
        columns = plan_rows(context.env, context.extras, own.frames, own.float_frames, chunking)
        plan = plan_store(columns, context.shared.num_envs, options.memory_limit)
        least, keys = cls.least_rows(context.shared)
        if plan.rows_per_lane < least:
            raise UsageError(
                f"memory_limit {options.memory_limit} gives each of {context.shared.num_envs} envs "
                f"{plan.rows_per_lane} rows; {keys} need {least}"
            )
        return plan

    def __init__(self, options: MemoryOptions, context: MemoryContext) -> None:
        super().__init__(options, context)
        self._env = context.env
        self._ring = RingBuffer(self.plan(options, context))

    def writer(self, lanes: Sequence[int] | None = None) -> RowWriter:
        """See `Memory.writer`."""
        chosen = np.arange(self._ring.plan.lanes) if lanes is None else np.asarray(lanes, np.int64)
        return RowWriter(self._ring, self._env, chosen, type(self).evict)

    def __len__(self) -> int:
        """See `Memory.__len__`."""
        return len(self.starts)

    def sample(
        self,
        batch_size: int,
        *,
        columns: Sequence[str] | None = None,
        out: Batch | None = None,
    ) -> Batch:
        """See `Memory.sample`."""
        draw = self._sampler.draw(self.starts, batch_size, self._rng)
        return self.reader.read(draw, columns, out)

    @property
    def rows(self) -> int:
        """See `Memory.rows`."""
        return self._ring.held

    @property
    def capacity(self) -> int:
        """See `Memory.capacity`."""
        return self._ring.plan.rows

    @property
    def full(self) -> bool:
        """See `Memory.full`."""
        return self._ring.full

    @property
    def bytes_full(self) -> int:
        """See `Memory.bytes_full`."""
        return self._ring.plan.bytes_full

    def usage(self) -> dict[str, int]:
        """See `Memory.usage`."""
        return self._ring.usage()

    def check(self) -> None:
        """See `Memory.check`."""
        self._ring.check()
        check_rows(self._ring)

    def state(self) -> Tree:
        """See `Memory.state`."""
        return {**super().state(), "ring": self._ring.state()}

    def load(self, state: Tree) -> None:
        """See `Memory.load`."""
        self._ring.load(state["ring"])
        super().load(state)
