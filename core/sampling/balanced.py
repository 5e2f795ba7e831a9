"""Balanced sampling: steps of positive, zero and negative reward, or return, by given shares."""

from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptMemoryError
from ..storage.ring import RingBuffer
from ..storage.view import Rows
from ..types import Tree
from .layout import STRATA
from .uniform import EMPTY, Draw, LegalStarts

By = Literal["reward", "return"]
STRATUM_NAMES: Final = ("positive", "zero", "negative")
ZERO: Final = 1
RETURNS: Final = np.array([np.inf, np.nan, -np.inf])
"""Beginnings of returns that stay positive, zero and negative whatever is added."""


class Balance(NamedTuple):
    """What is balanced, and how."""

    by: By = "reward"
    """The reward of the step itself, or the return of its episode, which is that of the steps so
    far while the episode is open."""

    shares: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Of positive, zero and negative ones, up to a factor."""

    correct: bool = True
    """Whether weights make up for the shares."""


class Balanced:
    """Draws each stratum by its share, and each step of a stratum alike: P = share / steps in it.

    This is stratified sampling (Cochran 1977, "Sampling Techniques", chapter 5) by the sign of
    reward or return. Of a batch each stratum has its share but for less than one unit, which is
    drawn, so that the expectation is exact. A stratum that is empty leaves its share to the others.
    Weights are (1 / N) / P, not scaled, of N legal steps: a mean over the batch of weight * x is an
    unbiased estimate of the mean of x over all of them.

    Steps are counted along their lanes, those before each row by stratum; a draw finds the row of a
    rank by halving. Nothing has to be done as rows go. All of it follows from the rows, but for the
    return of an episode that has lost some.
    """

    def __init__(self, ring: RingBuffer, view: Rows, reach: int, balance: Balance) -> None:
        """`reach` is how many rows before it a start needs, as far as its episode has them."""
        from . import strata_kernels  # numba is loaded where a memory is made, and not before

        self._take_in, self._count = strata_kernels.take_in, strata_kernels.count_strata
        self._whole, self._pick = strata_kernels.whole_from, strata_kernels.draw
        self._strata_of = strata_kernels.strata_of
        self._ring = ring
        self._view = view
        self._reach = reach
        self._balance = balance
        self._counts = np.zeros((ring.plan.rows, STRATA), np.uint32)
        self._counts[...] = 0  # written at once, so that it takes from the first what is told
        self._loads = -1
        self._forget()

    def _forget(self) -> None:
        """No row is where it was: begins anew."""
        lanes = self._ring.plan.lanes
        self._loads = self._ring.loads
        self._totals = np.zeros((lanes, STRATA), np.uint32)
        self._books = np.zeros((3, lanes), np.int64)
        self._sums = np.zeros(lanes)
        self._firsts = np.zeros(lanes, np.int64)
        self._found = np.zeros((lanes, STRATA), np.int64)
        self._chances = np.zeros(STRATA + 1)

    @property
    def bytes(self) -> int:
        """Bytes on the heap."""
        return self._counts.nbytes

    def draw(self, starts: LegalStarts, size: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        highs = self._look(starts)
        steps = self._found.sum(axis=0)
        if not steps.any():
            raise ValueError(EMPTY)
        shares = np.where(steps > 0, self._balance.shares, 0.0)
        shares /= shares.sum()
        bounds = np.cumsum(shares)
        bounds[np.flatnonzero(shares)[-1] :] = 2.0  # whatever rounding made of 1
        self._chances[:STRATA] = shares / np.maximum(steps, 1)
        lanes, rows = np.empty((2, size), np.int64)
        self._pick(
            self._counts, self._books, self._sums, self._found, self._firsts, highs,
            self._view.plan.rows_per_lane, bounds, rng.random(), rng.random(size), lanes, rows,
        )  # fmt: skip
        return Draw(lanes, rows, self._weight(lanes, rows, int(steps.sum())))

    def _weight(
        self, lanes: NDArray[np.int64], rows: NDArray[np.int64], steps: int
    ) -> NDArray[np.float32]:
        if not self._balance.correct:
            return np.ones(len(rows), np.float32)
        return (1.0 / (steps * self.chances(lanes, rows))).astype(np.float32)

    def chances(self, lanes: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The probability of each of some legal units, `[B]`, in the last draw."""
        strata = np.empty(len(rows), np.int64)
        self._strata_of(
            self._counts, self._totals, self._books, self._sums, self._firsts,
            self._view.plan.rows_per_lane, lanes, rows, strata,
        )  # fmt: skip
        return self._chances[strata]

    def _look(self, starts: LegalStarts) -> NDArray[np.int64]:
        """Takes in what was written since, and counts what there is; gives where lanes end."""
        if self._loads != self._ring.loads:
            self._forget()
        lows, spans = starts.spans()
        highs, tails, per_lane = lows + spans, self._view.tails, self._view.plan.rows_per_lane
        self._absorb(tails, highs)
        lows = np.minimum(np.maximum(lows, self._books[0]), highs)
        age = self._view.book("age")
        self._whole(lows, highs, tails, per_lane, self._reach, age, self._firsts)
        self._count(
            self._counts, self._totals, self._books, self._sums, self._firsts, highs, per_lane,
            self._found,
        )  # fmt: skip
        return highs

    def _absorb(self, tails: NDArray[np.int64], highs: NDArray[np.int64]) -> None:
        closing, reward = self._view.book("closing"), self._view.book("reward")
        by_return = self._balance.by == "return"
        self._take_in(
            self._counts, self._totals, self._books, self._sums, tails, highs,
            self._ring.plan.rows_per_lane, by_return, closing, reward,
        )  # fmt: skip

    def state(self) -> Tree:
        """What does not follow from the rows held: returns of episodes that have lost some."""
        if self._balance.by == "reward":
            return {}
        tails, (began, settled, seen) = self._ring.tails, self._books
        lanes, oldest = np.arange(len(tails)), np.full(len(tails), ZERO, np.int64)
        known = np.flatnonzero((tails >= began) & (tails < settled))
        strata = np.empty(len(known), np.int64)
        self._strata_of(
            self._counts, self._totals, self._books, self._sums, np.zeros_like(tails),
            self._ring.plan.rows_per_lane, lanes[known], tails[known], strata,
        )  # fmt: skip
        oldest[known] = strata
        return {"oldest": oldest, "settled": settled, "seen": seen, "sums": self._sums}

    def load(self, state: Tree) -> None:
        """Takes over a saved state, after the ring took over its own."""
        self._forget()
        if not state:
            return
        settled = np.array(state["settled"])
        self._books[...] = self._ring.tails
        self._sums[...] = RETURNS[state["oldest"]]
        self._absorb(self._ring.tails, settled)
        self._books[1:] = np.maximum(settled, self._books[0]), state["seen"]
        self._sums[...] = state["sums"]

    def check(self) -> None:
        """Raises CorruptMemoryError where it counts rows that were never written."""
        wrong = np.flatnonzero(self._books[2] > self._ring.heads)
        if len(wrong) and self._loads == self._ring.loads:
            raise CorruptMemoryError(f"lane {wrong[0]}: strata of rows that were never written")
