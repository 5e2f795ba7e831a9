"""Sampling from several distributions at once, each for its share of a batch."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from math import ceil
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .newest import NOTHING
from .uniform import EMPTY, Draw, LegalStarts, Sampler, Uniform


class Part(Sampler, Protocol):
    """A sampler that knows how likely a unit was."""

    def chances(self, lanes: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The probability of each of some legal units, `[B]`, in the last draw."""


class Once:
    """The units of a memory, counted once for all parts of a batch."""

    def __init__(self, starts: LegalStarts) -> None:
        self._units, self._spans = len(starts), starts.spans()
        self.legal, self.locate = starts.legal, starts.locate

    def __len__(self) -> int:
        """See `LegalStarts.__len__`."""
        return self._units

    def spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `LegalStarts.spans`; not to be written to."""
        return self._spans


class Alike(Uniform):
    """Uniform draws, as a part."""

    def draw(self, starts: LegalStarts, size: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        self._units = len(starts)
        return super().draw(starts, size, rng) if size else NOTHING

    def chances(self, lanes: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """See `Part.chances`."""
        return np.full(len(rows), 1.0 / self._units)


class Mixture:
    """Draws each part's share of a batch by that part: q = sum of share * P of it.

    A part has its share of every batch but for less than one unit, which is drawn, so that the
    expectation is exact. Weights are (1 / N) / q, not scaled, of N legal units, whichever part a
    unit came from: the balance heuristic of Veach and Guibas 1995 ("Optimally Combining Sampling
    Techniques"). A mean over the batch of weight * x is an unbiased estimate of the mean of x over
    all units that some part can draw, and no weight is more than 1 / share of the uniform part.
    """

    def __init__(self, parts: Mapping[str, Part], shares: Mapping[str, float]) -> None:
        """Both by name; shares are above 0 and sum to 1."""
        self._parts: Sequence[Part] = [parts[name] for name in shares]
        self._shares = list(shares.values())
        self._bounds = [0.0, *accumulate(self._shares[:-1])]

    def draw(self, starts: LegalStarts, size: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        counted = Once(starts)
        units = len(counted)
        if not units:
            raise ValueError(EMPTY)
        counts = self._counts(size, rng.random())
        # a part that has nothing to give to this batch is asked too: it says what it would have
        draws = [
            part.draw(counted, count, rng) for part, count in zip(self._parts, counts, strict=True)
        ]
        lanes = np.concatenate([draw.lanes for draw in draws])
        rows = np.concatenate([draw.rows for draw in draws])
        mixed = np.zeros(size)
        for share, part in zip(self._shares, self._parts, strict=True):
            mixed += share * part.chances(lanes, rows)
        return Draw(lanes, rows, (1.0 / (units * mixed)).astype(np.float32))

    def _counts(self, size: int, place: float) -> list[int]:
        """Units of each part: how many of the points `place`, 1 + `place` ... its share covers."""
        ends = [min(max(ceil(bound * size - place), 0), size) for bound in self._bounds]
        return [end - begin for begin, end in pairwise([*ends, size])]
