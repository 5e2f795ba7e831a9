"""Finding episodes, and letting go of whole ones, by hand."""

import numpy as np
import pytest

from core.episodes.search import EpisodeIndex, evict_whole_episodes, first_rows

from .stories import Story


def lists(*arrays: np.ndarray) -> list[list[int]]:
    return [array.tolist() for array in arrays]


def firsts(story: Story, *episodes: int, lane: int = 0) -> list[int]:
    return first_rows(story.ring, np.full(len(episodes), lane), np.array(episodes)).tolist()


def test_first_rows_before_the_ring_wraps() -> None:
    story = Story(20).tell("s..tss.ts.")
    # the episode of row 4 was broken off before its first step
    assert firsts(story, 0, 1, 2, 3, 4) == [0, 4, 5, 8, 10]


@pytest.mark.parametrize("steps", range(12))
def test_first_rows_wherever_the_tail_is(steps: int) -> None:
    story = Story(9).tell("s..tsts.t" + "s" + "." * steps)
    tail = story.spans[0][0]
    wanted = [max(row, tail) for row in (0, 4, 6, 9)]
    assert firsts(story, 0, 1, 2, 3, 4) == [*wanted, 10 + steps]


def test_first_rows_of_several_lanes_are_found_at_once() -> None:
    story = Story(9, lanes=3).tell("ststs", 0).tell("s....", 2)
    lanes, episodes = np.array([2, 0, 0, 1, 2]), np.array([0, 1, 2, 0, 1])
    assert first_rows(story.ring, lanes, episodes).tolist() == [0, 2, 4, 0, 5]
    assert lists(story.ring.tails, story.ring.heads) == [[0, 0, 0], [5, 0, 5]]


def test_looking_costs_halvings() -> None:
    story = Story(5_000).tell("st" * 2_400)
    asked, gather = [], story.ring.gather
    story.ring.gather = lambda name, where: asked.append(where) or gather(name, where)
    assert firsts(story, 1_234) == [2_468]
    assert len(asked) <= 13


def test_the_count_of_episodes_of_each_lane() -> None:
    story = Story(9, lanes=3).tell("ststs", 0).tell("s........t", 2)
    index = EpisodeIndex(story.ring, 1)
    assert lists(*index.counts()) == [[0, 0, 0], [3, 0, 1]]
    story.tell("s....", 0)
    # row 0 of lane 0 was evicted, the closing row of its episode is held
    assert lists(*index.counts()) == [[0, 0, 0], [4, 0, 1]]
    story.tell(".", 0)
    assert lists(*index.counts())[0] == [1, 0, 0]


@pytest.mark.parametrize(
    ("window", "wanted"),
    [
        # rows 2 to 10: what is left of 0 (2, 3 closing), 1 (4, 5 closing), 2 (6 to 9, 10 open)
        (1, [(2, 1), (4, 1), (6, 4)]),
        (2, [(3, 0), (4, 1), (6, 4)]),
        (9, [(10, 0), (4, 1), (6, 4)]),
    ],
)
def test_starts_of_an_episode_leave_out_stacks_that_the_tail_cut(window: int, wanted) -> None:
    story = Story(9).tell("s..tsts....")
    assert story.spans == [(2, 11)]
    found = EpisodeIndex(story.ring, window).starts(np.zeros(3, np.int64), np.arange(3))
    assert list(zip(*lists(*found), strict=True)) == wanted


def test_starts_in_an_episode_that_the_tail_cut() -> None:
    story = Story(6).tell("s........")
    for window, wanted in ((1, (3, 5)), (3, (5, 3)), (6, (8, 0)), (7, (9, 0))):
        first, count = EpisodeIndex(story.ring, window).starts(np.array([0]), np.array([0]))
        assert (int(first[0]), int(count[0])) == wanted


@pytest.mark.parametrize(
    ("story", "span"),
    [
        # 6 rows: nothing is lost yet
        ("s..ts.", (0, 6)),
        # the first row went, and with it its episode
        ("s..ts..", (4, 7)),
        ("s..ts....", (4, 9)),
        ("s..ts.....", (4, 10)),
        # the newest keeps its newest rows, however long it is
        ("s..ts......", (5, 11)),
        ("s..ts........", (7, 13)),
        # exactly one row for each that goes: the tail is a first row, and stays
        ("ststst", (0, 6)),
        ("stststs", (2, 7)),
        ("stststst", (2, 8)),
        # several short ones: only the one that was cut goes
        ("ststs..", (2, 7)),
        ("ststs....", (4, 9)),
        # an ended episode is the newest until the next has a step
        ("s.......t", (3, 9)),
        ("s.......ts", (4, 10)),
        ("s.......ts.", (9, 11)),
        ("s.......tss", (9, 11)),
    ],
)
def test_whole_episodes_go(story: str, span: tuple[int, int]) -> None:
    assert Story(6, evict=evict_whole_episodes).tell(story).spans == [span]


def test_lanes_are_evicted_apart() -> None:
    story = Story(6, lanes=3, evict=evict_whole_episodes)
    story.tell("s..ts..", 2).tell("s..ts", 0)
    assert story.spans == [(0, 5), (0, 0), (4, 7)]
    both = np.array([0, 2])
    # batched: one lane has something to let go, the other has not
    for _ in range(2):
        story.writer.append(
            np.zeros(2, int), np.zeros(2), np.zeros(2, bool), np.zeros(2, bool),
            {"obs": np.zeros(2, np.float32)}, {"mark": np.zeros(2, np.float32)}, lanes=both,
        )  # fmt: skip
    assert story.spans == [(4, 7), (0, 0), (4, 9)]


def test_what_is_let_go_is_never_held_again() -> None:
    story = Story(8, evict=evict_whole_episodes)
    tails = []
    for word in "s......ts.ts...........ts..tststs" * 3:
        story.tell(word)
        ((tail, head),) = story.spans
        tails.append(tail)
        assert head - tail <= 8
    assert tails == sorted(tails)
