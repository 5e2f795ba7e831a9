"""Uniform sampling over the legal units of a memory."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

MAX_ROUNDS = 16


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

    def __len__(self) -> int:
        """How many are legal."""


class Sampler(Protocol):
    """Chooses units."""

    def draw(self, starts: LegalStarts, size: int, rng: np.random.Generator) -> Draw:
        """`size` units; raises ValueError where there is none."""


def all_starts(starts: LegalStarts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lane and row of every legal unit, in order: O(rows held)."""
    lows, counts = starts.spans()
    lanes = np.repeat(np.arange(len(lows)), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    rows = np.repeat(lows, counts) + np.arange(len(lanes)) - first
    legal = starts.legal(lanes, rows)
    return lanes[legal], rows[legal]


class Uniform:
    """Each legal unit with the same probability, independently, with replacement."""

    def draw(self, starts: LegalStarts, size: int, rng: np.random.Generator) -> Draw:
        """See `Sampler.draw`.

        Candidates that are not legal are few, so they are drawn and replaced; where they are not
        few, a bounded number of rounds falls back to counting every legal unit.
        """
        lows, counts = starts.spans()
        ends = np.cumsum(counts)
        lanes = np.empty(size, np.int64)
        rows = np.empty(size, np.int64)
        missing = np.arange(size)
        for _ in range(MAX_ROUNDS if len(ends) and ends[-1] else 0):
            picks = rng.integers(0, ends[-1], len(missing))
            lane = np.searchsorted(ends, picks, side="right")
            row = lows[lane] + picks - (ends[lane] - counts[lane])
            lanes[missing], rows[missing] = lane, row
            missing = missing[~starts.legal(lane, row)]
            if not len(missing):
                return Draw(lanes, rows, np.ones(size, np.float32))
        known_lanes, known_rows = all_starts(starts)
        if not len(known_rows):
            raise ValueError("the memory holds nothing that can be sampled yet")
        picks = rng.integers(0, len(known_rows), len(missing))
        lanes[missing], rows[missing] = known_lanes[picks], known_rows[picks]
        return Draw(lanes, rows, np.ones(size, np.float32))
