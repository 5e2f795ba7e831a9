"""A ring before it exists: what it will take, in every part, and what it will hold."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal, Self

from .columns import ColumnPlan, packed_dtype
from .layout import LOW, ChunkLayout
from .log import LEAST_SEGMENT, SEGMENT_BYTES

LEAST_NEW: Final = 64 << 20
"""Bytes that are saved at any rate as one; a commit of fewer would be little work, and often."""

Storage = Literal["heap", "shared", "disk"]


@dataclass(frozen=True)
class StorePlan:
    """A ring before it exists: its columns, lanes, rows a lane, and what that costs.

    `memory_bytes` bounds everything, 0 nothing. `forecasts` says what a frame of a chunked column
    is expected to take, in bytes, as far as that is known; whatever it says, `least` rows a lane
    are held.
    """

    columns: tuple[ColumnPlan, ...]
    lanes: int
    rows_per_lane: int
    memory_bytes: int = 0
    forecasts: Mapping[str, float] = field(default_factory=dict)
    least: int = 1
    storage: Storage = "heap"

    def bounded(self, memory_bytes: int, forecasts: Mapping[str, float], least: int) -> Self:
        """The plan under a bound on bytes: one on rows, where nothing is compressed."""
        plan = replace(self, memory_bytes=memory_bytes, forecasts=forecasts, least=least)
        if not memory_bytes or plan.layouts:
            return plan
        fit = memory_bytes // (self.lanes * self.bytes_per_row)
        return replace(plan, rows_per_lane=min(self.rows_per_lane, fit))

    def holds(self, rows: int) -> bool:
        """Whether every lane has room for so many rows, whatever they show."""
        chunks = self.layouts.values()
        return self.rows_per_lane >= rows and all(x.blocks >= x.blocks_for(rows) for x in chunks)

    def bytes_for(self, rows: int) -> int:
        """What `memory_bytes` has to be, so that every lane has room for so many rows."""
        if not self.layouts:
            return self.lanes * rows * self.bytes_per_row
        blocks = {x: x.blocks_for(rows) for x in self.layouts.values()}
        most = max((n + x.spare_for(n)) * x.block_bytes / x.size for x, n in blocks.items())
        frames = sum(layout.size for layout in self.layouts.values())
        return self._fixed + self._learning + self.lanes * math.ceil(most * frames)

    @property
    def bytes_per_row(self) -> int:
        """Bytes a row takes, everything counted, if no frame can be compressed."""
        frames = sum(plan.bytes_per_row for plan in self.columns if plan.kind != "packed")
        return packed_dtype(self.columns).itemsize + frames

    @property
    def rows(self) -> int:
        """Rows of all lanes."""
        return self.lanes * self.rows_per_lane

    @cached_property
    def layouts(self) -> Mapping[str, ChunkLayout]:
        """Sizes of the chunked columns; each has its share of bounded bytes."""
        chunked = [plan for plan in self.columns if plan.kind == "chunks"]
        free = {plan.name: self._layout(plan) for plan in chunked}
        if not self.memory_bytes:
            return free
        fixed = self._uncompressed + sum(x.fixed + x.learning for x in free.values())
        left, total = self.memory_bytes - fixed, sum(layout.size for layout in free.values())
        return {
            name: self._layout(layout.column, max(left * layout.size // total, 1))
            for name, layout in free.items()
        }

    def _layout(self, plan: ColumnPlan, cap: int = 0) -> ChunkLayout:
        compressed = plan.chunking.codec != "raw"
        forecast = self.forecasts.get(plan.name, 0.0) if compressed else 0.0
        return ChunkLayout(plan, self.lanes, self.rows_per_lane, cap, forecast, self.least)

    @property
    def _uncompressed(self) -> int:
        """Bytes of packed rows and raw frames."""
        chunks = sum(plan.bytes_per_row for plan in self.columns if plan.kind == "chunks")
        return (self.bytes_per_row - chunks) * self.rows

    @property
    def _fixed(self) -> int:
        """Bytes beside closed chunks."""
        return self._uncompressed + sum(layout.fixed for layout in self.layouts.values())

    @property
    def _learning(self) -> int:
        return sum(layout.learning for layout in self.layouts.values())

    def _bytes(self, part: float) -> int:
        layouts = self.layouts.values()
        if self.storage != "heap":  # reserved as a whole
            return self._fixed + sum(x.arena_bytes + x.spare_bytes for x in layouts)
        return self._fixed + sum(layout.expected(part) for layout in layouts)

    @property
    def bytes_full(self) -> int:
        """Bytes of the ring once it has wrapped, as far as is known."""
        return self._bytes(1.0)

    @property
    def bytes_low(self) -> int:
        """Bytes of the ring once it has wrapped, if frames take half of what is expected."""
        return self._bytes(LOW)

    @property
    def bytes_high(self) -> int:
        """Bytes that the ring never exceeds."""
        arenas = sum(x.arena_bytes + x.spare_bytes for x in self.layouts.values())
        return self._fixed + arenas + self._learning

    @property
    def tiers(self) -> Mapping[str, int]:
        """Bytes of the full ring by tier, as far as is known."""
        if self.storage == "heap":
            return {"heap": self.bytes_full}
        layouts = self.layouts.values()
        own = sum(x.fixed if self.storage == "disk" else x.scratch for x in layouts)
        return {self.storage: self.bytes_full - own, "heap": own}

    @property
    def bytes_logged(self) -> int:
        """Bytes that a log of it has to hold: of chunks that are kept, only where they lie."""
        if self.storage != "disk":
            return self.bytes_high
        return self._uncompressed + sum(x.index for x in self.layouts.values())

    @property
    def segment_bytes(self) -> int:
        """Bytes of a segment of its log: a small part of it, since segments go as a whole."""
        return min(max(self.bytes_logged // 32, LEAST_SEGMENT), SEGMENT_BYTES)

    @property
    def bytes_saved(self) -> int:
        """Bytes on disk that its log never exceeds.

        Two commits are kept, and what comes is there before what it replaces goes; so are both ends
        of what is held.
        """
        return self.bytes_logged + 2 * self.bytes_new + 3 * self.segment_bytes

    @property
    def bytes_new(self) -> int:
        """Bytes that may be new before they have to be saved: a quarter, if that is much."""
        return min(max(self.bytes_logged // 4, LEAST_NEW), self.bytes_logged)

    @property
    def rows_full(self) -> int:
        """Rows held once full: fewer than there is room for where bytes run out first."""
        return min([self.rows, *(layout.rows_expected for layout in self.layouts.values())])


def plan_store(
    columns: Sequence[ColumnPlan], lanes: int, rows: int, storage: Storage = "heap"
) -> StorePlan:
    """Splits `rows` evenly over the lanes; what does not divide is left out."""
    return StorePlan(tuple(columns), lanes, rows // lanes, storage=storage)
