"""Sampling an episode first, and then one of its steps."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .uniform import EMPTY, Candidates, Draw, LegalStarts, draw_legal


class EpisodeSpans(Protocol):
    """The episodes of a memory, numbered along each lane."""

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First episode held and number of episodes held, `[L]` each."""

    def starts(
        self, lanes: NDArray[np.int64], episodes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First legal start and number of legal starts, which lie side by side; `[n]` each."""


class ByEpisode:
    """Each episode with a legal start alike, and each of its starts alike, with replacement."""

    def __init__(self, spans: EpisodeSpans) -> None:
        self._spans = spans

    def draw(self, starts: LegalStarts, size: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        lows, counts = self._spans.counts()
        ends = np.cumsum(counts)
        if not ends[-1]:
            raise ValueError(EMPTY)

        def nth(places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            lanes = np.searchsorted(ends, places, side="right")
            return lanes, lows[lanes] + places - (ends[lanes] - counts[lanes])

        def start_in(lanes: NDArray[np.int64], episodes: NDArray[np.int64]) -> Candidates:
            first, legal = self._spans.starts(lanes, episodes)
            rows = first + np.floor(rng.random(len(lanes)) * legal).astype(np.int64)
            return lanes, rows, legal > 0

        def propose(count: int) -> Candidates:
            return start_in(*nth(rng.integers(0, ends[-1], count)))

        def choose(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            lanes, episodes = nth(np.arange(ends[-1]))
            known = np.flatnonzero(self._spans.starts(lanes, episodes)[1])
            if not len(known):
                raise ValueError(EMPTY)
            picks = rng.choice(known, count)
            lanes, rows, _ = start_in(lanes[picks], episodes[picks])
            return lanes, rows

        return draw_legal(size, propose, choose)
