"""Where a transition may start."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage.view import Rows


class TransitionStarts:
    """Steps whose successor row exists and whose whole stack is still held.

    A stack reaches back to the episode's first row if that is nearer than `window`; one that lost
    frames to eviction is no start. Every other step is one, the newest included.
    """

    def __init__(self, ring: Rows, window: int) -> None:
        from . import kernels  # numba is loaded where a memory is made, and not before

        self._ring = ring
        self._reach = window - 1
        self._find, self._count = kernels.find_starts, kernels.count_starts
        self._per_lane = ring.plan.rows_per_lane
        self._books = *ring.packed, ring.book("closing"), ring.book("age")
        self._ends = ring.book("episode"), *self._books[2:]

    def __reduce__(self) -> Any:
        return TransitionStarts, (self._ring, self._reach + 1)  # the books are where the ring is

    def spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `LegalStarts.spans`: each lane's rows but its newest, which has no step yet."""
        tails = self._ring.tails.copy()
        return tails, np.maximum(self._ring.heads - 1 - tails, 0)

    def locate(
        self, spread: NDArray[np.float64], size: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `LegalStarts.locate`."""
        ring, found = self._ring, np.empty((2, size), np.int64)
        count = self._find(
            spread, ring.heads, ring.tails, self._per_lane, self._reach, *self._books, found
        )
        lanes, rows = found if count == size else found[:, :count]
        return lanes, rows

    def legal(self, lanes: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """See `LegalStarts.legal`."""
        where = self._ring.where(lanes, rows)
        step = ~self._ring.gather("closing", where)
        if self._reach == 0:
            return step
        reach = np.minimum(self._ring.gather("age", where), self._reach)
        return step & (rows - reach >= self._ring.tails[lanes])

    def __len__(self) -> int:
        """Candidates less closing rows (which `episode` counts) and stacks cut by the tail."""
        ring = self._ring
        return int(self._count(ring.heads, ring.tails, self._per_lane, self._reach, *self._ends))
