"""Sampling in proportion to priorities (Schaul et al. 2016, "Prioritized Experience Replay")."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptMemoryError, RunFailedError
from ..storage.ring import RingBuffer
from ..types import Tree, all_of
from . import kernels
from .tree import SumTree
from .uniform import EMPTY, Draw, LegalStarts, rows_of

EPSILON: Final = 1e-6
"""What is added to an error, so that a unit without one can be drawn."""
MOST: Final = float(np.finfo(np.float32).max)
"""The greatest error: of more, the sum over a memory might not be finite."""


class Exponents(NamedTuple):
    """How much priorities count, and how much weights correct for that."""

    priority: float
    """Alpha."""

    importance: float
    """Beta at the run's beginning, from where it rises to 1."""


class Prioritized:
    """Draws a legal unit with probability P = p / sum of p, where p = (|error| + EPSILON)^alpha.

    Draws are stratified: one from each of B equal parts of the mass. Each unit comes as often as
    by independent draws, and counts vary less. The weight is (N * P)^-beta over the greatest of
    the batch, in which N and the sum cancel out: (least p of the batch / p)^beta.

    A priority belongs to a slot of the ring. Writers know nothing of it: whatever they did since
    is taken in as the reader draws. New units get the greatest priority there is, what is no legal
    start weighs nothing. Repeated with other counters of the ring, as `RingView.steadily` does, it
    comes to what those say.
    """

    def __init__(
        self,
        ring: RingBuffer,
        reach: int,
        exponents: Exponents,
        progress: Callable[[], float],
    ) -> None:
        """`reach` is how many rows before it a start needs, as far as its episode has them."""
        self._ring = ring
        self._reach = reach
        self._exponents = exponents
        self._progress = progress
        self._tree = SumTree(ring.plan.rows)
        self._loads = ring.loads
        self._lows, self._highs = np.zeros((2, ring.plan.lanes), np.int64)
        self.stale = 0
        """Errors told of units that were gone by then, and ignored."""

    @property
    def bytes(self) -> int:
        """Bytes on the heap."""
        return self._tree.bytes

    @property
    def importance(self) -> float:
        """Beta, the exponent of the weights, now."""
        start = self._exponents.importance
        return start + (1.0 - start) * min(self._progress(), 1.0)

    def draw(self, starts: LegalStarts, size: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        self._take_in(starts)
        tree, per_lane = self._tree, self._ring.plan.rows_per_lane
        if not tree.total > 0:
            raise ValueError(EMPTY)
        (lanes, rows), shares = np.empty((2, size), np.int64), np.empty(size)
        kernels.draw(
            tree.lines, tree.levels, rng.random(size), self._lows, per_lane, lanes, rows, shares
        )
        return Draw(lanes, rows, np.power(shares, self.importance).astype(np.float32))

    def chances(self, lanes: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """P of each of some legal units, `[B]`, in the last draw."""
        per_lane = self._ring.plan.rows_per_lane
        leaves = self._tree.leaves[lanes * per_lane + rows % per_lane]
        chances: NDArray[np.float64] = np.maximum(leaves, 0.0) / self._tree.total
        return chances

    def feedback(self, ids: NDArray[np.int64], errors: NDArray[np.floating]) -> None:
        """See `Memory.feedback`."""
        priorities = self._priorities(ids, errors)
        if self._loads != self._ring.loads:
            self.stale += len(ids)
            return
        tree, touched = self._tree, np.empty(len(ids), np.int64)
        self.stale += kernels.tell(
            tree.lines, tree.levels, tree.changed, ids, priorities, self._ring.tails, self._lows,
            self._highs, self._ring.plan.rows_per_lane, touched,
        )  # fmt: skip

    def _priorities(
        self, ids: NDArray[np.int64], errors: NDArray[np.floating]
    ) -> NDArray[np.float64]:
        if errors.shape != ids.shape or ids.ndim != 1:
            raise ValueError(f"errors {errors.shape} of units {ids.shape}")
        size: NDArray[np.float64] = np.abs(errors, dtype=np.float64)
        if not all_of(size <= MOST):
            wrong = int(np.flatnonzero(~(size <= MOST))[0])
            raise RunFailedError(f"the error of unit {ids[wrong]} is not finite: {errors[wrong]}")
        size += EPSILON
        size **= self._exponents.priority
        return size

    def _take_in(self, starts: LegalStarts) -> None:
        """Makes the leaves stand for the units there are now."""
        if self._loads != self._ring.loads:
            self._forget()
        lows, counts = starts.spans()
        if kernels.same(self._lows, self._highs, lows, counts):
            return
        highs = lows + counts
        lanes, rows = self._unsure(lows, highs)
        legal = starts.legal(lanes, rows)
        tree, per_lane = self._tree, self._ring.plan.rows_per_lane
        gone = int(np.clip(lows - self._lows, 0, per_lane).sum())
        kernels.absorb(
            tree.lines, tree.levels, tree.changed, self._lows, self._highs, lows, per_lane,
            lanes, rows, legal, np.empty(gone + len(rows), np.int64),
        )  # fmt: skip
        self._lows, self._highs = lows, highs

    def _unsure(
        self, lows: NDArray[np.int64], highs: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Units that are new; and known ones whose stacks the tail may have cut, or given back."""
        moved = np.where(lows == self._lows, 0, np.maximum(lows, self._lows) + self._reach)
        ends = np.concatenate([np.minimum(moved, np.minimum(self._highs, highs)), highs])
        begins = np.concatenate([lows, np.maximum(self._highs, lows)])
        lanes, rows = rows_of(begins, np.maximum(ends - begins, 0))
        return lanes % len(lows), rows

    def _forget(self) -> None:
        """No row is where it was: begins anew."""
        self._loads = self._ring.loads
        self._lows, self._highs = np.zeros((2, len(self._lows)), np.int64)
        tree = self._tree
        slots = np.flatnonzero(tree.leaves)
        tree.put(slots, np.zeros(len(slots)))

    def changed(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Slots whose priorities were written since the last call, and those, `[n]` each."""
        slots = self._tree.take_changed()
        return slots, self._tree.leaves[slots]

    def restore(self, values: NDArray[np.float64]) -> None:
        """Takes over the priorities of all slots, `[rows]`. Raises ValueError where it cannot."""
        self._tree.restore(values)

    def state(self) -> Tree:
        """Everything that changes; the priorities are not copied."""
        spans = {"lows": self._lows, "highs": self._highs}
        return {"values": self._tree.leaves, "stale": self.stale, **spans}

    def load(self, state: Tree) -> None:
        """Takes over a saved state, after the ring took over its own."""
        self.restore(state["values"])
        self._lows, self._highs = np.array([state["lows"], state["highs"]])
        self.stale = state["stale"]
        self._loads = self._ring.loads

    def check(self) -> None:
        """Raises CorruptMemoryError unless the tree is whole and only known rows can be drawn."""
        self._tree.check()
        per_lane = self._ring.plan.rows_per_lane
        slots = np.flatnonzero(self._tree.leaves > 0)
        lanes, lows = slots // per_lane, self._lows[slots // per_lane]
        wrong = lows + (slots - lows) % per_lane >= self._highs[lanes]
        if wrong.any():
            raise CorruptMemoryError(f"slot {slots[wrong][0]} can be drawn, and holds no unit")
