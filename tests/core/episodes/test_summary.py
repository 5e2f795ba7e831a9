"""Episodes as a whole, and the newest steps of every lane, by hand."""

import numpy as np
import pytest

from core.episodes.search import evict_whole_episodes
from core.episodes.starts import TransitionStarts
from core.episodes.summary import Episode, newest_windows, summaries

from .stories import Story

LANE = 2**40


def test_nothing_is_held_of_nothing() -> None:
    assert summaries(Story(9).ring) == []


def test_how_episodes_ended_and_what_they_earned() -> None:
    # rewards are the numbers of the rows, from 1
    story = Story(30).tell("s..ts.cs..s.l.")
    assert summaries(story.ring) == [
        Episode(0, 0, 3, 1 + 2 + 3, "terminated", True),
        Episode(0, 4, 2, 5 + 6, "truncated", True),
        # broken off: its last observation became a closing row
        Episode(0, 7, 2, 8 + 9, "truncated", True),
        # a lost life is no end
        Episode(0, 10, 3, 11 + 12 + 13, "open", True),
    ]


def test_a_bare_start_has_no_step() -> None:
    assert summaries(Story(9).tell("s").ring) == [Episode(0, 0, 0, 0.0, "open", True)]
    assert summaries(Story(9).tell("ss").ring) == [
        Episode(0, 0, 0, 0.0, "truncated", True),
        Episode(0, 1, 0, 0.0, "open", True),
    ]


def test_a_life_lost_on_the_way_says_nothing_of_the_end() -> None:
    story = Story(30).tell("sl.cs.l.cs..t")
    assert [episode.ended for episode in summaries(story.ring)] == [
        "truncated", "truncated", "terminated"
    ]  # fmt: skip


def test_what_lost_rows_is_said_and_counted_as_held() -> None:
    story = Story(6).tell("s..ts..")
    assert summaries(story.ring) == [
        Episode(0, 1, 2, 2 + 3, "terminated", False),
        Episode(0, 4, 2, 5 + 6, "open", True),
    ]
    # of the first its closing row is left, which does not say how it ended
    assert summaries(story.tell("..").ring) == [
        Episode(0, 3, 0, 0.0, "truncated", False),
        Episode(0, 4, 4, 5 + 6 + 7 + 8, "open", True),
    ]


def test_lanes_come_one_after_the_other_and_each_by_age() -> None:
    story = Story(9, lanes=3).tell("s.", 2).tell("sts.", 0)
    found = [(episode.lane, episode.first_id, episode.length) for episode in summaries(story.ring)]
    assert found == [(0, 0, 1), (0, 2, 1), (2, 2 * LANE, 1)]


def test_returns_are_summed_in_float64() -> None:
    ring = Story(9).tell("s...t").ring
    rows = ring.where(np.zeros(4, np.int64), np.arange(4))
    ring.write(rows, {"reward": np.array([2.0**24, 1, 1, 1])})
    assert summaries(ring)[0].total_reward == 2**24 + 3


def newest(story: Story, length: int, window: int = 1) -> list[tuple[int, int, int]]:
    starts = TransitionStarts(story.ring, window)
    draw, counts = newest_windows(story.ring, starts, length)
    assert draw.weight.tolist() == [1] * len(counts)
    assert draw.weight.dtype == np.float32
    found = zip(draw.lanes.tolist(), draw.rows.tolist(), counts.tolist(), strict=True)
    return list(found)


@pytest.mark.parametrize(
    ("story", "length", "wanted"),
    [
        ("", 3, []),
        ("s", 3, []),
        ("s.", 3, [(0, 1)]),
        ("s...", 3, [(0, 3)]),
        ("s.....", 3, [(2, 3)]),
        ("s.....t", 3, [(3, 3)]),
        ("s.....ts", 3, [(3, 3)]),
        ("s.....ts.", 3, [(4, 2), (7, 1)]),
        ("s.....ts..", 3, [(5, 1), (7, 2)]),
        ("s.....ts...", 3, [(7, 3)]),
        # every second row is closing
        ("stststst", 3, [(2, 1), (4, 1), (6, 1)]),
        ("stststs", 3, [(0, 1), (2, 1), (4, 1)]),
        # episodes without a step stand between the newest steps
        ("s..sss", 2, [(0, 2)]),  # one of the two lies within twice as many rows
        ("s..sssssssss", 2, [(0, 2)]),
        ("s...sssssssssssssts.", 4, [(1, 2), (16, 1), (18, 1)]),
        ("sssssss", 4, []),
    ],
)
def test_the_newest_steps_are_cut_where_episodes_end(story: str, length: int, wanted) -> None:
    assert newest(Story(40).tell(story), length) == [(0, *window) for window in wanted]


def test_the_newest_steps_of_lanes_that_wrapped() -> None:
    story = Story(6, lanes=3, evict=evict_whole_episodes)
    story.tell("s..ts.....", 0).tell("s.........", 2)
    assert newest(story, 4) == [(0, 5, 4), (2, 5, 4)]
    assert newest(story, 9) == [(0, 4, 5), (2, 4, 5)]
    # a stack that the tail cut is no start
    assert newest(story, 9, window=3) == [(0, 4, 5), (2, 6, 3)]


def test_the_newest_steps_are_not_looked_for_among_all() -> None:
    story = Story(5_000).tell("s" + "." * 4_000)
    asked: list[int] = []

    class Watched(TransitionStarts):
        def legal(self, lanes, rows):
            asked.append(len(rows))
            return super().legal(lanes, rows)

    _, counts = newest_windows(story.ring, Watched(story.ring, 2), 20)
    assert counts.tolist() == [20]
    assert asked == [40]
