"""The tally: which candidate earned what, and when a generation is judged."""

from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..storage.ring import RingBuffer
from ..types import Tree
from .generation import Generation, Vector
from .kept import Kept, Pending
from .returns import CANDIDATE, ResultReader

UNCLAIMED: Final = 1_000


class Tally:
    """Reads finished episodes, and hands candidates with their returns to what keeps them."""

    def __init__(self, results: RingBuffer, kept: Kept) -> None:
        self._reader = ResultReader(results)
        self._kept = kept
        self._pending: Pending | None = None
        self._unclaimed: deque[tuple[float, int]] = deque(maxlen=UNCLAIMED)
        self.dropped = 0

    def begin(self, generation: Generation) -> None:
        """From now on returns are those of this generation's candidates."""
        self._pending = Pending(generation)

    def finished(self) -> NDArray[np.float64] | None:
        """The returns `[P]` of the generation, once all are there; its candidates are kept.

        A candidate whose return is not finite is not kept, but counted in `dropped`.
        """
        self._collect()
        if self._pending is None or not self._pending.done.all():
            return None
        pending, self._pending = self._pending, None
        for index, total in enumerate(pending.total_reward):
            if np.isfinite(total):
                self._kept.add(pending.generation, index, float(total), int(pending.length[index]))
            else:
                self.dropped += 1
        return pending.total_reward

    def claim(self, parameters: Vector) -> float:
        """Keeps a copy of parameters with the oldest return that no candidate claims; gives it.

        A return that is not finite is given and counted in `dropped`; nothing is kept. Raises
        ValueError where no such episode has ended, and for parameters that cannot be kept.
        """
        self._collect()
        if not self._unclaimed:
            raise ValueError("no episode has ended since the last call")
        total, length = self._unclaimed[0]
        if np.isfinite(total):
            self._kept.add_vector(parameters, total, length)
        else:
            self.dropped += 1
        self._unclaimed.popleft()
        return total

    def _collect(self) -> None:
        if not self._reader.fresh:
            return
        results = self._reader.new()
        if self._pending is not None:
            self._pending.add(results)
        for row in np.flatnonzero(results[CANDIDATE] < 0):
            result = (float(results["total_reward"][row]), int(results["length"][row]))
            self._unclaimed.append(result)

    def state(self) -> Tree:
        """Everything that changes."""
        return {
            "read": self._reader.read,
            "pending": self._pending.state() if self._pending else {},
            "unclaimed": [list(result) for result in self._unclaimed],
            "dropped": self.dropped,
        }

    def load(self, state: Tree) -> None:
        """Takes over a saved state."""
        self._reader.read = np.array(state["read"])
        self._pending = Pending.of(state["pending"]) if state["pending"] else None
        self._unclaimed.clear()
        self._unclaimed.extend((total, length) for total, length in state["unclaimed"])
        self.dropped = state["dropped"]
