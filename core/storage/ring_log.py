"""A ring in a log: only rows that are new are written, and each once.

A row that another follows never changes again, so it is written then; the newest row of a lane, and
the open chunk of compressed frames, are part of a commit's state. Records are of the packed rows
(column 0), of raw frames (the next columns), and of closed chunks as they lie in the arena.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from ..errors import CorruptMemoryError
from ..types import Array, Tree
from .log import Key, Log
from .ring import RingBuffer

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
    return {
        "lanes": str(plan.lanes),
        "rows": str(plan.rows),
        "columns": ", ".join(columns),
    }


class RingLog:
    """Writes what is new in a ring to a log, and fills a ring from one."""

    def __init__(self, ring: RingBuffer, log: Log) -> None:
        self._ring = ring
        self._log = log
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

    def _append_chunks(self, place: int, column: Any, lane: int) -> None:
        size = column.plan.chunking.frames
        number = len(self._ring.arrays) + place
        for chunk, form, prior, blob in column.closed(lane, int(self._saved_chunks[place, lane])):
            self._log.append(Key(number, lane, chunk * size, size, form, prior), blob)
            self._saved_chunks[place, lane] = chunk + 1

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
        """Fills the ring, whatever it held. Raises CorruptMemoryError where rows are missing."""
        ring, heads, tails = self._ring, state["heads"], state["tails"]
        arrays, chunked = ring.arrays, ring.chunked
        ring.loads += 1
        for column in chunked:
            column.empty(tails)
        got = np.tile(tails, (len(arrays) + len(chunked), 1))
        for key, payload in records:
            if key.first + key.rows <= tails[key.lane]:
                continue
            if key.column < len(arrays):
                self._put_rows(arrays[key.column], key, payload, int(tails[key.lane]))
            else:
                column, chunk = chunked[key.column - len(arrays)], key.first // key.rows
                blob = np.frombuffer(payload, np.uint8)
                column.put_back(key.lane, chunk, key.form, key.prior, blob)
            got[key.column, key.lane] = max(got[key.column, key.lane], key.first + key.rows)
        self._put_newest(state, heads)
        self._check(got, heads, state)
        ring.heads[...], ring.tails[...] = heads, tails
        self._saved[...] = np.maximum(heads - 1, 0)
        for place in range(len(chunked)):
            size = chunked[place].plan.chunking.frames
            self._saved_chunks[place] = got[len(arrays) + place] // size

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
        for column in ring.chunked:
            column.load_open(state["chunks"][column.plan.name])

    def _check(self, got: Array, heads: Array, state: Mapping[str, Any]) -> None:
        """Whether every row that the state speaks of came."""
        packed = len(self._ring.arrays)
        missing = (got[:packed] < np.maximum(heads - 1, 0)).any()
        for place, column in enumerate(self._ring.chunked):
            begun = state["chunks"][column.plan.name]["chunk"] * column.plan.chunking.frames
            missing |= (got[packed + place] < begun).any()
        if missing:
            raise CorruptMemoryError("the log lacks rows that its last commit speaks of")
