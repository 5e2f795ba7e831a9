"""Returns of candidates: summed as their episodes go, and handed on as they end."""

import numpy as np
from numpy.typing import NDArray

from ..storage.columns import plan_column
from ..storage.plan import StorePlan, plan_store
from ..storage.ring import RingBuffer
from ..types import Array, ArraySpec, Columns, Tree

CANDIDATE = "candidate"
RESULT = {
    CANDIDATE: ArraySpec((), np.dtype(np.int64)),
    "total_reward": ArraySpec((), np.dtype(np.float64)),
    "length": ArraySpec((), np.dtype(np.int64)),
}
"""A finished episode: whose it was, what it earned, how many steps it took."""


def plan_results(lanes: int, rows_per_lane: int) -> StorePlan:
    """A ring of finished episodes, before it exists."""
    columns = [plan_column(name, spec) for name, spec in RESULT.items()]
    return plan_store(columns, lanes, lanes * rows_per_lane)


def result_ring(lanes: int, rows_per_lane: int) -> RingBuffer:
    """A ring of finished episodes, one writer a lane."""
    return RingBuffer(plan_results(lanes, rows_per_lane))


class OpenEpisodes:
    """What the episodes that are not over have earned so far, `[L]`: the next writer goes on."""

    def __init__(self, lanes: int) -> None:
        self.total = np.zeros(lanes, np.float64)
        self.length = np.zeros(lanes, np.int64)

    def state(self) -> Tree:
        """Both, as bytes: what was earned may be no number, an array in a checkpoint may not."""
        return {"total": self.total.copy().view(np.uint8), "length": self.length.copy()}

    def load(self, state: Tree) -> None:
        """Takes over a saved state."""
        self.total[...] = np.array(state["total"]).view(np.float64)
        self.length[...] = state["length"]


class ReturnWriter:
    """A `Writer` that keeps no observation: it sums rewards, and writes a row an episode."""

    def __init__(
        self, ring: RingBuffer, lanes: NDArray[np.int64], open_: OpenEpisodes | None = None
    ) -> None:
        open_ = open_ or OpenEpisodes(ring.plan.lanes)
        self._ring = ring
        self._lanes = lanes
        self._total, self._length = open_.total, open_.length

    def start(self, obs: Columns, lanes: NDArray[np.int64] | None = None) -> None:
        """See `Writer.start`; what an unfinished episode earned is forgotten."""
        lanes = self._lanes if lanes is None else lanes
        self._total[lanes], self._length[lanes] = 0.0, 0

    def append(
        self,
        action: Array,
        reward: Array,
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        next_obs: Columns,
        extras: Columns | None = None,
        *,
        lost_life: NDArray[np.bool_] | None = None,
        lanes: NDArray[np.int64] | None = None,
    ) -> None:
        """See `Writer.append`; `extras` may name the candidate that plays, -1 is none."""
        lanes = self._lanes if lanes is None else lanes
        with np.errstate(invalid="ignore"):  # infinities of both signs make a NaN, to be dropped
            self._total[lanes] += reward
        self._length[lanes] += 1
        ended = terminated | truncated
        if not ended.any():
            return
        over = lanes[ended]
        named = (extras or {}).get(CANDIDATE, np.full(len(lanes), -1))[ended]
        result = {CANDIDATE: named, "total_reward": self._total[over], "length": self._length[over]}
        self._ring.write(self._ring.make_room(over), result)
        self._ring.publish(over)
        self._total[over], self._length[over] = 0.0, 0


class ResultReader:
    """Reads each finished episode of a ring once."""

    def __init__(self, ring: RingBuffer) -> None:
        self._ring = ring
        self.read = np.zeros(ring.plan.lanes, np.int64)

    @property
    def fresh(self) -> bool:
        """Whether an episode ended since the last call of `new`."""
        return bool((self._ring.heads != self.read).any())

    def new(self) -> Columns:
        """What ended since the last call, `[n]`, lane by lane."""
        first = np.maximum(self.read, self._ring.tails)
        counts = self._ring.heads - first
        lanes = np.repeat(np.arange(len(counts)), counts)
        rows = np.arange(len(lanes)) - np.repeat(np.cumsum(counts) - counts, counts) + first[lanes]
        where = self._ring.where(lanes, rows)
        self.read = self._ring.heads.copy()
        return {name: self._ring.gather(name, where) for name in RESULT}
