"""Uniform sampling over the legal units of a memory."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

MAX_ROUNDS = 16
SPARE = 16
"""One candidate in so many is drawn beside those that are wanted, since a few are not legal."""
EMPTY = "the memory holds nothing that can be sampled yet"


class Draw(NamedTuple):
    """Drawn units: where they start, and the weight that makes the draw unbiased. All `[B]`."""

    lanes: NDArray[np.int64]
    rows: NDArray[np.int64]
    weight: NDArray[np.float32]


class LegalStarts(Protocol):
    """The units of a memory, as candidate rows a lane and a test that passes the legal ones."""

    def spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First candidate row and number of candidate rows, `[L]` each."""

    def legal(self, lanes: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of those candidates a unit may start at."""

    def locate(
        self, spread: NDArray[np.float64], size: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Lanes and rows of the first legal ones among candidates, at most `size` of them.

        `spread` `[n]` says at which part of all candidates each is, in [0, 1).
        """

    def __len__(self) -> int:
        """How many are legal."""


class Sampler(Protocol):
    """Chooses units."""

    def draw(self, starts: LegalStarts, size: int, rng: np.random.Generator) -> Draw:
        """`size` units; raises ValueError where there is none."""


def all_starts(starts: LegalStarts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lane and row of every legal unit, in order: O(rows held)."""
    lanes, rows = rows_of(*starts.spans())
    legal = starts.legal(lanes, rows)
    return lanes[legal], rows[legal]


def rows_of(
    lows: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lane and row of each of `counts` rows from `lows` on, in order of lane and row."""
    lanes = np.repeat(np.arange(len(lows)), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    return lanes, np.repeat(lows, counts) + np.arange(len(lanes)) - first


Candidates = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]
"""Lanes and rows, `[n]` each, and which of them are legal."""


def draw_legal(
    size: int,
    propose: Callable[[int], Candidates],
    choose: Callable[[int], tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> Draw:
    """Draws candidates until all are legal; those that are not are few, and drawn again.

    Where they are not few, a bounded number of rounds falls back to `choose`, which looks at all
    there are, draws so many legal ones, and raises ValueError where there is none.
    """
    lanes, rows = np.empty(size, np.int64), np.empty(size, np.int64)
    missing = np.arange(size)
    for _ in range(MAX_ROUNDS):
        lane, row, legal = propose(len(missing))
        lanes[missing], rows[missing] = lane, row
        missing = missing[~legal]
        if not len(missing):
            break
    else:
        lanes[missing], rows[missing] = choose(len(missing))
    return Draw(lanes, rows, np.ones(size, np.float32))


class Uniform:
    """Each legal unit with the same probability, independently, with replacement."""

    def __init__(self) -> None:
        self._ones = np.ones(0, np.float32)

    def draw(self, starts: LegalStarts, size: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`."""
        lanes, rows = self._located(starts, size, rng)
        if len(lanes) < size:
            more = self._rest(starts, size - len(lanes), rng)
            lanes, rows = (np.concatenate(pair) for pair in zip((lanes, rows), more, strict=True))
        if len(self._ones) != size:
            self._ones = np.ones(size, np.float32)
        return Draw(lanes, rows, self._ones.copy())  # a fifth of the time of making them

    @staticmethod
    def _located(
        starts: LegalStarts, size: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The legal ones of rather more candidates than are wanted, in a bounded number of rounds.

        The first legal ones of candidates that are drawn alike are drawn alike themselves.
        """
        lanes, rows = starts.locate(rng.random(size + size // SPARE + 2), size)
        for _ in range(MAX_ROUNDS - 1):
            missing = size - len(lanes)
            if not missing:
                break
            # bounded integers take longer than numbers in [0, 1)
            more = starts.locate(rng.random(missing + missing // SPARE + 2), missing)
            lanes, rows = (np.concatenate(pair) for pair in zip((lanes, rows), more, strict=True))
        return lanes, rows

    @staticmethod
    def _rest(
        starts: LegalStarts, size: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where legal ones are few: looks at all there are."""
        lanes, rows = all_starts(starts)
        if not len(rows):
            raise ValueError(EMPTY)
        picks = rng.integers(0, len(rows), size)
        return lanes[picks], rows[picks]
