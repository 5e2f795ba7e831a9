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
        from .kernels import find_starts  # numba is loaded where a memory is made, and not before

        self._ring = ring
        self._reach = window - 1
        self._find = find_starts
        self._per_lane = ring.plan.rows_per_lane
        self._books = *ring.packed, ring.book("closing"), ring.book("age")

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
        lanes = np.flatnonzero(self._ring.heads)
        tails, newest = self._ring.tails[lanes], self._ring.heads[lanes] - 1
        oldest_episode = self._ring.gather("episode", self._ring.where(lanes, tails))
        newest_episode = self._ring.gather("episode", self._ring.where(lanes, newest))
        closings = (newest_episode - oldest_episode).astype(np.int64)  # right when it wraps too
        return int((newest - tails - closings).sum()) - self._cut(lanes, tails, newest)

    def _cut(
        self,
        lanes: NDArray[np.int64],
        tails: NDArray[np.int64],
        newest: NDArray[np.int64],
    ) -> int:
        """Steps at the tail that are still held, but whose stack is not."""
        if self._reach == 0:
            return 0
        ahead = tails[:, None] + np.arange(self._reach)
        candidate = ahead < newest[:, None]
        rows = np.minimum(ahead, newest[:, None])
        legal = self.legal(lanes[:, None], rows)
        closing = self._ring.gather("closing", self._ring.where(lanes[:, None], rows))
        return int((candidate & ~legal & ~closing).sum())
