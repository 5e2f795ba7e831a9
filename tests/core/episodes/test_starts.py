"""Legal starts, by hand."""

import numpy as np
import pytest

from core.episodes.rows import RowWriter, plan_rows
from core.episodes.starts import TransitionStarts
from core.sampling.uniform import all_starts
from core.storage.plan import plan_store
from core.storage.ring import RingBuffer
from core.types import ArraySpec, DiscreteActions, EnvSpec

ENV = EnvSpec({"obs": ArraySpec((1,), np.dtype(np.float32))}, DiscreteActions(2))


class Lane:
    """One lane told by words: `s` start, `.` step, `t` terminal step, `c` cut step."""

    def __init__(self, rows: int, lanes: int = 1) -> None:
        self.ring = RingBuffer(plan_store(plan_rows(ENV, {}, "auto", "exact"), lanes, rows * lanes))
        self.writer = RowWriter(self.ring, ENV, np.arange(lanes))

    def tell(self, story: str, lane: int = 0) -> "Lane":
        at = np.array([lane])
        for word in story:
            if word == "s":
                self.writer.start({"obs": np.zeros((1, 1), np.float32)}, at)
            else:
                self.writer.append(
                    np.zeros(1, np.int64),
                    np.zeros(1),
                    np.array([word == "t"]),
                    np.array([word == "c"]),
                    {"obs": np.zeros((1, 1), np.float32)},
                    lanes=at,
                )
        return self

    def rows(self, window: int) -> list[int]:
        starts = TransitionStarts(self.ring, window)
        lanes, rows = all_starts(starts)
        assert len(starts) == len(rows)
        assert not lanes.any()
        return rows.tolist()


@pytest.mark.parametrize(
    ("story", "window", "legal"),
    [
        ("", 1, []),
        ("s", 1, []),
        ("ss", 2, []),
        ("s.", 1, [0]),
        ("s.", 4, [0]),  # the window is longer than the episode
        ("st", 1, [0]),
        ("st", 3, [0]),
        ("sc", 1, [0]),
        ("s..t", 2, [0, 1, 2]),
        ("s.ts.", 2, [0, 1, 3]),
        ("s.cs.cs", 2, [0, 1, 3, 4]),
        ("s.s.s.", 4, [0, 2, 4]),
        ("sts", 1, [0]),
        ("stststst", 1, [0, 2, 4, 6]),
        ("stststst", 3, [0, 2, 4, 6]),
    ],
)
def test_before_the_ring_wraps(story: str, window: int, legal: list[int]) -> None:
    assert Lane(10).tell(story).rows(window) == legal


@pytest.mark.parametrize(
    ("story", "window", "legal"),
    [
        # 6 rows held of 8: 2 to 7; 7 is open
        ("s.......", 1, [2, 3, 4, 5, 6]),
        ("s.......", 2, [3, 4, 5, 6]),
        ("s.......", 3, [4, 5, 6]),
        ("s.......", 4, [5, 6]),
        # the tail is an episode's first row: its stacks are whole
        ("s.s.....", 4, [2, 3, 4, 5, 6]),
        # the tail is an episode's second row: stacks that reach its first are cut
        ("ss......", 3, [4, 5, 6]),
        ("ss......", 2, [3, 4, 5, 6]),
        # the tail is a closing row
        ("s..s....", 3, [3, 4, 5, 6]),
        ("s.cs....", 3, [3, 4, 5, 6]),
        # the newest row is closing, and so is the one before the newest episode
        ("s...s..t", 2, [4, 5, 6]),
        # short episodes: what is behind the first cut stack is whole
        ("s..ts..t", 3, [4, 5, 6]),
        ("s..tsts.", 4, [4, 6]),
    ],
)
def test_after_the_ring_has_wrapped(story: str, window: int, legal: list[int]) -> None:
    lane = Lane(6).tell(story)
    assert lane.ring.tails.tolist() == [2]
    assert lane.rows(window) == legal


def test_a_stack_longer_than_what_is_held_leaves_nothing() -> None:
    lane = Lane(3).tell("s.....")
    assert lane.rows(2) == [4]
    assert lane.rows(3) == []
    assert lane.rows(9) == []


def test_an_exactly_full_ring_is_all_there() -> None:
    assert Lane(4).tell("s...").rows(4) == [0, 1, 2]
    assert Lane(4).tell("s....").rows(4) == []
    assert Lane(4).tell("s....").rows(3) == [3]


def test_lanes_are_counted_together_and_apart() -> None:
    told = Lane(6, lanes=4).tell("s.......", 1).tell("s.t", 3).tell("s", 2)
    starts = TransitionStarts(told.ring, 3)
    lanes, rows = all_starts(starts)
    assert lanes.tolist() == [1, 1, 1, 3, 3]
    assert rows.tolist() == [4, 5, 6, 0, 1]
    assert len(starts) == 5
    lows, counts = starts.spans()
    assert (lows.tolist(), counts.tolist()) == ([0, 2, 0, 0], [0, 5, 0, 2])


def test_spans_do_not_move_with_the_ring() -> None:
    told = Lane(3).tell("s..")
    lows, counts = TransitionStarts(told.ring, 1).spans()
    told.tell("...")
    assert (lows.tolist(), counts.tolist()) == ([0], [2])


def test_the_count_of_episodes_may_wrap() -> None:
    told = Lane(9)
    told.writer._episode[:] = 2**31 - 3
    assert told.tell("ststs.ts.").rows(2) == [0, 2, 4, 5, 7]


@pytest.mark.parametrize("window", [1, 2, 4])
def test_the_first_legal_ones_of_any_candidates_are_found(window: int) -> None:
    rng = np.random.default_rng(window)
    told = Lane(13, lanes=3)
    for _ in range(60):
        lane = int(rng.integers(3))
        told.tell("".join(["s", *rng.choice(list("...tc"), 1)]), lane)
        starts = TransitionStarts(told.ring, window)
        lows, counts = starts.spans()
        ends = np.cumsum(counts)
        if not ends[-1]:
            continue
        spread = rng.random(20)
        spread[-1] = np.nextafter(1, 0)
        picks = (spread * ends[-1]).astype(np.int64)
        lanes = np.searchsorted(ends, picks, side="right")
        rows = lows[lanes] + picks - (ends - counts)[lanes]
        legal = starts.legal(lanes, rows)
        for size in (1, 5, 20):
            found = starts.locate(spread, size)
            assert np.array_equal(found[0], lanes[legal][:size])
            assert np.array_equal(found[1], rows[legal][:size])
