import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agents.maths.evolution import Adam, centred_ranks, es_gradient, refit
from tests.conftest import examples

torch.set_num_threads(1)
SEEDS = st.integers(0, 2**31)
FEW = st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=12)


# Ranks.


@pytest.mark.parametrize(
    ("returns", "ranks"),
    [
        ([10.0, 30.0, 20.0], [-0.5, 0.5, 0.0]),
        ([1e-9, 5.0, 1e9, -4.0, 0.0], [0.0, 0.25, 0.5, -0.5, -0.25]),
        # the two in the middle share ranks 1 and 2 of 0..3
        ([7.0, 1.0, 9.0, 7.0], [0.0, -0.5, 0.5, 0.0]),
        # three at the bottom share ranks 0, 1 and 2: the mean is 1 of 0..4
        ([0.0, 0.0, 0.0, 2.0, 1.0], [-0.25, -0.25, -0.25, 0.5, 0.25]),
        ([4.0, 4.0], [0.0, 0.0]),
    ],
)
def test_ranks_worked_by_hand(returns: list[float], ranks: list[float]):
    assert np.allclose(centred_ranks(np.array(returns)), ranks)


def counted_ranks(returns: list[float]) -> list[float]:
    """How many are below, and half of the others that are equal; centred."""
    below = [sum(other < mine for other in returns) for mine in returns]
    equal = [sum(other == mine for other in returns) - 1 for mine in returns]
    return [
        (b + e / 2) / (len(returns) - 1) - 0.5 for b, e in zip(below, equal, strict=True)
    ]  # fmt: skip


@examples(100)
@given(returns=FEW, seed=SEEDS)
def test_ranks_know_only_the_order(returns: list[float], seed: int):
    values = np.array(returns)
    ranks = centred_ranks(values)
    assert np.allclose(ranks, counted_ranks(returns))
    assert ranks.sum() == pytest.approx(0.0, abs=1e-12)
    assert np.abs(ranks).max() <= 0.5
    assert np.allclose(centred_ranks(np.exp(values) * 100), ranks)
    assert np.allclose(centred_ranks(-values), -ranks)
    order = np.random.default_rng(seed).permutation(len(values))
    assert np.allclose(centred_ranks(values[order]), ranks[order])


def test_ties_are_no_noise():
    """An argsort gives equals different ranks, by their place: a direction out of nothing."""
    assert not centred_ranks(np.full(40, 3.0)).any()
    halves = centred_ranks(np.array([1.0, 2.0] * 20))
    assert set(np.round(halves, 12)) == {round(-10 / 39, 12), round(10 / 39, 12)}


@pytest.mark.parametrize("returns", [np.zeros(0), np.zeros(1), np.zeros((2, 2))])
def test_what_cannot_be_ranked_is_refused(returns: np.ndarray):
    with pytest.raises(ValueError, match="cannot be ranked"):
        centred_ranks(returns)


# The gradient.


