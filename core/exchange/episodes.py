"""Episodes that can be handed over: what is held of each, read in pieces of a few megabytes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..episodes.rows import LANE_SHIFT
from ..episodes.summary import summaries
from ..storage.columns import Where
from ..storage.ring import RingBuffer
from ..types import Columns, EnvSpec
from .space import Space

Ending = Literal["terminated", "truncated", "open"]
ENDINGS: Final[tuple[Ending, ...]] = ("terminated", "truncated", "open")
PIECE_BYTES: Final = 4 << 20
"""Bytes of a piece, about: what is held at once, however long an episode is."""


@dataclass(frozen=True)
class Held:
    """What is held of one episode."""

    lane: int
    first_row: int
    """Counter, in its lane, of its first row that is held."""

    age: int
    """Place of that row in the episode: above 0 where the rows before it went."""

    steps: int
    ended: Ending
    """As `core.episodes.summary.Episode.ended`."""

    @property
    def rows(self) -> int:
        """Observations: one a step, and the last."""
        return self.steps + 1


class Source(Protocol):
    """Episodes in a memory or in a file, lane by lane, oldest first."""

    @property
    def space(self) -> Space:
        """What they are of."""

    @property
    def held(self) -> Sequence[Held]:
        """What is held of each."""

    def pieces(self, number: int) -> Iterator[Columns]:
        """One episode's columns, in order, a piece `[n, ...]` at a time, dtypes as announced.

        The pieces of an observation make `[T + 1, ...]`, those of any other column `[T, ...]`.
        """


class RingEpisodes:
    """The episodes that a ring holds."""

    def __init__(self, ring: RingBuffer, env: EnvSpec) -> None:
        self._ring = ring
        self.space = Space.of(ring, env)
        self.held: list[Held] = [
            Held(x.lane, first, self._age(x.lane, first), x.length, x.ended)
            for x in summaries(ring)
            for first in (x.first_id & ((1 << LANE_SHIFT) - 1),)
        ]

    def _age(self, lane: int, row: int) -> int:
        return int(self._ring.gather("age", self._where(lane, np.array([row])))[0])

    def _where(self, lane: int, rows: NDArray[np.int64]) -> Where:
        return self._ring.where(np.full(len(rows), lane), rows)

    def pieces(self, number: int) -> Iterator[Columns]:
        """See `Source.pieces`."""
        one = self.held[number]
        for begin, end in piece_bounds(one, self.space):
            rows = np.arange(one.first_row + begin, one.first_row + end)
            every = self._where(one.lane, rows)
            steps = self._where(one.lane, rows[: one.steps - begin])
            yield {
                name: self._ring.gather(name, every if name in self.space.observations else steps)
                for name in self.space.columns
            }


def piece_bounds(one: Held, space: Space) -> list[tuple[int, int]]:
    """The observations, from and to, of each piece of an episode; steps end one before the last."""
    size = max(PIECE_BYTES // space.row_bytes, 1)
    return [(at, min(at + size, one.rows)) for at in range(0, one.rows, size)]


def joined(source: Source, number: int) -> Columns:
    """One whole episode."""
    pieces = list(source.pieces(number))
    return {
        name: np.concatenate([piece[name] for piece in pieces]) for name in source.space.columns
    }
