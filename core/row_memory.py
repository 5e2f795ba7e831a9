"""Memories over one ring of episode rows: their options, and the parts they share."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import ByteSize, model_validator

from .episodes.rows import Evict, RowWriter, check_rows, plan_rows
from .errors import UsageError
from .memory import Memory, MemoryContext, MemoryOptions
from .options import SharedOptions, option
from .prefetch import NOTHING, Prefetch
from .sampling.layout import BytesOf, SampledPlan
from .sampling.statistics import Use, use_bytes
from .sampling.uniform import Draw, LegalStarts, Sampler
from .sizes import size_of
from .storage.allocators import Allocator, Heap
from .storage.columns import Chunking, ColumnPlan, FloatRule, FrameCodec, FrameRule
from .storage.disk import Disk
from .storage.plan import Storage, StorePlan, plan_store
from .storage.ring import RingBuffer
from .storage.shared import Shared
from .storage.view import RingView
from .types import Batch, Columns, Tree

if TYPE_CHECKING:
    from .sampling.prioritized import Prioritized


class RowMemoryOptions(MemoryOptions):
    """Keys of the memories that keep rows of episodes."""

    memory_bytes: ByteSize = option(
        ByteSize(0),
        help="what the memory may take in all, as 2GB: the oldest rows go where it is reached; "
        "0: what memory_limit rows take",
    )

    frames: FrameRule = option("auto", help="keep pictures apart from the packed rows")
    float_frames: FloatRule = option(
        "exact",
        help="float pictures: store as uint8 where exact and refuse else, or keep as is",
    )
    frame_codec: FrameCodec = option("lz4", help="how pictures are compressed, without loss")
    chunk_frames: int = option(
        16, ge=2, le=256, unit="frames", help="pictures of a lane compressed together"
    )
    frame_dictionary: bool = option(
        False, help="zstd: learn a dictionary from the first pictures; halves quiet games"
    )
    storage: Storage = option(
        "heap",
        help="where it lies: private memory; memory that other processes read and write; disk, "
        "for what is larger than memory",
    )
    disk_tmpfs: bool = option(
        False, help="let storage disk lie on a file system that is itself memory"
    )
    prefetch: int = option(
        0, ge=0, le=64, unit="batches", help="batches that a thread reads ahead of learning"
    )

    @property
    def beside(self) -> tuple[BytesOf, ...]:
        """What is kept of each row on the heap beside the ring."""
        return ()

    @model_validator(mode="after")
    def _dictionary(self) -> Self:
        if self.frame_dictionary and self.frame_codec != "zstd":
            raise ValueError("frame_dictionary with frame_codec zstd alone")
        if self.prefetch and self.storage == "shared":
            raise ValueError("prefetch with storage heap or disk: others write what is shared")
        return self


def allocator(options: RowMemoryOptions, folder: Path | None) -> Allocator:
    """Where the bytes go. Raises UsageError where that tier cannot be used."""
    if options.storage == "heap":
        return Heap()
    if options.storage == "shared":
        return Shared()
    if folder is None:
        raise UsageError("a memory of storage disk needs a folder to lie in")
    return Disk(folder, options.disk_tmpfs)


class Kept(Protocol):
    """A part of a memory, beside its ring, that changes as it is drawn from."""

    @property
    def bytes(self) -> int:
        """Bytes on the heap."""

    def state(self) -> Tree:
        """Everything that changes and does not follow from the rows."""

    def load(self, state: Tree) -> None:
        """Takes over a saved state, after the ring took over its own."""

    def check(self) -> None:
        """Raises CorruptMemoryError with what is wrong."""


class Told(Protocol):
    """A part of a memory that learns from errors."""

    stale: int
    """Errors told of units that were gone by then, and ignored."""

    def feedback(self, ids: NDArray[np.int64], errors: NDArray[np.floating]) -> None:
        """See `Memory.feedback`."""


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
    _priorities: "Prioritized | None" = None
    """What is drawn by, where errors decide."""

    _told: Told | None = None
    """What learns from errors."""

    _kept: Mapping[str, Kept] = {}
    """What else is saved, by name."""

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
    def columns(cls, options: MemoryOptions, context: MemoryContext) -> list[ColumnPlan]:
        """How a row is laid out."""
        own = cast(RowMemoryOptions, options)
        kept = own.storage == "disk"
        chunking = Chunking(own.frame_codec, own.chunk_frames, own.frame_dictionary, kept)
        return plan_rows(context.env, context.extras, own.frames, own.float_frames, chunking)

    @classmethod
    def pictures(cls, options: MemoryOptions, context: MemoryContext) -> tuple[str, ...]:
        """See `Memory.pictures`."""
        columns = cls.columns(options, context)
        return tuple(x.name for x in columns if x.kind == "chunks" and x.chunking.codec != "raw")

    @classmethod
    def forecast(
        cls, options: MemoryOptions, context: MemoryContext, frames: Columns
    ) -> dict[str, float]:
        """See `Memory.forecast`."""
        from .storage.forecast import forecast_bytes  # numba, only where it is used

        plans = {plan.name: plan for plan in cls.columns(options, context)}
        return {name: forecast_bytes(plans[name], array) for name, array in frames.items()}

    @classmethod
    def store(
        cls, options: RowMemoryOptions, columns: Sequence[ColumnPlan], lanes: int
    ) -> StorePlan:
        """What it takes, without a bound on bytes."""
        plan = plan_store(columns, lanes, options.memory_limit, options.storage)
        beside = (*options.beside, use_bytes)
        rows = plan.rows_per_lane
        return SampledPlan(plan.columns, lanes, rows, storage=plan.storage, beside=beside)

    @classmethod
    def plan(cls, options: MemoryOptions, context: MemoryContext) -> StorePlan:
        """See `Memory.plan`."""
        own, lanes = cast(RowMemoryOptions, options), context.shared.num_envs
        least, keys = cls.least_rows(context.shared)
        free = cls.store(own, cls.columns(options, context), lanes)
        if free.rows_per_lane < least:
            raise UsageError(
                f"memory_limit {own.memory_limit} gives each of {lanes} envs "
                f"{free.rows_per_lane} rows; {keys} need {least}"
            )
        plan = free.bounded(own.memory_bytes, context.forecasts, least)
        if not plan.holds(least):
            raise UsageError(
                f"memory_bytes {size_of(own.memory_bytes)} is too little for {lanes} envs: "
                f"{keys} need {least} rows of each; set --memory_bytes {plan.bytes_for(least)} "
                "or more"
            )
        return plan

    def __init__(self, options: MemoryOptions, context: MemoryContext) -> None:
        super().__init__(options, context)
        self._env = context.env
        own = cast(RowMemoryOptions, options)
        self._ring = RingBuffer(self.plan(options, context), allocator(own, context.folder))
        self._view = RingView(self._ring)
        self.use = Use(self._ring, self._view)
        self._prefetch: Prefetch | None = None
        if own.prefetch:
            self._prefetch = Prefetch(own.prefetch, self._draw, self._read)
            self._ring.settle = self._prefetch.settle

    def writer(self, lanes: Sequence[int] | None = None) -> RowWriter:
        """See `Memory.writer`."""
        chosen = np.arange(self._ring.plan.lanes) if lanes is None else np.array(lanes, np.int64)
        return RowWriter(self._ring, self._env, chosen, type(self).evict)

    def __len__(self) -> int:
        """See `Memory.__len__`."""
        return self._view.steadily(lambda: len(self.starts))

    def sample(
        self,
        batch_size: int,
        *,
        columns: Sequence[str] | None = None,
        out: Batch | None = None,
    ) -> Batch:
        """See `Memory.sample`."""
        if self._prefetch is not None and out is None:
            return self._prefetch.sample(batch_size, columns)
        self._ring.settle()
        return self._view.steadily(lambda: self.reader.read(self._draw(batch_size), columns, out))

    def _draw(self, batch_size: int) -> Draw:
        draw = self._sampler.draw(self.starts, batch_size, self._rng)
        self.use.tell(draw.lanes, draw.rows)
        return draw

    def statistics(self) -> dict[str, float | None]:
        """See `Memory.statistics`."""
        return self._view.steadily(self.use.read)

    def _read(self, draw: Draw, columns: Sequence[str] | None) -> Batch:
        return self.reader.read(draw, columns)

    @property
    def _parts(self) -> Mapping[str, Kept]:
        return {**self._kept, "use": self.use}

    @property
    def takes_feedback(self) -> bool:
        """See `Memory.takes_feedback`."""
        return self._told is not None

    def feedback(self, ids: NDArray[np.int64], errors: NDArray[np.floating]) -> None:
        """See `Memory.feedback`."""
        if self._told is not None:
            self._told.feedback(ids, errors)

    @property
    def stale_feedback(self) -> int:
        """Errors that came when their unit was gone, and were ignored."""
        return self._told.stale if self._told is not None else 0

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

    @property
    def short_of_bytes(self) -> bool:
        """See `Memory.short_of_bytes`."""
        return self._ring.short_of_bytes

    def usage(self) -> dict[str, int]:
        """See `Memory.usage`."""
        usage = self._ring.usage()
        beside = sum(part.bytes for part in self._parts.values())
        if self._priorities is not None:
            beside += self._priorities.bytes
        usage["heap"] = usage.get("heap", 0) + beside
        return usage

    def check(self) -> None:
        """See `Memory.check`."""
        self._ring.settle()
        self._ring.check()
        check_rows(self._ring)
        if self._priorities is not None:
            self._priorities.check()
        for part in self._parts.values():
            part.check()

    @property
    def ring(self) -> RingBuffer:
        """Where the rows are."""
        return self._ring

    @property
    def priorities(self) -> "Prioritized | None":
        """What is drawn by, where errors decide."""
        return self._priorities

    def own_state(self) -> Tree:
        """What changes beside the ring."""
        state = dict(super().state())
        if self._priorities is not None:
            state["sampler"] = self._priorities.state()
        state["kept"] = {name: part.state() for name, part in self._parts.items()}
        if self._prefetch is not None:
            state["prefetch"] = self._prefetch.state()
        return state

    def load_own(self, state: Tree) -> None:
        """Takes over what `own_state` gave."""
        super().load(state)
        if self._priorities is not None:
            self._priorities.load(state["sampler"])
        for name, part in self._parts.items():
            part.load(state["kept"][name])
        if self._prefetch is not None:
            self._prefetch.load(state.get("prefetch", NOTHING))

    def state(self) -> Tree:
        """See `Memory.state`."""
        return {**self.own_state(), "ring": self._ring.state()}

    def load(self, state: Tree) -> None:
        """See `Memory.load`."""
        self._ring.load(state["ring"])
        self.load_own(state)
