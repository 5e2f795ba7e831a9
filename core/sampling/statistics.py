"""How a memory is drawn from: draws of each unit, ages, what was never drawn, returns held."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..storage.ring import RingBuffer
from ..storage.view import RingView
from ..types import Tree

EPISODES: Final = 1024
"""The newest so many episodes that ended are remembered by their returns."""
BOOKS: Final = ("age", "closing", "reward", "episode")
METRICS: Final = ("sample_age", "sample_distinct", "never_drawn", "memory_return_mean")
"""Columns of `progress.csv`; see `Use.read`."""


def use_bytes(rows: int) -> int:
    """Bytes that grow with the rows of all lanes: a counter each."""
    return rows


class Use:
    """Counts the draws of a memory over a ring, in one compiled loop a batch.

    A counter of 8 bits a slot stays at 255, and begins anew as its row is written over. A save
    keeps which units were drawn, and not how often. Draws that a reader had to repeat, since rows
    were written over meanwhile, count too.
    """

    def __init__(self, ring: RingBuffer, view: RingView) -> None:
        from . import use_kernels  # numba is loaded where a memory is made, and not before

        self._follow, self._tell = use_kernels.follow, use_kernels.tell
        self._histogram, self._undrawn = use_kernels.histogram, use_kernels.undrawn
        self._ring, self._view = ring, view
        books = (ring.book(name) for name in BOOKS)
        self._age, self._closing, self._reward, self._episode = books
        self._table = np.empty(0, np.int64)
        self._per_lane = ring.plan.rows_per_lane
        self._loads = -1
        self._forget()

    def __reduce__(self) -> Any:
        return Use, (self._ring, self._view)  # the books are where the ring is

    def _forget(self) -> None:
        lanes = self._ring.plan.lanes
        self._loads = self._ring.loads
        self._counts = np.zeros(self._ring.plan.rows, np.uint8)
        self._seen = np.zeros((2, lanes), np.int64)
        self._begun = np.zeros(lanes)
        self._returns = np.zeros(EPISODES)
        self._episodes = np.zeros((2, EPISODES + 1), np.int64)
        self._sums = np.zeros(5)

    @property
    def bytes(self) -> int:
        """Bytes on the heap that grow with the rows: of the slots that were ever written."""
        return use_bytes(int(np.minimum(self._ring.heads, self._per_lane).sum()))

    def tell(self, lanes: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Counts a batch that was drawn, `[B]` each."""
        size = len(rows)
        if not size:
            return
        if self._loads != self._ring.loads:
            self._forget()
        if len(self._table) < 2 * size:
            self._table = np.empty(1 << (2 * size - 1).bit_length(), np.int64)
        self._tell(
            lanes, rows, self._view.heads, self._view.tails, self._per_lane, self._age,
            self._closing, self._reward, self._episode, self._counts, self._seen, self._begun,
            self._returns, self._episodes, self._table, self._sums,
        )  # fmt: skip

    def _look(self) -> None:
        if self._loads != self._ring.loads:
            self._forget()
        self._follow(
            self._view.heads, self._view.tails, self._per_lane, self._age,
            self._closing, self._reward, self._counts, self._seen, self._begun, self._returns,
            self._episodes,
        )  # fmt: skip

    def read(self) -> dict[str, float | None]:
        """Means since it was last read, and what is held; None where there is nothing.

        `sample_age` is how many rows, over all lanes, are newer than a unit as it is drawn.
        `sample_distinct` is the share of different units in a batch. `never_drawn` is the share of
        the steps held that no batch had yet. `memory_return_mean` is the mean return of the
        episodes that are held whole, the newest 1024 of them.
        """
        self._look()
        batches, draws, ages, units, _ = self._sums.tolist()
        lanes, per_lane = self._ring.plan.lanes, self._per_lane
        never, steps = self._undrawn(
            self._view.tails, self._view.heads, per_lane, self._counts, self._episode
        )
        returns = self.returns()
        self._sums[...] = 0
        means = (
            lanes * ages / draws if draws else None,
            units / batches if batches else None,
            never / steps if steps else None,
            float(returns.mean()) if len(returns) else None,
        )
        return dict(zip(METRICS, means, strict=True))

    def returns(self) -> NDArray[np.float64]:
        """Returns of the newest episodes that are held whole, at most 1024, in no order."""
        self._look()
        lanes, firsts = self._episodes[:, : min(self._episodes[0, -1], EPISODES)]
        held: NDArray[np.bool_] = firsts >= self._view.tails[lanes]
        return self._returns[: len(lanes)][held]

    def histogram(self) -> NDArray[np.int64]:
        """How many of the steps held were drawn 0, 1, 2 ... times, `[256]`; the last: or more."""
        self._look()
        found = np.zeros(256, np.int64)
        self._histogram(
            self._view.tails, self._view.heads, self._per_lane, self._closing,
            self._counts, found,
        )  # fmt: skip
        return found

    def diversity(self) -> tuple[float, float] | None:
        """Share of different units, and of different episodes, in a batch: means since `read`."""
        batches, _, _, units, episodes = self._sums.tolist()
        return (units / batches, episodes / batches) if batches else None

    def state(self) -> Tree:
        """Everything that changes, but for how often what was drawn was drawn."""
        return {
            "drawn": np.packbits(self._counts > 0),
            "seen": self._seen,
            "begun": self._begun,
            "returns": self._returns,
            "episodes": self._episodes,
            "sums": self._sums,
        }

    def load(self, state: Tree) -> None:
        """Takes over a saved state, after the ring took over its own."""
        self._forget()
        self._counts[...] = np.unpackbits(state["drawn"], count=len(self._counts))
        self._seen, self._begun = np.array(state["seen"]), np.array(state["begun"])
        self._returns, self._episodes = np.array(state["returns"]), np.array(state["episodes"])
        self._sums = np.array(state["sums"])

    def check(self) -> None:
        """Nothing that it counts can break a draw."""