def pairs(seed: int, count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Signs and noise of antithetic pairs, as a generation has them."""
    noise = np.random.default_rng(seed).standard_normal((count, size), np.float32)
    return np.tile(np.array([1, -1], np.int8), count), np.repeat(noise, 2, axis=0)


@examples(30)
@given(seed=SEEDS, count=st.integers(1, 6), size=st.integers(1, 5))
def test_the_gradient_is_its_definition(seed: int, count: int, size: int):
    signs, noise = pairs(seed, count, size)
    shaped = np.random.default_rng(seed + 1).normal(size=2 * count)
    expected = np.zeros(size)
    for i in range(2 * count):
        for d in range(size):
            expected[d] += shaped[i] * int(signs[i]) * float(noise[i, d]) / (2 * count)
    gradient = es_gradient(shaped, signs, noise)
    assert np.allclose(gradient, expected)
    # Salimans et al.: the mean over pairs of (F+ - F-) noise / 2
    by_pairs = ((shaped[::2] - shaped[1::2])[:, None] * noise[::2]).mean(axis=0) / 2
    assert np.allclose(gradient, by_pairs)


def test_a_gradient_worked_by_hand():
    shaped, signs = np.array([0.5, -0.5, 0.0, 0.25]), np.array([1, -1, 1, -1], np.int8)
    noise = np.array([[2.0, 0.0], [2.0, 0.0], [0.0, 4.0], [0.0, 4.0]], np.float32)
    # (0.5 * 2 + 0.5 * 2) / 4, and (0 - 0.25 * 4) / 4
    assert np.allclose(es_gradient(shaped, signs, noise), [0.5, -0.25])


@pytest.mark.parametrize("ranked", [False, True])
def test_on_a_slope_it_points_uphill(ranked: bool):
    slope = np.array([3.0, -2.0, 0.5, 0.0, -4.0])
    signs, noise = pairs(0, 4_000, 5)
    returns = (signs[:, None] * noise) @ slope
    gradient = es_gradient(centred_ranks(returns) if ranked else returns, signs, noise)
    cosine = gradient @ slope / np.linalg.norm(gradient) / np.linalg.norm(slope)
    assert cosine > 0.999
    if not ranked:  # the noise's covariance is 1, so that the gradient is the slope itself
        assert np.allclose(gradient, slope, atol=0.25)


def test_pairs_that_earn_alike_say_nothing():
    signs, noise = pairs(3, 5, 4)
    assert np.allclose(es_gradient(np.repeat(np.arange(5.0), 2), signs, noise), 0)


def test_lengths_that_differ_are_refused():
    signs, noise = pairs(0, 2, 3)
    with pytest.raises(ValueError, match="3 returns, 4 signs, 4 noises"):
        es_gradient(np.zeros(3), signs, noise)


# Refitting.


def test_a_refit_worked_by_hand():
    elites = np.array([[1.0, 10.0], [3.0, 10.0], [5.0, 10.0]], np.float32)
    mean, spread = refit(elites, extra=0.25)
    assert np.allclose(mean, [3.0, 10.0])
    assert np.allclose(spread, np.sqrt([8 / 3 + 0.25, 0.25]))
    assert mean.dtype == spread.dtype == np.float64


def test_a_refit_without_extra_is_the_elites_own_spread():
    elites = np.random.default_rng(0).normal(2.0, 3.0, (4_000, 2)).astype(np.float32)
    mean, spread = refit(elites, 0.0)
    assert np.allclose(mean, 2.0, atol=0.2) and np.allclose(spread, 3.0, atol=0.2)


@pytest.mark.parametrize("elites", [np.zeros((0, 3)), np.zeros(3)])
def test_no_elites_are_refused(elites: np.ndarray):
    with pytest.raises(ValueError, match="elites"):
        refit(elites.astype(np.float32), 0.0)


# Adam.


def test_adam_is_torch_s():
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(60, 7)) * np.array([1e-9, 1e-3, 1, 1, 10, 1e3, 0])
    ours, adam = np.zeros(7), Adam(7, 0.03)
    theirs = torch.zeros(7, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([theirs], lr=0.03)
    for gradient in gradients:
        ours += adam.step(gradient)
        theirs.grad = torch.from_numpy(-gradient)  # torch descends
        optimizer.step()
        assert np.allclose(ours, theirs.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_a_loaded_adam_goes_on_bit_for_bit():
    rng = np.random.default_rng(1)
    first, second = Adam(3, 0.1), Adam(3, 0.1)
    for _ in range(5):
        first.step(rng.normal(size=3))
    state = first.state()
    second.load(state)
    gradients = rng.normal(size=(5, 3))
    ahead = [first.step(gradient) for gradient in gradients]
    assert all(np.array_equal(second.step(g), a) for g, a in zip(gradients, ahead, strict=True))
    fresh = Adam(3, 0.1)
    fresh.load(state)  # what was saved did not move along
    assert np.array_equal(fresh.step(gradients[0]), ahead[0])
