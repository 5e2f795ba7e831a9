"""A ring in a log: only rows that are new are written, and each once.

A row that another follows never changes again, so it is written then; the newest row of a lane, and
the open chunk of compressed frames, are part of a commit's state. Records are of the packed rows
(column 0), of raw frames (the next columns), and of closed chunks as they lie in the arena; where
the arena is itself on disk, of where in it they lie.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..errors import CorruptMemoryError
from ..types import Array, Tree
from .disk import SUFFIX
from .layout import ENTRY
from .log import Key, Log
from .ring import RingBuffer

if TYPE_CHECKING:
    from .chunks import ChunkedColumn

SUM: Final = np.dtype(np.uint32)
PIECE: Final = 1 << 20
"""Bytes of a record, about: what is held at once, whatever is saved or loaded."""


def about(ring: RingBuffer) -> dict[str, str]:
    """What a log of this ring is of: whatever differs makes another ring."""
    plan = ring.plan
    columns = [
        f"{x.name} {x.stored}{list(x.spec.shape)}"
        + (f" {x.chunking.codec} {x.chunking.frames}" if x.kind == "chunks" else "")
        for x in plan.columns
    ]
    found = {"lanes": str(plan.lanes), "rows": str(plan.rows), "columns": ", ".join(columns)}
    if ring.kept:
        blocks = [f"{x.blocks} x {x.block_bytes}" for x in plan.layouts.values()]
        found["blocks"] = ", ".join(blocks)
    return found


class RingLog:
    """Writes what is new in a ring to a log, and fills a ring from one."""

    def __init__(self, ring: RingBuffer, log: Log) -> None:
        self._ring = ring
        self._log = log
        a_row = ring.plan.bytes_logged / ring.plan.rows
        self._most_new = int(ring.plan.bytes_new / a_row)
        chunks = [column.plan.chunking.frames for column in ring.chunked if column.kept]
        a_sixteenth = max(self._most_new // (16 * ring.plan.lanes), 1)
        self._stride = min([a_sixteenth, *chunks])
        self._looked = np.zeros(ring.plan.lanes, np.int64)
        self._saved = np.zeros(ring.plan.lanes, np.int64)
        self._saved_chunks = np.zeros((len(ring.chunked), ring.plan.lanes), np.int64)

    def append_new(self) -> None:
        """Appends the rows and chunks that came since the last call."""
        ring = self._ring
        for lane in range(ring.plan.lanes):
            last = max(int(ring.heads[lane]) - 1, 0)
            first = max(int(self._saved[lane]), int(ring.tails[lane]))
            for number, array in enumerate(ring.arrays):
                self._append_rows(number, array, lane, first, last)
            self._saved[lane] = max(first, last)
            for place, column in enumerate(ring.chunked):
                self._append_chunks(place, column, lane)

    def _append_rows(self, number: int, array: Array, lane: int, first: int, last: int) -> None:
        step = max(PIECE // array.shape[1], 1)
        for begin in range(first, last, step):
            end = min(begin + step, last)
            parts = [array[run].reshape(-1) for run in self._ring.slots(lane, begin, end)]
            self._log.append(Key(number, lane, begin, end - begin), *parts)

    def _append_chunks(self, place: int, column: "ChunkedColumn", lane: int) -> None:
        size = column.plan.chunking.frames
        number = len(self._ring.arrays) + place
        if column.kept:
            self._append_entries(number, place, column, lane)
            return
        for chunk, form, prior, blob in column.closed(lane, int(self._saved_chunks[place, lane])):
            self._log.append(Key(number, lane, chunk * size, size, form, prior), blob)
            self._saved_chunks[place, lane] = chunk + 1

    def _append_entries(self, number: int, place: int, column: "ChunkedColumn", lane: int) -> None:
        """Of chunks that are kept where they lie, only where that is, and their checksums."""
        entries = column.entries(lane, int(self._saved_chunks[place, lane]))
        if not len(entries):
            return
        size, first = column.plan.chunking.frames, int(entries["chunk"][0])
        sums = np.array([column.checksum(entry) for entry in entries], SUM)
        key = Key(number, lane, first * size, len(entries) * size)
        self._log.append(key, entries.view(np.uint8), sums.view(np.uint8))
        self._saved_chunks[place, lane] = first + len(entries)

    @property
    def due(self) -> bool:
        """Whether what is new since the last commit is all that there is room for.

        Asked at every step, it looks once a chunk of any lane: that, and a step of two rows, begin
        no more than two blocks (see `Arena.short`).
        """
        if (self._ring.heads - self._looked).max() < self._stride:
            return False
        self._looked[...] = self._ring.heads
        new = int((self._ring.heads - np.maximum(self._saved, self._ring.tails)).sum())
        if new > self._most_new:
            return True
        return any(column.due for column in self._ring.chunked)

    def committed(self) -> None:
        """Tells the columns that what they hold is part of a commit."""
        for column in self._ring.chunked:
            column.committed()

    def state(self) -> Tree:
        """What a commit holds beside the records: counters, newest rows, open chunks."""
        ring = self._ring
        newest = np.maximum(ring.heads - 1, 0) % ring.plan.rows_per_lane
        slots = np.arange(ring.plan.lanes) * ring.plan.rows_per_lane + newest
        return {
            "heads": ring.heads,
            "tails": ring.tails,
            "newest": {str(n): array[slots] for n, array in enumerate(ring.arrays)},
            "chunks": {column.plan.name: column.open_state() for column in ring.chunked},
        }

    def load(self, state: Mapping[str, Any], records: Iterable[tuple[Key, bytes]]) -> None:
        """Fills the ring, whatever it held.

        Raises CorruptMemoryError where rows are missing; the ring is then empty.
        """
        ring = self._ring
        ring.loads += 1
        self._looked[...] = 0
        ring.heads[...], ring.tails[...] = 0, 0
        try:
            got = self._fill(state, records)
        except CorruptMemoryError:
            for column in ring.chunked:
                column.empty(ring.tails)
            raise
        ring.heads[...], ring.tails[...] = state["heads"], state["tails"]
        self._saved[...] = np.maximum(ring.heads - 1, 0)
        for place, column in enumerate(ring.chunked):
            self._saved_chunks[place] = got[place] // column.plan.chunking.frames

    def _fill(self, state: Mapping[str, Any], records: Iterable[tuple[Key, bytes]]) -> Array:
        """Puts every record in its place; gives how far chunks go, `[columns, L]`, in rows."""
        arrays, chunked, tails = self._ring.arrays, self._ring.chunked, state["tails"]
        for column in chunked:
            column.empty(tails)
            column.load_open(state["chunks"][column.plan.name])
        got = np.tile(tails, (len(arrays) + len(chunked), 1))
        for key, payload in records:
            if key.first + key.rows <= tails[key.lane]:
                continue
            if key.column < len(arrays):
                self._put_rows(arrays[key.column], key, payload, int(tails[key.lane]))
            else:
                self._put_chunks(chunked[key.column - len(arrays)], key, payload, tails)
            got[key.column, key.lane] = max(got[key.column, key.lane], key.first + key.rows)
        self._put_newest(state, state["heads"])
        self._check(got, state["heads"], state)
        for column in chunked:
            column.check_index()
            if column.kept:
                column.recall(range(self._ring.plan.lanes))
                column.committed(anew=True)
        return got[len(arrays) :]

    def _put_chunks(self, column: "ChunkedColumn", key: Key, payload: bytes, tails: Array) -> None:
        size = column.plan.chunking.frames
        if not column.kept:
            blob = np.frombuffer(payload, np.uint8)
            column.put_back(key.lane, key.first // size, key.form, key.prior, blob)
            return
        count = key.rows // size
        entries = np.frombuffer(payload[: count * ENTRY.itemsize], ENTRY)
        sums = np.frombuffer(payload[count * ENTRY.itemsize :], SUM)
        held = entries["chunk"] >= tails[key.lane] // size
        for entry, wanted in zip(entries[held], sums[held], strict=True):
            if column.checksum(entry) != wanted:
                raise CorruptMemoryError(
                    f"{column.name}{SUFFIX} is damaged at byte {entry['offset']}: checksum"
                )
        if held.any():
            column.name_again(key.lane, entries[held])

    def _put_rows(self, array: Array, key: Key, payload: bytes, tail: int) -> None:
        rows = np.frombuffer(payload, np.uint8).reshape(key.rows, array.shape[1])
        first = max(key.first, tail)
        rows, at = rows[first - key.first :], 0
        for run in self._ring.slots(key.lane, first, key.first + key.rows):
            count = run.stop - run.start
            array[run] = rows[at : at + count]
            at += count

    def _put_newest(self, state: Mapping[str, Any], heads: Array) -> None:
        ring = self._ring
        newest = np.maximum(heads - 1, 0) % ring.plan.rows_per_lane
        slots = np.arange(ring.plan.lanes) * ring.plan.rows_per_lane + newest
        for number, array in enumerate(ring.arrays):
            array[slots] = state["newest"][str(number)]

    def _check(self, got: Array, heads: Array, state: Mapping[str, Any]) -> None:
        """Whether every row that the state speaks of came."""
        packed = len(self._ring.arrays)
        missing = (got[:packed] < np.maximum(heads - 1, 0)).any()
        for place, column in enumerate(self._ring.chunked):
            begun = state["chunks"][column.plan.name]["chunk"] * column.plan.chunking.frames
            missing |= (got[packed + place] < begun).any()
        if missing:
            raise CorruptMemoryError("the log lacks rows that its last commit speaks of")
