"""The newest of a memory's units: where they start, how many there are, and draws of them alike."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..storage.view import Rows
from .uniform import EMPTY, Draw, LegalStarts

NOTHING: Final = Draw(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
"""A draw of no unit."""


class Newest:
    """The legal units that start at one of each lane's newest candidate rows.

    Counting them takes no scan, since rows know how many episodes ended before them; a draw finds
    a unit by halving.
    """

    def __init__(self, view: Rows, reach: int) -> None:
        """`reach` is how many rows before it a start needs, as far as its episode has them."""
        from . import strata_kernels  # numba is loaded where a memory is made, and not before

        self._whole_from = strata_kernels.whole_from
        self._steps_between = strata_kernels.steps_between
        self._pick = strata_kernels.draw_steps
        self._view = view
        self._reach = reach
        self.firsts, self._highs, self._steps = np.zeros((3, view.plan.lanes), np.int64)

    def look(self, starts: LegalStarts, share: float, least: int) -> None:
        """From here on they are those of a share of a lane's candidates, of `least` at least."""
        lows, counts = starts.spans()
        kept = np.maximum(np.ceil(counts * share).astype(np.int64), least)
        self._highs = lows + counts
        lows = np.maximum(lows, self._highs - kept)
        per_lane, age = self._view.plan.rows_per_lane, self._view.book("age")
        tails, episode = self._view.tails, self._view.book("episode")
        self._whole_from(lows, self._highs, tails, per_lane, self._reach, age, self.firsts)
        self._steps_between(self.firsts, self._highs, per_lane, episode, self._steps)

    def __len__(self) -> int:
        """How many there are."""
        return int(self._steps.sum())

    def draw(self, size: int, rng: np.random.Generator) -> Draw:
        """`size` of them, each alike, with weights of 1; raises ValueError where there is none."""
        if not len(self):
            raise ValueError(EMPTY)
        lanes, rows = np.empty((2, size), np.int64)
        self._pick(
            rng.random(size), self._steps, self.firsts, self._highs,
            self._view.plan.rows_per_lane, self._view.book("episode"), lanes, rows,
        )  # fmt: skip
        return Draw(lanes, rows, np.ones(size, np.float32))

    def oldest(
        self, lanes: NDArray[np.int64], rows: NDArray[np.int64], count: int
    ) -> NDArray[np.bool_]:
        """Which of some rows, `[B]`, are among the first `count` of their lane's."""
        first = self.firsts[lanes]
        return (rows >= first) & (rows < first + count)

    def chances(self, lanes: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The probability of each of some legal units, `[B]`, in such a draw."""
        return np.where(rows >= self.firsts[lanes], 1.0 / len(self), 0.0)
