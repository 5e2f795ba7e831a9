"""The ring: lanes of rows with 64-bit counters. The only code that knows where the seam is."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptMemoryError
from ..types import Array, Tree
from .allocators import Allocator, Heap
from .columns import Column, ColumnPlan, FrameColumn, PackedColumn, Where, packed_dtype
from .fields import Fields, Wish
from .plan import StorePlan

if TYPE_CHECKING:
    from .chunks import ChunkedColumn

INT64: Final = np.dtype(np.int64)


class RingBuffer:
    """Fixed rows a lane; the oldest row of a lane makes room for its newest.

    `heads[lane]` rows were ever written; those from `tails[lane]` on are held. Row counters never
    wrap: a row keeps its number for ever, and only its slot is used again.
    """

    def __init__(self, plan: StorePlan, allocator: Allocator | None = None) -> None:
        self._allocator = allocator = allocator or Heap()
        self.plan = plan
        self.loads = 0
        """How often it took over a saved state, after which no row is where it was."""

        counters = allocator.allocate((3, plan.lanes), INT64)
        self.settle: Callable[[], None] = lambda: None
        """Called before anything is written: waits for who reads it in a thread."""

        self.heads: NDArray[np.int64] = counters[0]
        self.tails: NDArray[np.int64] = counters[1]
        self._short = counters[2]
        self._records = allocator.bulk((plan.rows,), packed_dtype(plan.columns))
        self._shapes = {column.name: column.spec.shape for column in plan.columns}
        self._columns: dict[str, Column] = {}
        self._frames: dict[str, Array] = {}
        self._chunks: list[ChunkedColumn] = []
        for column in plan.columns:
            if column.kind == "packed":
                self._columns[column.name] = PackedColumn(column, self._records)
            elif column.kind == "chunks":
                self._add_chunks(column, allocator)
            else:
                shape = (plan.rows, *column.spec.shape)
                frames = self._frames[column.name] = allocator.bulk(shape, column.stored)
                self._columns[column.name] = FrameColumn(column, frames)

    def _add_chunks(self, column: ColumnPlan, allocator: Allocator) -> None:
        from .chunks import ChunkedColumn  # numba compiles for a while: only where it is used

        name = f"frames-{len(self._chunks)}"
        chunks = ChunkedColumn(self.plan.layouts[column.name], allocator, name)
        self._columns[column.name] = chunks
        self._chunks.append(chunks)

    def where(self, lanes: NDArray[np.int64], rows: NDArray[np.int64]) -> Where:
        """Finds rows; `lanes` and `rows` broadcast. The rows have to be held."""
        slots = lanes * self.plan.rows_per_lane + rows % self.plan.rows_per_lane
        return Where(lanes, rows, slots)

    def make_room(self, lanes: NDArray[np.int64]) -> Where:
        """Where the next row of each lane goes, its oldest evicted if the lane is full.

        The row is not held until `publish`.
        """
        self.settle()
        rows = self.heads[lanes]
        self.tails[lanes] = np.maximum(self.tails[lanes], rows + 1 - self.plan.rows_per_lane)
        for chunks in self._chunks:
            if chunks.make_room(lanes, rows, self.tails):
                self._short[lanes] = True
        return self.where(lanes, rows)

    def evict(self, lanes: NDArray[np.int64], tails: NDArray[np.int64]) -> None:
        """Lets go of the rows before `tails`; what was let go before stays so."""
        self.tails[lanes] = np.maximum(self.tails[lanes], np.minimum(tails, self.heads[lanes]))

    def publish(self, lanes: NDArray[np.int64]) -> None:
        """Makes the row of the last `make_room` part of each lane."""
        self.heads[lanes] += 1

    def write(self, where: Where, values: Mapping[str, Array]) -> None:
        """Copies items into rows. Raises ValueError where a shape is not `[n, *item]`."""
        for name, value in values.items():
            items = np.asarray(value)
            expected = where.slots.shape + self._shapes[name]
            if items.shape != expected:
                raise ValueError(f"'{name}' has shape {items.shape}, not {expected}")
            self._columns[name].write(where, items)

    def gather(self, name: str, where: Where, out: Array | None = None) -> Array:
        """The items of rows, `[*where, *item]`, copied once: into `out`, or fresh."""
        return self._columns[name].gather(where, out)

    def book(self, name: str) -> Array:
        """A packed column as it lies, by slot, `[rows, *item]`: for loops that read a few of it."""
        field: Array = self._records[name]
        return field

    @property
    def packed(self) -> tuple[Array, int]:
        """The packed rows as flat bytes, and how many a row takes."""
        return self._records.view(np.uint8).reshape(-1), self._records.itemsize

    def fields(self, wishes: Mapping[str, Wish]) -> Fields:
        """A reader of some packed columns at once, whatever rows it is asked for."""
        return Fields(self._records, {plan.name: plan for plan in self.plan.columns}, wishes)

    @property
    def alone(self) -> bool:
        """Whether no other process can write it."""
        return self._allocator.alone

    @property
    def kept(self) -> bool:
        """Whether closed chunks are where a restart finds them."""
        return self.plan.storage == "disk"

    def flush(self) -> None:
        """Makes what is kept survive a loss of power. Raises OSError where the disk fails."""
        self._allocator.flush()

    def recall(self, lanes: NDArray[np.int64]) -> None:
        """Takes up lanes that another process wrote, to write them from here on."""
        for chunks in self._chunks:
            chunks.recall(lanes)

    @property
    def tier(self) -> str:
        """Where what is large lies."""
        return self._allocator.tier

    def __reduce__(self) -> Any:
        return RingBuffer, (self.plan, self._allocator)

    def __deepcopy__(self, memo: object) -> "RingBuffer":
        copy = RingBuffer(self.plan)
        copy.load(self.state())
        return copy

    @property
    def short_of_bytes(self) -> bool:
        """Whether rows ever went for want of bytes, before there were too many of them."""
        return bool(self._short.any())

    @property
    def held(self) -> int:
        """Rows held, over all lanes."""
        return int((self.heads - self.tails).sum())

    @property
    def full(self) -> bool:
        """Whether every lane has let go of rows, or is about to: it holds what it ever will."""
        return bool(((self.heads >= self.plan.rows_per_lane) | (self.tails > 0)).all())

    def usage(self) -> dict[str, int]:
        """Bytes in use by tier: what was reserved, or else the slots that were ever written."""
        reserved = self._allocator.reserved
        if reserved is not None:
            private = sum(chunks.private for chunks in self._chunks)
            return {**reserved, "heap": reserved.get("heap", 0) + private}
        written = int(np.minimum(self.heads, self.plan.rows_per_lane).sum())
        packed = written * self._records.itemsize
        own = sum(column.usage(written) for column in self._columns.values())
        return {self.tier: packed + own}

    def state(self) -> Tree:
        """Counters and every slot, as they are; the arrays are not copied."""
        return {
            "heads": self.heads,
            "tails": self.tails,
            "records": self._records.view(np.uint8).reshape(self.plan.rows, -1),
            "frames": dict(self._frames),
            "chunks": {chunks.plan.name: chunks.state() for chunks in self._chunks},
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes over a state of a ring of the same plan. Raises ValueError for another plan's."""
        mine = self.state()
        pairs = [(mine[key], state[key]) for key in ("heads", "tails", "records")]
        pairs += [(frames, state["frames"][name]) for name, frames in self._frames.items()]
        for target, source in pairs:
            if target.shape != source.shape or target.dtype != source.dtype:
                raise ValueError(f"a store of shape {source.shape}, not {target.shape}")
        self.loads += 1
        for target, source in pairs:
            target[...] = source
        for chunks in self._chunks:
            chunks.load(state["chunks"][chunks.plan.name])

    def slots(self, lane: int, first: int, last: int) -> list[slice]:
        """Where the rows from `first` to before `last` lie: a run of slots, or two at the seam."""
        size = self.plan.rows_per_lane
        begin, count = first % size, last - first
        before = min(count, size - begin)
        runs = [slice(lane * size + begin, lane * size + begin + before)]
        if count > before:
            runs.append(slice(lane * size, lane * size + count - before))
        return runs

    @property
    def arrays(self) -> list[Array]:
        """The packed rows and the raw frames, as bytes, `[rows, ...]`."""
        raw = [self._records, *self._frames.values()]
        return [array.reshape(self.plan.rows, -1).view(np.uint8) for array in raw]

    @property
    def chunked(self) -> "list[ChunkedColumn]":
        """The columns of compressed frames."""
        return self._chunks

    def check(self) -> None:
        """Raises CorruptMemoryError unless every lane holds no more than its rows."""
        held = self.heads - self.tails
        wrong = np.flatnonzero((held < 0) | (held > self.plan.rows_per_lane) | (self.tails < 0))
        if len(wrong):
            lane = int(wrong[0])
            raise CorruptMemoryError(
                f"lane {lane} holds rows {self.tails[lane]} to {self.heads[lane]} "
                f"of {self.plan.rows_per_lane}"
            )
        for chunks in self._chunks:
            chunks.check_index()
            for lane in range(self.plan.lanes):
                rows = np.arange(self.tails[lane], self.heads[lane])
                chunks.check(np.full(len(rows), lane), rows)
