"""Sampling an episode first, and then one of its steps."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .uniform import EMPTY, Candidates, Draw, LegalStarts, all_starts, draw_legal


class EpisodeSpans(Protocol):
    """The episodes of a memory, numbered along each lane."""

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First episode held and number of episodes held, `[L]` each."""

    def starts(
        self, lanes: NDArray[np.int64], episodes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First legal start and number of legal starts, which lie side by side; `[n]` each."""

    def of(self, lanes: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The episode of rows."""


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

        def propose(count: int) -> Candidates:
            picks = rng.integers(0, ends[-1], count)
            lanes = np.searchsorted(ends, picks, side="right")
            episodes = lows[lanes] + picks - (ends[lanes] - counts[lanes])
            first, legal = self._spans.starts(lanes, episodes)
            rows = first + np.floor(rng.random(count) * legal).astype(np.int64)
            return lanes, rows, legal > 0

        return draw_legal(size, rng, propose, lambda: self._one_each(starts, rng))

    def _one_each(
        self, starts: LegalStarts, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """A start of each episode, so that choosing among them chooses an episode."""
        lanes, rows = all_starts(starts)
        order = rng.permutation(len(rows))
        lanes, rows = lanes[order], rows[order]
        keys = np.stack([lanes, self._spans.of(lanes, rows)])
        _, first = np.unique(keys, axis=1, return_index=True)
        return lanes[first], rows[first]
