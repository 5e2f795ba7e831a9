"""Counters between the learner and its collectors: shared, each written by one process alone."""

from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..storage.allocators import Allocator

INT64: Final = np.dtype(np.int64)
BREATH: Final = 1e-4
"""Seconds between two looks of who waits for another process."""


class Note(IntEnum):
    """What stands in a collector's row of the desk; all but the first it writes itself."""

    ALLOWED = 0
    """Steps of all its lanes that it may have made."""
    DONE = 1
    """Those that it has made, and written."""
    STEPS = 2
    """Env steps of its lanes so far: of a step in which a lane was reset, there is one less."""
    VERSION = 3
    """Of the weights that it acts with."""
    TOLD = 4
    """Messages that it has sent."""
    HELD = 5
    """The order to hold that it stands still by, 0 for none."""
    READY = 6
    """1 once its environments have begun."""


class Order(IntEnum):
    """What stands in the last row, for all collectors to read."""

    STOP = 0
    HOLD = 1
    """A number of its own each time, so that nobody is taken to stand still who did before."""
    CLOCK = 2


class Desk:
    """A row of counters for each collector, and one for orders. No lock: nothing can hold it."""

    def __init__(self, collectors: int, allocator: Allocator) -> None:
        self._made_of = collectors, allocator
        shape = (collectors + 1, max(len(Note), len(Order)))
        self._table: NDArray[np.int64] = allocator.allocate(shape, INT64)
        self.orders = self._table[-1]

    def __reduce__(self) -> tuple[type["Desk"], tuple[int, Allocator]]:
        return Desk, self._made_of

    def notes(self, collector: int) -> NDArray[np.int64]:
        """The row of one, by `Note`."""
        row: NDArray[np.int64] = self._table[collector]
        return row

    def column(self, note: Note) -> NDArray[np.int64]:
        """One note of all collectors."""
        column: NDArray[np.int64] = self._table[:-1, note]
        return column
