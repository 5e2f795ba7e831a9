"""Episodes as a whole: what is held of each, and the newest steps of every lane."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..sampling.uniform import Draw, LegalStarts
from ..storage.view import Rows
from .rows import unit_id


@dataclass(frozen=True)
class Episode:
    """What a memory holds of one episode."""

    lane: int
    first_id: int
    length: int
    """Steps held."""
    total_reward: float
    """Sum of the rewards held: the return, if the episode is whole."""
    ended: Literal["terminated", "truncated", "open"]
    """Terminated if its last step held is terminal: a lost life there cannot be told apart."""
    whole: bool
    """Whether its first row is held."""


def summaries(ring: Rows) -> list[Episode]:
    """Every episode of every lane, oldest first."""
    found: list[Episode] = []
    for lane in range(ring.plan.lanes):
        rows = np.arange(ring.tails[lane], ring.heads[lane])
        if len(rows):
            found += _of_lane(ring, lane, rows)
    return found


def _of_lane(ring: Rows, lane: int, rows: NDArray[np.int64]) -> list[Episode]:
    where = ring.where(np.full(len(rows), lane), rows)
    names = ("episode", "closing", "terminal", "reward", "age")
    episode, closing, terminal, reward, age = (ring.gather(name, where) for name in names)
    ids = unit_id(where.lanes, rows)
    begins = np.flatnonzero(np.diff(episode, prepend=episode[0] - 1))
    found = []
    for first, end in zip(begins, np.append(begins[1:], len(rows)), strict=True):
        length = int(end - first - 1)  # its last row is closing, or open
        closed = bool(closing[end - 1])
        terminated = length > 0 and bool(terminal[end - 2])
        found.append(
            Episode(
                lane,
                int(ids[first]),
                length,
                float(reward[first : end - 1].sum(dtype=np.float64)),
                "open" if not closed else "terminated" if terminated else "truncated",
                bool(age[first] == 0),
            )
        )
    return found


def newest_windows(ring: Rows, starts: LegalStarts, length: int) -> tuple[Draw, NDArray[np.int64]]:
    """The newest `length` steps of each lane, cut where episodes end: starts, and steps each."""
    lanes: list[int] = []
    firsts: list[int] = []
    counts: list[int] = []
    for lane in range(ring.plan.lanes):
        rows = _newest_steps(ring, starts, lane, length)
        cuts = np.flatnonzero(np.diff(rows) != 1) + 1
        for piece in np.split(rows, cuts):
            if len(piece):
                lanes.append(lane)
                firsts.append(int(piece[0]))
                counts.append(len(piece))
    weight = np.ones(len(lanes), np.float32)
    draw = Draw(np.array(lanes, np.int64), np.array(firsts, np.int64), weight)
    return draw, np.array(counts, np.int64)


def _newest_steps(ring: Rows, starts: LegalStarts, lane: int, length: int) -> NDArray[np.int64]:
    """Rows of a lane's newest `length` legal starts, or of all if there are fewer."""
    tail, newest = int(ring.tails[lane]), int(ring.heads[lane]) - 1
    # a step has one closing row of its own at most, so that twice as many rows hold them all,
    # unless episodes were broken off before their first step
    reach = 2 * length
    while True:
        rows = np.arange(max(tail, newest - reach), max(newest, 0))
        rows = rows[starts.legal(np.full(len(rows), lane), rows)]
        if len(rows) >= length or newest - reach <= tail:
            return rows[-length:]
        reach *= 2
