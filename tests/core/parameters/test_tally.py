"""Which candidate earned what, and when a generation is judged."""

import numpy as np
import pytest

from core.parameters.kept import Kept, candidate_id
from core.parameters.returns import ReturnWriter, result_ring
from core.parameters.store import make_store
from core.parameters.tally import UNCLAIMED, Tally

from .candidates import copied, episode, generation, play, rewards, same, step, total

SIZE = 5


class Table:
    """Lanes, a tally and what it keeps."""

    def __init__(self, lanes: int = 1, kind: str = "copies", capacity: int = 2_000) -> None:
        self.kept = Kept(make_store(kind, capacity, SIZE, 4), capacity, 4)
        self.results = result_ring(lanes, capacity)
        self.tally = Tally(self.results, self.kept)
        self.writer = ReturnWriter(self.results, np.arange(lanes))


def vector(value: float) -> np.ndarray:
    return np.full(SIZE, value, np.float32)


def test_without_a_generation_nothing_is_finished() -> None:
    table = Table()
    assert table.tally.finished() is None
    episode(table.writer, 1, 2)
    assert table.tally.finished() is None
    assert len(table.kept) == 0


def test_a_generation_is_finished_once_all_returns_are_there() -> None:
    table = Table()
    some = generation(3, count=4)
    table.tally.begin(some)
    for index in (2, 0, 3):
        step(table.writer, [float(index)], [True], [candidate_id(3, index)])
        assert table.tally.finished() is None
        assert len(table.kept) == 0
    step(table.writer, [9.0], [False], [candidate_id(3, 1)])
    assert table.tally.finished() is None
    step(table.writer, [0.5], [True], [candidate_id(3, 1)])
    returns = table.tally.finished()
    assert returns.tolist() == [0, 9.5, 2, 3]
    assert returns.dtype == np.float64
    # kept by index, whatever the order they came in
    assert table.kept.records.tolist() == [
        (candidate_id(3, index), 3, earned, steps)
        for index, (earned, steps) in enumerate([(0, 1), (9.5, 2), (2, 1), (3, 1)])
    ]
    assert table.tally.finished() is None, "a generation is given once"


def test_returns_of_an_earlier_generation_are_not_taken_for_this_one_s() -> None:
    table = Table()
    table.tally.begin(generation(0, count=2))
    step(table.writer, [1.0], [True], [candidate_id(0, 0)])
    assert table.tally.finished() is None
    table.tally.begin(generation(1, count=2))
    step(table.writer, [2.0], [True], [candidate_id(0, 1)])
    assert table.tally.finished() is None
    for index in (0, 1):
        step(table.writer, [5.0 + index], [True], [candidate_id(1, index)])
    assert table.tally.finished().tolist() == [5, 6]
    assert len(table.kept) == 2


def test_a_return_that_is_no_number_drops_its_candidate_and_is_counted() -> None:
    table = Table()
    bad = {1: [np.nan, 1.0], 2: [np.inf], 4: [np.inf, -np.inf]}
    some = generation(0, count=6)

    def judge(number: int, index: int) -> list[float]:
        return bad.get(index, [float(index)])

    table.tally.begin(some)
    play(table.writer, some, 1, judge)
    returns = table.tally.finished()
    assert np.isfinite(returns).tolist() == [True, False, False, True, False, True]
    assert table.tally.dropped == 3
    assert table.kept.records["id"].tolist() == [0, 3, 5]
    table.kept.check()
    for number in (1, 2):
        following = generation(number, count=6)
        table.tally.begin(following)
        play(table.writer, following, 1, judge)
        assert table.tally.finished() is not None
    assert table.tally.dropped == 9


def test_a_claim_takes_the_oldest_return_that_nobody_is_named_for() -> None:
    table = Table()
    with pytest.raises(ValueError, match="no episode has ended"):
        table.tally.claim(vector(0))
    episode(table.writer, 1, 2)
    episode(table.writer, 5)
    assert table.tally.claim(vector(1)) == 3
    assert table.tally.claim(vector(2)) == 5
    with pytest.raises(ValueError, match="no episode has ended"):
        table.tally.claim(vector(3))
    records = table.kept.records
    assert records["total_reward"].tolist() == [3, 5]
    assert records["length"].tolist() == [2, 1]
    assert table.kept.batch(table.kept.slots)["parameters"][:, 0].tolist() == [1, 2]


