"""Numbers by place in a log: those that changed, and now and then all of them.

Pairs of place and number are records of a lane of their own, whose rows are the appends. Once more
pairs were written than half the places, all numbers are written, and what came before is let go.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from .log import Key, Log

COLUMN: Final = 1 << 16
"""Of no ring: those have fewer columns."""

PLACE, NUMBER = np.dtype(np.uint32), np.dtype(np.float64)
PIECE: Final = 1 << 16
"""Pairs of a record, at most."""


class PairLog:
    """Writes changes of `size` numbers that were all 0, and takes them up again."""

    def __init__(self, log: Log, lane: int, size: int) -> None:
        self._log = log
        self._lane = lane
        self.numbers = np.zeros(size, NUMBER)
        """What `take` has read so far."""

        self._appends = self._pairs = 0
        self.first = 0
        """The append from which on records count: the tail of the lane."""

    def append(
        self,
        places: NDArray[np.int64],
        numbers: NDArray[np.float64],
        everything: NDArray[np.float64],
    ) -> None:
        """Writes what changed since the last call, `[n]` each, or of `everything` what is not 0."""
        self._appends += 1
        if self._appends == 1 or self._pairs + len(places) > len(everything) // 2:
            places = np.flatnonzero(everything)
            numbers, self._pairs, self.first = everything[places], 0, self._appends
        else:
            self._pairs += len(places)
        self._log.end_segment()  # rows live longer than pairs
        for begin in range(0, len(places), PIECE):
            part = slice(begin, begin + PIECE)
            key = Key(COLUMN, self._lane, self._appends, 1)
            self._log.append(key, places[part].astype(PLACE), numbers[part])
        self._log.end_segment()

    def begin(self, first: int) -> None:
        """Begins to take records, those of `first` and later."""
        self.numbers[...] = 0
        self._appends = self.first = first
        self._pairs = 0

    def take(self, key: Key, payload: bytes) -> None:
        """Takes a record, in the order in which they were written."""
        if key.first < self.first:
            return
        count = len(payload) // (PLACE.itemsize + NUMBER.itemsize)
        places = np.frombuffer(payload, PLACE, count)
        self.numbers[places] = np.frombuffer(payload, NUMBER, count, count * PLACE.itemsize)
        self._appends = max(self._appends, key.first)
        self._pairs += count if key.first > self.first else 0
