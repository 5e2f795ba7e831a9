"""Sampling with emphasis on recent experience (Wang and Ross 2019)."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..storage.view import Rows
from ..types import Tree
from .newest import Newest
from .uniform import Draw, LegalStarts

ROUND: Final = 1000
"""Batches of a round, as in the paper's formula."""


class Recency(NamedTuple):
    """How much recent experience is preferred."""

    rows: int
    """The least that a window shrinks to (c_min), over all lanes."""

    decay: float
    """What a window shrinks by from a batch to the next (eta); 0: it is always the least."""


class Recent:
    """Draws batch k = 1, 2 ... 1000 of a round alike from the newest c_k rows; then a new round.

    c_k = max(N eta^k, c_min), of N rows: "Boosting Soft Actor-Critic: Emphasizing Recent Experience
    without Forgetting the Past" (Wang and Ross 2019), with rounds of 1000 batches in place of the
    updates that follow an episode, and without annealing of eta. Of several lanes each has its
    part. Weights are 1: nothing makes up for the preference, which is meant.
    """

    def __init__(self, view: Rows, reach: int, recency: Recency) -> None:
        """`reach` is how many rows before it a start needs, as far as its episode has them."""
        self._newest = Newest(view, reach)
        self._least = -(-recency.rows // view.plan.lanes)
        self._decay = recency.decay
        self._batch = 0

    bytes: Final = 0

    def draw(self, starts: LegalStarts, size: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        newest = self._newest
        newest.look(starts, self._decay ** (self._batch + 1), self._least)
        if not len(newest):  # closing rows alone: whatever there is
            newest.look(starts, 1.0, 1)
        self._batch = (self._batch + 1) % ROUND
        return newest.draw(size, rng)

    def chances(self, lanes: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The probability of each of some legal units, `[B]`, in the last draw."""
        return self._newest.chances(lanes, rows)

    def state(self) -> Tree:
        """How far the round has come."""
        return {"batch": self._batch}

    def load(self, state: Tree) -> None:
        """Takes over a saved state."""
        self._batch = state["batch"]

    def check(self) -> None:
        """Nothing can be wrong."""