def test_a_claim_that_is_refused_can_be_made_again() -> None:
    table = Table()
    episode(table.writer, 4)
    with pytest.raises(ValueError, match="shape"):
        table.tally.claim(np.zeros(SIZE + 2, np.float32))
    assert table.tally.claim(vector(1)) == 4
    assert len(table.kept) == 1


@pytest.mark.parametrize("kind", ["seeds", "float16"])
def test_only_copies_can_be_claimed(kind: str) -> None:
    table = Table(kind=kind)
    episode(table.writer, 4)
    with pytest.raises(ValueError, match="only --remember copies"):
        table.tally.claim(vector(1))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_claim_on_a_return_that_is_no_number_keeps_nothing(bad: float) -> None:
    table = Table()
    episode(table.writer, 1, bad)
    episode(table.writer, 2)
    assert not np.isfinite(table.tally.claim(vector(1)))
    assert (len(table.kept), table.tally.dropped) == (0, 1)
    assert table.tally.claim(vector(2)) == 2
    table.kept.check()


def test_claims_and_generations_do_not_mix() -> None:
    table = Table()
    table.tally.begin(generation(0, count=2))
    step(table.writer, [1.0], [True], [candidate_id(0, 0)])
    step(table.writer, [2.0], [True])
    step(table.writer, [3.0], [True], [candidate_id(0, 1)])
    assert table.tally.claim(vector(9)) == 2
    assert table.tally.finished().tolist() == [1, 3]
    assert table.kept.records["generation"].tolist() == [-1, 0, 0]


def test_what_nobody_claims_is_bounded() -> None:
    table = Table()
    for number in range(UNCLAIMED + 5):
        step(table.writer, [float(number)], [True])
    # the oldest were let go
    assert table.tally.claim(vector(0)) == 5
    assert table.tally.finished() is None


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("kind", ["seeds", "copies", "float16"])
def test_a_tally_saved_in_the_middle_goes_on_identically(kind: str, lanes: int) -> None:
    table, resumed = Table(lanes, kind, 40), Table(lanes, kind, 40)
    some, next_one = generation(0, count=8), generation(1, count=8)
    table.tally.begin(some)
    for index in range(5):
        lane = index % lanes
        step(table.writer, [1.0 + index], [True], [candidate_id(0, index)], lanes=[lane])
    episode_lane = [0]
    step(table.writer, [7.0], [True], lanes=episode_lane)
    table.tally.finished()
    # two have ended that were not read yet
    step(table.writer, [6.0], [True], [candidate_id(0, 5)], lanes=[lanes - 1])
    for part in ("kept", "tally", "results"):
        getattr(resumed, part).load(copied(getattr(table, part).state()))
    for both in (table, resumed):
        for index in (6, 7):
            step(both.writer, [1.0 + index], [True], [candidate_id(0, index)], lanes=[0])
        assert both.tally.finished().tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
        both.tally.begin(next_one)
        play(both.writer, next_one, lanes)
        wanted = [total(rewards(1, index)) for index in range(8)]
        assert both.tally.finished().tolist() == wanted
        if kind == "copies":
            assert both.tally.claim(vector(3)) == 7
    assert same(table.kept.batch(table.kept.slots), resumed.kept.batch(resumed.kept.slots))


def test_a_tally_without_a_generation_can_be_saved() -> None:
    table, resumed = Table(), Table()
    episode(table.writer, np.nan)
    table.tally.claim(vector(0))
    episode(table.writer, 4)
    resumed.tally.begin(generation(0))
    resumed.tally.load(copied(table.tally.state()))
    resumed.results.load(copied(table.results.state()))
    assert resumed.tally.dropped == 1
    assert resumed.tally.claim(vector(1)) == 4
    # the generation that it had is not the saved one's
    play(resumed.writer, generation(0), 1)
    assert resumed.tally.finished() is None
