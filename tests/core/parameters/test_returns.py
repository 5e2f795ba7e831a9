"""Returns summed lane by lane, and read once."""

import numpy as np
import pytest

from core.parameters.returns import CANDIDATE, ResultReader, ReturnWriter, result_ring

from .candidates import nothing, step


class Board:
    """A writer of some lanes, and what a reader finds."""

    def __init__(self, lanes: int = 3, rows: int = 10, mine=None) -> None:
        self.ring = result_ring(lanes, rows)
        chosen = np.arange(lanes) if mine is None else np.array(mine)
        self.writer = ReturnWriter(self.ring, chosen)
        self.reader = ResultReader(self.ring)

    def new(self) -> list[tuple[int, float, int]]:
        found = self.reader.new()
        names = (CANDIDATE, "total_reward", "length")
        return list(zip(*(found[name].tolist() for name in names), strict=True))


def test_lanes_are_summed_apart_and_told_as_they_end() -> None:
    board = Board()
    board.writer.start(nothing(3))
    step(board.writer, [1, 10, 100], [False, False, True], [7, 8, 9])
    assert board.new() == [(9, 100, 1)]
    step(board.writer, [2, 20], [False, True], [7, 8], lanes=[0, 1])
    step(board.writer, [3, 5], [True, False], [7, 11], lanes=[0, 2])
    # lane by lane
    assert board.new() == [(7, 6, 3), (8, 30, 2)]
    assert board.new() == []
    step(board.writer, [0.25], [True], [11], lanes=[2])
    assert board.new() == [(11, 5.25, 2)]


@pytest.mark.parametrize("cut", [False, True], ids=["terminated", "truncated"])
def test_an_end_is_an_end(cut: bool) -> None:
    board = Board(1)
    board.writer.start(nothing(1))
    step(board.writer, [1], [False], [4], cut=cut)
    step(board.writer, [2], [True], [4], cut=cut)
    assert board.new() == [(4, 3, 2)]


def test_a_lost_life_is_no_end() -> None:
    board, no = Board(1), np.zeros(1, np.bool_)
    board.writer.start(nothing(1))
    board.writer.append(
        np.zeros(1, int), np.ones(1), no, no, nothing(1), {CANDIDATE: np.array([2])},
        lost_life=~no,
    )  # fmt: skip
    assert board.new() == []
    step(board.writer, [1], [True], [2])
    assert board.new() == [(2, 2, 2)]


def test_nobody_is_named() -> None:
    board, yes = Board(2), np.ones(2, np.bool_)
    board.writer.start(nothing(2))
    step(board.writer, [1, 2], [True, True])
    told = {"something": np.zeros(2)}
    board.writer.append(np.zeros(2, int), np.array([3.0, 4]), yes, ~yes, nothing(2), told)
    assert board.new() == [(-1, 1, 1), (-1, 3, 1), (-1, 2, 1), (-1, 4, 1)]


def test_what_was_never_finished_is_forgotten() -> None:
    board = Board(2)
    board.writer.start(nothing(2))
    step(board.writer, [5, 6], [False, False], [1, 2])
    board.writer.start(nothing(1), np.array([1]))
    step(board.writer, [1, 1], [True, True], [1, 3])
    assert board.new() == [(1, 6, 2), (3, 1, 1)]


def test_the_next_episode_of_a_lane_begins_at_nothing_without_a_start() -> None:
    board = Board(1)
    board.writer.start(nothing(1))
    for reward in (1, 2, 3):
        step(board.writer, [reward], [True], [reward])
    assert board.new() == [(1, 1, 1), (2, 2, 1), (3, 3, 1)]


def test_writers_of_lanes_of_their_own() -> None:
    board = Board(3, mine=[0, 2])
    other = ReturnWriter(board.ring, np.array([1]))
    board.writer.start(nothing(2))
    other.start(nothing(1))
    step(board.writer, [1, 3], [True, True], [5, 6])
    step(other, [2], [True], [7])
    assert board.new() == [(5, 1, 1), (7, 2, 1), (6, 3, 1)]


def test_sums_are_float64() -> None:
    board = Board(1)
    board.writer.start(nothing(1))
    step(board.writer, [2.0**24], [False], [0])
    step(board.writer, [1], [False], [0])
    step(board.writer, [2.0**-20], [True], [0])
    assert board.new() == [(0, 2.0**24 + 1 + 2.0**-20, 3)]


def test_returns_that_are_no_number_are_told_as_they_are() -> None:
    board = Board(3)
    board.writer.start(nothing(3))
    step(board.writer, [np.nan, np.inf, np.inf], [False] * 3, [1, 2, 3])
    step(board.writer, [1, 1, -np.inf], [True] * 3, [1, 2, 3])
    (_, one, _), (_, two, _), (_, three, _) = board.new()
    assert np.isnan(one)
    assert two == np.inf
    assert np.isnan(three)


def test_what_was_overwritten_before_it_was_read_is_gone() -> None:
    board = Board(2, rows=3)
    board.writer.start(nothing(2))
    for number in range(5):
        step(board.writer, [number], [True], [number], lanes=[1])
    assert board.new() == [(2, 2, 1), (3, 3, 1), (4, 4, 1)]
    step(board.writer, [5, 6], [True, True], [5, 6])
    assert board.new() == [(5, 5, 1), (6, 6, 1)]


def test_each_lane_keeps_so_many_results() -> None:
    ring = result_ring(4, 25)
    assert (ring.plan.lanes, ring.plan.rows_per_lane) == (4, 25)
    assert ring.plan.bytes_full == 4 * 25 * 24
