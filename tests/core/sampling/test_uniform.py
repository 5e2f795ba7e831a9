"""Uniform draws over units that are legal, however few."""

import numpy as np
import pytest

from core.sampling.uniform import MAX_ROUNDS, Uniform, all_starts


class Some:
    """Units by hand: candidate spans a lane, and the set of legal (lane, row)."""

    def __init__(self, spans: list[tuple[int, int]], legal: set[tuple[int, int]]) -> None:
        self._spans = spans
        self._legal = legal
        self.asked = 0

    def spans(self):
        lows, counts = zip(*self._spans, strict=True)
        return np.array(lows), np.array(counts)

    def legal(self, lanes, rows):
        self.asked += 1
        pairs = zip(lanes.tolist(), rows.tolist(), strict=True)
        for lane, row in zip(lanes.tolist(), rows.tolist(), strict=True):
            low, count = self._spans[lane]
            assert low <= row < low + count, "asked for a row that is no candidate"
        return np.array([pair in self._legal for pair in pairs], np.bool_)

    def locate(self, spread, size):
        lows, counts = self.spans()
        ends = np.cumsum(counts)
        if not ends[-1]:
            return ends[:0], ends[:0]
        picks = (spread * ends[-1]).astype(np.int64)
        lanes = np.searchsorted(ends, picks, side="right")
        rows = lows[lanes] + picks - np.concatenate([[0], ends])[lanes]
        legal = self.legal(lanes, rows)
        return lanes[legal][:size], rows[legal][:size]

    def __len__(self) -> int:
        return len(self._legal)


def everything(spans) -> set[tuple[int, int]]:
    return {(x, row) for x, (low, count) in enumerate(spans) for row in range(low, low + count)}


def drawn(starts: Some, size: int, seed: int = 0) -> dict[tuple[int, int], int]:
    draw = Uniform().draw(starts, size, np.random.default_rng(seed))
    assert draw.lanes.shape == draw.rows.shape == draw.weight.shape == (size,)
    assert draw.weight.dtype == np.float32
    assert (draw.weight == 1).all()
    counts: dict[tuple[int, int], int] = {}
    for pair in zip(draw.lanes.tolist(), draw.rows.tolist(), strict=True):
        counts[pair] = counts.get(pair, 0) + 1
    return counts


SPANS = [(0, 3), (7, 0), (100, 2), (0, 0), (2**40, 5), (3, 0)]


def test_all_starts_are_in_order_of_lane_and_row() -> None:
    legal = {(4, 2**40 + 4), (0, 1), (2, 101), (4, 2**40)}
    lanes, rows = all_starts(Some(SPANS, legal))
    assert list(zip(lanes.tolist(), rows.tolist(), strict=True)) == sorted(legal)


@pytest.mark.parametrize(
    "legal",
    [
        everything(SPANS),
        {(0, 0), (0, 2), (2, 100), (4, 2**40 + 4)},
        {(0, 2), (4, 2**40)},
        {(2, 101)},
    ],
    ids=["all", "some", "two", "one"],
)
def test_each_unit_comes_as_often_whichever_way_it_is_found(legal) -> None:
    size = 3_000 * len(legal)
    counts = drawn(Some(SPANS, legal), size)
    assert set(counts) == legal
    # 3000 expected; 6 standard deviations
    assert all(abs(count - 3_000) < 6 * 3_000**0.5 for count in counts.values())


def test_few_among_many_are_found_by_counting() -> None:
    # one in ten thousand: no round of a draw finds it but by chance
    starts = Some([(0, 10_000), (50, 10_000)], {(0, 0), (1, 10_049)})
    counts = drawn(starts, 4_000)
    assert set(counts) == {(0, 0), (1, 10_049)}
    assert abs(counts[0, 0] - 2_000) < 6 * 1_000**0.5
    assert starts.asked == MAX_ROUNDS + 1


def test_where_all_are_legal_one_round_is_enough() -> None:
    starts = Some(SPANS, everything(SPANS))
    drawn(starts, 50)
    assert starts.asked == 1


@pytest.mark.parametrize("spans", [[(0, 0)], [(0, 9)], [(4, 0), (0, 0)]])
def test_nothing_to_draw_is_said(spans) -> None:
    with pytest.raises(ValueError, match="nothing that can be sampled yet"):
        Uniform().draw(Some(spans, set()), 1, np.random.default_rng(0))


def test_the_same_generator_draws_the_same_and_another_does_not() -> None:
    starts = Some([(0, 50)], {(0, row) for row in range(0, 50, 3)})
    one, two, other = (
        Uniform().draw(starts, 20, np.random.default_rng(seed)).rows.tolist() for seed in (1, 1, 2)
    )
    assert one == two
    assert one != other


@pytest.mark.parametrize("size", [1, 9, 32, 320])
def test_each_round_tries_a_few_more_than_are_missing(size: int) -> None:
    class Watched(Some):
        def locate(self, spread, size):
            tried.append((len(spread), size))
            return super().locate(spread, size)

    spans = [(0, 50), (100, 50)]
    half = {pair for pair in everything(spans) if pair[1] % 2}
    tried: list[tuple[int, int]] = []
    drawn(Watched(spans, half), size)
    assert tried[0][1] == size
    for count, missing in tried:
        assert missing + missing // 20 < count <= missing + missing // 10 + 3
