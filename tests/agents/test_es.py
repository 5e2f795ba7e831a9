import numpy as np
import pytest
import torch

from agents.maths.evolution import centred_ranks
from agents.options.es import ESOptions
from core.errors import UsageError
from core.options import SharedOptions
from tests.agents.search_worlds import Search, score_of
from utils.options import CONFIGS

torch.set_num_threads(1)
NAN = "tests.agents.search_worlds:WalkNan-v0"
EVEN = "tests.agents.search_worlds:WalkEven-v0"


def returns_of(search: Search, number: int) -> np.ndarray:
    """The returns of a generation by candidate, NaN for those that were dropped."""
    returns = np.full(len(search.generation), np.nan)
    for record in search.memory.compare():
        if record["generation"] == number:
            returns[record["id"] & ((1 << 20) - 1)] = record["total_reward"]
    return returns


def test_candidates_come_in_pairs_around_the_mean():
    search = Search(sigma=0.3).go(3)
    seen = set()
    for generation in search.played:
        assert generation.signs.tolist() == [1, -1] * 3
        assert np.allclose(generation.spread, 0.3)
        for plus, minus in ((0, 1), (2, 3), (4, 5)):
            assert np.array_equal(generation.noise(plus), generation.noise(minus))
            up, down = generation.candidate(plus), generation.candidate(minus)
            assert np.allclose(up - generation.mean, 0.3 * generation.noise(plus), atol=1e-6)
            assert np.allclose((up + down) / 2, generation.mean, atol=1e-6)
            seen.add(generation.noise(plus).tobytes())
    assert len(seen) == 12  # no noise twice
    assert [generation.number for generation in search.played] == [0, 1, 2, 3]


def test_the_mean_moves_as_defined():
    """Each step from the returns and seeds that the memory holds, by loops in numpy."""
    search = Search(lr=0.07, weight_decay=0.02, sigma=0.5).go(6)
    mean = Search(lr=0.07).mean
    first, second = np.zeros_like(mean), np.zeros_like(mean)
    for generation in search.played[:6]:
        assert np.array_equal(generation.mean, mean.astype(np.float32))
        returns = returns_of(search, generation.number)
        shaped = centred_ranks(returns)
        gradient = np.zeros_like(mean)
        for index, rank in enumerate(shaped):
            gradient += rank * generation.signs[index] * generation.noise(index) / len(shaped)
        gradient -= 0.02 * mean
        count = generation.number + 1
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        unbiased = np.sqrt(second / (1 - 0.999**count)) + 1e-8
        mean = mean + 0.07 * first / (1 - 0.9**count) / unbiased
    assert np.allclose(search.mean, mean, atol=1e-9)


def test_what_is_told_is_what_was_earned():
    search = Search().go(4)
    means = [search.played[number].mean for number in range(5)]
    for number, told in enumerate(search.told):
        returns = returns_of(search, number)
        assert told["generation"] == number
        assert told["fitness_mean"] == pytest.approx(returns.mean())
        assert told["fitness_best"] == returns.max()
        assert told["fitness_std"] == pytest.approx(returns.std())
        moved = np.linalg.norm(means[number + 1] - means[number])
        assert told["step_norm"] == pytest.approx(moved, rel=1e-4)
        assert told["dropped"] == told["flat"] == 0
        assert set(told) == set(search.agent.metrics)
    assert search.agent.updates == 4


def test_nothing_is_told_before_a_generation_is_judged():
    search = Search(num_envs=1)
    search.step()
    assert search.told == [] and search.agent.learn(search.memory) == {}
    assert search.agent.updates == 0 and search.agent.exploration(100) is None


# What says nothing, and what is no number.


def test_a_flat_population_changes_nothing_and_is_said_once():
    search = Search(game=EVEN)
    begun = search.mean
    search.go(10)
    assert np.array_equal(search.mean, begun)
    assert [told["flat"] for told in search.told] == list(range(1, 11))
    assert all(told["step_norm"] == told["fitness_std"] == 0.0 for told in search.told)
    assert search.said == ["a generation whose candidates all earned the same changed nothing"]
    # the next candidates are new ones around the same mean
    assert not np.array_equal(search.played[1].seeds, search.played[2].seeds)


def test_a_candidate_without_a_number_is_dropped_and_counted():
    search = Search(game=NAN, sigma=2.0, population=12)
    mean = search.mean
    search.go(1)
    returns = returns_of(search, 0)
    lost = int(np.isnan(returns).sum())
    assert 0 < lost < 11 and search.told[0]["dropped"] == lost
    assert len(search.memory) == 12 - lost
    assert search.told[0]["fitness_mean"] == pytest.approx(np.nanmean(returns))
    # the rest are ranked among themselves, and those dropped pull nowhere
    finite = np.isfinite(returns)
    shaped = np.zeros(12)
    shaped[finite] = centred_ranks(returns[finite])
    generation = search.played[0]
    noise = np.stack([generation.noise(index) for index in range(12)])
    gradient = (shaped * generation.signs) @ noise / 12 - 0.005 * mean
    assert np.array_equal(np.sign(search.mean - mean), np.sign(gradient))
    search.go(5)
    assert np.isfinite(search.mean).all()
    assert [told["dropped"] for told in search.told] == sorted(t["dropped"] for t in search.told)


def test_a_population_without_any_number_changes_nothing():
    search = Search(game=NAN, sigma=1e-6)
    # both actions' biases: action 1 always, whose reward is no number
    search.agent._mean[-2:] = [-50.0, 50.0]
    search.agent._population.begin(search.agent._propose(0))
    begun = search.mean
    search.go(2)
    assert np.array_equal(search.mean, begun) and len(search.memory) == 0
    assert search.told[1]["dropped"] == 12 and np.isfinite(list(search.told[1].values())).all()


def test_a_sight_that_is_no_number_spoils_no_other_candidate_s():
    search = Search(game="tests.agents.search_worlds:WalkBlind-v0", normalize_obs=True).go(8)
    assert all(
        np.isfinite(array).all() for array in search.agent._population.normalizer.state().values()
    )
    assert search.told[-1]["step_norm"] > 0


def test_a_memory_that_holds_no_generation_is_refused():
    options = ESOptions(population=6)
    with pytest.raises(
        UsageError, match="memory_limit 5 cannot hold a generation: population is 6"
    ):
        options.check(SharedOptions(), 5)
    assert options.check(SharedOptions(), 6) is None


# It learns.


def test_it_learns_a_rule():
    """To act by the sight's sign pays, which the mean has to find out by its candidates alone."""
    search = Search(population=20, sigma=0.3, lr=0.1, num_envs=4).go(25)
    means = [told["fitness_mean"] for told in search.told]
    assert np.mean(means[-3:]) > np.mean(means[:3]) + 1.0


def test_it_learns_cartpole():
    """25k of the row's 200k steps: over seeds 0 to 4 measured 143 to 500, from 10 to 20."""
    row = {**CONFIGS["es_cartpole"], "visdom": "off", "seed": 0}
    assert score_of(row, 25_000) > 140
