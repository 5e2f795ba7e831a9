"""Draws of an episode first, over episodes by hand."""

from collections import Counter

import numpy as np
import pytest

from core.sampling.by_episode import ByEpisode
from core.sampling.uniform import MAX_ROUNDS


class Some:
    """Episodes by hand: for each lane its first number, and (first start, starts) of each."""

    def __init__(self, *lanes: tuple[int, list[tuple[int, int]]]) -> None:
        self._lanes = lanes
        self.asked: list[int] = []

    def counts(self):
        firsts, episodes = zip(*self._lanes, strict=True)
        return np.array(firsts), np.array([len(some) for some in episodes])

    def starts(self, lanes, episodes):
        self.asked.append(len(lanes))
        found = []
        for lane, episode in zip(lanes.tolist(), episodes.tolist(), strict=True):
            first, some = self._lanes[lane]
            assert 0 <= episode - first < len(some), "asked for an episode that is not held"
            found.append(some[episode - first])
        first, legal = np.array(found, np.int64).reshape(-1, 2).T
        return first, legal


def drawn(spans: Some, size: int, seed: int = 0) -> Counter:
    draw = ByEpisode(spans).draw(None, size, np.random.default_rng(seed))
    assert draw.lanes.shape == draw.rows.shape == draw.weight.shape == (size,)
    assert (draw.weight == 1).all()
    return Counter(zip(draw.lanes.tolist(), draw.rows.tolist(), strict=True))


def assert_fair(counts: Counter, episodes: list[tuple[int, int, int]], size: int) -> None:
    """Six standard deviations for each start of each episode (lane, first, starts)."""
    wanted = {
        (lane, first + at): 1 / len(episodes) / legal
        for lane, first, legal in episodes
        for at in range(legal)
    }
    assert counts.keys() == wanted.keys()
    for start, chance in wanted.items():
        assert abs(counts[start] - size * chance) < 6 * (size * chance) ** 0.5


def test_each_episode_comes_as_often_and_each_of_its_starts() -> None:
    spans = Some((7, [(100, 1), (200, 9)]), (0, []), (2**31, [(2**40, 3), (5, 0), (9, 2)]), (4, []))
    episodes = [(0, 100, 1), (0, 200, 9), (2, 2**40, 3), (2, 9, 2)]
    counts = drawn(spans, 30_000)
    assert_fair(counts, episodes, 30_000)
    assert max(spans.asked) == 30_000
    assert len(spans.asked) < MAX_ROUNDS


def test_few_among_many_are_found_by_counting_and_drawn_as_fairly() -> None:
    empty = [(0, 0)] * 3_000
    spans = Some((0, [*empty, (10, 4), *empty]), (5, [*empty, (20, 1)]))
    assert_fair(drawn(spans, 4_000), [(0, 10, 4), (1, 20, 1)], 4_000)
    # all rounds, the count of all there are, and the starts of those that were chosen
    assert len(spans.asked) == MAX_ROUNDS + 2
    assert spans.asked[MAX_ROUNDS] == 9_002


def test_what_is_found_by_counting_is_drawn_with_replacement() -> None:
    spans = Some((0, [*[(0, 0)] * 300, (10, 1), (20, 1), (30, 1)]))
    alike = sum(len(drawn(spans, 2, seed)) == 1 for seed in range(300))
    assert abs(alike - 100) < 6 * (300 * 2 / 9) ** 0.5


def test_a_draw_finds_all_at_once_where_all_can_be_drawn() -> None:
    spans = Some((0, [(0, 5), (6, 5)]))
    drawn(spans, 40)
    assert spans.asked == [40]


@pytest.mark.parametrize("lanes", [[(0, [])], [(3, [(0, 0), (1, 0)]), (0, [])]])
def test_nothing_to_draw_is_said(lanes) -> None:
    with pytest.raises(ValueError, match="nothing that can be sampled yet"):
        drawn(Some(*lanes), 1)


def test_the_same_generator_draws_the_same_and_another_does_not() -> None:
    spans = Some((0, [(0, 50), (60, 70)]))
    assert drawn(spans, 30, 1) == drawn(spans, 30, 1)
    assert drawn(spans, 30, 1) != drawn(spans, 30, 2)
