"""Finding episodes in a ring: `episode` never falls along a lane, so halving finds it."""

import numpy as np
from numpy.typing import NDArray

from ..storage.ring import RingBuffer
from ..storage.view import Rows


def first_rows(
    ring: Rows, lanes: NDArray[np.int64], episodes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The first held row of each episode, or the lane's head where it has not begun: O(log rows).

    `lanes` and `episodes` are `[n]`; an episode that lost rows begins at the tail.
    """
    low, high = ring.tails[lanes].copy(), ring.heads[lanes].copy()
    while (low < high).any():
        middle = (low + high) // 2
        probe = np.minimum(middle, ring.heads[lanes] - 1)
        before = ring.gather("episode", ring.where(lanes, probe)) < episodes
        open_ = low < high
        low = np.where(open_ & before, middle + 1, low)
        high = np.where(open_ & ~before, middle, high)
    return low


class EpisodeIndex:
    """The episodes that a ring holds, numbered along each lane; see `ByEpisode`."""

    def __init__(self, ring: Rows, window: int) -> None:
        self._ring = ring
        self._reach = window - 1

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `EpisodeSpans.counts`."""
        lanes = np.arange(self._ring.plan.lanes)
        begun = self._ring.heads > self._ring.tails
        oldest = self._of(lanes, np.where(begun, self._ring.tails, 0))
        newest = self._of(lanes, np.where(begun, self._ring.heads - 1, 0))
        return oldest, np.where(begun, newest - oldest + 1, 0)

    def _of(self, lanes: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._ring.gather("episode", self._ring.where(lanes, rows)).astype(np.int64)

    def starts(
        self, lanes: NDArray[np.int64], episodes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `EpisodeSpans.starts`: all steps, but those whose stack the tail cut off."""
        first = first_rows(self._ring, lanes, episodes)
        following = first_rows(self._ring, lanes, episodes + 1)
        cut = self._ring.gather("age", self._ring.where(lanes, first)) > 0
        first = first + np.where(cut, self._reach, 0)
        return first, np.maximum(following - 1 - first, 0)


def evict_whole_episodes(ring: RingBuffer, lanes: NDArray[np.int64]) -> None:
    """Drops what is left of an episode that lost its first row, unless it is the lane's newest.

    The newest is spared, since it is still being written: an episode longer than the ring keeps
    its newest rows, until the next one has a step, so that a lane that steps never holds nothing.
    """
    lanes = lanes[ring.tails[lanes] > 0]
    if not len(lanes):
        return
    where = ring.where(lanes, ring.tails[lanes])
    cut = ring.gather("age", where) > 0
    lanes, episodes = lanes[cut], ring.gather("episode", where)[cut].astype(np.int64)
    newest = ring.gather("episode", ring.where(lanes, ring.heads[lanes] - 1))
    over = newest != episodes
    if over.any():  # rarely: looked for only then, since every step of every lane comes by here
        ring.evict(lanes[over], first_rows(ring, lanes[over], episodes[over] + 1))
