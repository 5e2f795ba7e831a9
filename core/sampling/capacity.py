"""How much of a memory is drawn from: an adaptive rule (Liu and Zou 2018)."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import RunFailedError
from ..storage.view import Rows
from ..types import Tree
from .newest import Newest
from .uniform import Draw, LegalStarts

LANE_SHIFT: Final = 40
ROW_MASK: Final = (1 << LANE_SHIFT) - 1


class Adaption(NamedTuple):
    """How often the capacity changes, and by how much."""

    interval: int
    """Batches that errors are told of between two changes."""

    step: int
    """Rows, over all lanes, that it changes by; also how many are the oldest."""


class Adaptive:
    """Draws alike from the newest N rows, where N follows the errors of the oldest of them.

    Every `interval` batches the mean |error| of the units drawn from the oldest `step` of those
    rows is compared with that of the time before: if it rose, or N is `step`, N grows by `step`,
    else it shrinks by as much. So does adaptive experience replay of "The Effects of Memory Replay
    in Reinforcement Learning" (Liu and Zou 2018), which works out the errors of the oldest anew;
    here they are those that the agent tells anyhow. What the ring holds does not change, so that
    what was left out comes back. N is at first all there is room for. Weights are 1.
    """

    bytes: Final = 0

    def __init__(self, view: Rows, reach: int, adaption: Adaption) -> None:
        """`reach` is how many rows before it a start needs, as far as its episode has them."""
        self._view = view
        self._newest = Newest(view, reach)
        self._interval, self._step = adaption
        self.rows = view.plan.rows
        """N, over all lanes."""

        self._before: float | None = None
        self._batches, self._count, self._sum = 0, 0, 0.0
        self.stale = 0
        """Errors told of units that were gone by then, and ignored."""

    def draw(self, starts: LegalStarts, size: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        self._newest.look(starts, 0.0, -(-self.rows // self._view.plan.lanes))
        if not len(self._newest):  # closing rows alone: whatever there is
            self._newest.look(starts, 1.0, 1)
        return self._newest.draw(size, rng)

    def feedback(self, ids: NDArray[np.int64], errors: NDArray[np.floating]) -> None:
        """See `Memory.feedback`."""
        if errors.shape != ids.shape or ids.ndim != 1:
            raise ValueError(f"errors {errors.shape} of units {ids.shape}")
        if not np.isfinite(errors).all():
            wrong = int(np.flatnonzero(~np.isfinite(errors))[0])
            raise RunFailedError(f"the error of unit {ids[wrong]} is not finite: {errors[wrong]}")
        lanes, rows = ids >> LANE_SHIFT, ids & ROW_MASK
        held = (lanes >= 0) & (lanes < self._view.plan.lanes)
        lanes, rows, told = lanes[held], rows[held], np.abs(errors[held], dtype=np.float64)
        there = rows >= self._view.tails[lanes]
        self.stale += len(ids) - int(there.sum())
        oldest = there & self._newest.oldest(lanes, rows, -(-self._step // self._view.plan.lanes))
        self._count += int(oldest.sum())
        self._sum += float(told[oldest].sum())
        self._batches += 1
        if self._batches >= self._interval and self._count:
            self._adapt(self._sum / self._count)

    def _adapt(self, error: float) -> None:
        """Changes N by the mean error of the oldest units."""
        held = int((self._view.heads - self._view.tails).sum())
        if self._before is not None:
            rows = min(self.rows, held)
            rose = error > self._before or rows <= self._step
            rows += self._step if rose else -self._step
            self.rows = min(max(rows, self._step), self._view.plan.rows)
        self._before = error
        self._batches, self._count, self._sum = 0, 0, 0.0

    def state(self) -> Tree:
        """Everything that changes."""
        return {
            "rows": self.rows,
            "before": self._before,
            "told": [self._batches, self._count, self._sum, self.stale],
            "firsts": self._newest.firsts,
        }

    def load(self, state: Tree) -> None:
        """Takes over a saved state."""
        self.rows, self._before = state["rows"], state["before"]
        self._batches, self._count, self._sum, self.stale = state["told"]
        self._newest.firsts[...] = state["firsts"]

    def check(self) -> None:
        """Nothing can be wrong."""
