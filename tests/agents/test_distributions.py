"""Targets and losses of distributions, against loops over the published algorithms."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from agents.maths.distributions import (
    at_action,
    categorical_target,
    cross_entropy,
    entropy,
    of_action,
    quantile_huber,
    quantile_target,
)
from agents.maths.values import td_loss
from tests.conftest import examples

SUPPORT = torch.linspace(-2.0, 2.0, 5, dtype=torch.float64)


def tensor(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def projected(reward: float, discount: float, p_t: np.ndarray, support: np.ndarray) -> np.ndarray:
    """Algorithm 1 of Bellemare et al. (2017) for one transition, atom by atom."""
    low, high, last = support[0], support[-1], len(support) - 1
    target = np.zeros(len(support))
    for z, p in zip(support, p_t, strict=True):
        b = (min(max(reward + discount * z, low), high) - low) / ((high - low) / last)
        b = min(b, last)  # rounding takes it above
        lower, upper = math.floor(b), math.ceil(b)
        if lower == upper:  # the published form loses the mass of an exact atom
            target[lower] += p
        else:
            target[lower] += p * (upper - b)
            target[upper] += p * (b - lower)
    return target


def quantile_loss(theta: np.ndarray, target: np.ndarray, kappa: float) -> float:
    """Algorithm 1 of Dabney et al. (2018) for one transition, pair by pair."""
    total = 0.0
    for i, own in enumerate(theta):
        tau = (i + 0.5) / len(theta)
        for other in target:
            u = other - own
            size = u**2 / 2 if abs(u) <= kappa else kappa * (abs(u) - kappa / 2)
            tilt = abs(tau - (1.0 if u < 0 else 0.0))
            total += tilt * (size / kappa if kappa else abs(u)) / len(target)
    return total


def chances(rng: np.random.Generator, *shape: int) -> np.ndarray:
    drawn = rng.exponential(size=shape)
    return drawn / drawn.sum(-1, keepdims=True)


# The categorical target.


@pytest.mark.parametrize(
    ("reward", "discount", "expected"),
    [
        (0.0, 1.0, [0.1, 0.2, 0.3, 0.3, 0.1]),  # nothing moves: every atom is met exactly
        (1.0, 1.0, [0.0, 0.1, 0.2, 0.3, 0.4]),  # one atom up; what leaves the end stays there
        (-9.0, 1.0, [1.0, 0.0, 0.0, 0.0, 0.0]),  # all below v_min
        (9.0, 0.5, [0.0, 0.0, 0.0, 0.0, 1.0]),  # all above v_max
        (0.25, 0.0, [0.0, 0.0, 0.75, 0.25, 0.0]),  # a terminal: the reward alone, shared
        (2.0, 0.0, [0.0, 0.0, 0.0, 0.0, 1.0]),  # a terminal on the last atom
        (0.0, 0.5, [0.0, 0.2, 0.55, 0.25, 0.0]),
    ],
)
def test_the_projection_by_hand(reward: float, discount: float, expected: list[float]):
    p_t = np.array([0.1, 0.2, 0.3, 0.3, 0.1])
    got = categorical_target(tensor(reward), tensor(discount), tensor(*p_t)[None], SUPPORT)
    assert np.allclose(got[0].numpy(), expected)
    assert np.allclose(projected(reward, discount, p_t, SUPPORT.numpy()), expected)


@examples(60)
@given(
    seed=st.integers(0, 2**32 - 1),
    atoms=st.integers(2, 51),
    low=st.floats(-100, 99),
    width=st.floats(0.1, 200),
)
def test_the_projection_is_the_published_loop(seed: int, atoms: int, low: float, width: float):
    rng = np.random.default_rng(seed)
    support = np.linspace(low, low + width, atoms)
    p_t = chances(rng, 6, atoms)
    reward = rng.normal(size=6) * width
    discount = rng.choice([0.0, 0.9, 1.0], 6)
    got = categorical_target(*(torch.from_numpy(x) for x in (reward, discount, p_t, support)))
    for row in range(6):
        expected = projected(reward[row], discount[row], p_t[row], support)
        assert np.allclose(got[row].numpy(), expected, atol=1e-9)
    assert np.allclose(got.sum(1).numpy(), 1.0), "mass is conserved"


@examples(60)
@given(seed=st.integers(0, 2**32 - 1), discount=st.floats(0, 1))
def test_inside_the_support_the_mean_is_kept(seed: int, discount: float):
    rng = np.random.default_rng(seed)
    support, p_t = np.linspace(-10, 10, 41), np.zeros((4, 41))
    p_t[:, 15:26] = chances(rng, 4, 11)  # between -2.5 and 2.5
    reward = rng.uniform(-7, 7, 4)
    discounts = np.full(4, discount)
    got = categorical_target(*(torch.from_numpy(x) for x in (reward, discounts, p_t, support)))
    assert np.allclose(got.numpy() @ support, reward + discount * (p_t @ support))


def test_float32_and_51_atoms_lose_no_mass():
    torch.manual_seed(0)
    p_t = torch.softmax(5 * torch.randn(64, 51), 1)
    for high in (10.0, 100.0):
        support = torch.linspace(-high, high, 51)
        got = categorical_target(torch.randn(64) * high, torch.full((64,), 0.99), p_t, support)
        assert (got >= 0).all() and torch.allclose(got.sum(1), torch.ones(64), atol=1e-5)


# The loss of categories.


def test_cross_entropy_is_its_definition_and_least_at_the_target():
    rng = np.random.default_rng(1)
    logits, target = rng.normal(size=(5, 7)), chances(rng, 5, 7)
    losses, slopes = cross_entropy(torch.from_numpy(logits), torch.from_numpy(target))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert np.allclose(losses.numpy(), -(target * np.log(p)).sum(1))
    assert np.allclose(slopes.numpy(), p - target)
    at_best, flat = cross_entropy(torch.from_numpy(np.log(target)), torch.from_numpy(target))
    assert torch.allclose(at_best, entropy(torch.from_numpy(target)))
    assert flat.abs().max() < 1e-12 and (losses > at_best).all()


def test_entropy_by_hand_and_of_one_atom():
    rows = torch.stack([tensor(0.5, 0.5, 0.0), tensor(0.0, 1.0, 0.0)])
    assert entropy(rows).tolist() == pytest.approx([math.log(2), 0.0])


# The loss of quantiles.


@pytest.mark.parametrize("kappa", [0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize(("own", "other"), [(1, 1), (4, 4), (5, 3)])
def test_the_quantile_loss_is_the_published_loop(kappa: float, own: int, other: int):
    rng = np.random.default_rng(own)
    theta, target = 2 * rng.normal(size=(6, own)), 2 * rng.normal(size=(6, other))
    losses, _ = quantile_huber(torch.from_numpy(theta), torch.from_numpy(target), kappa)
    for row in range(6):
        assert losses[row].item() == pytest.approx(quantile_loss(theta[row], target[row], kappa))


def test_the_quantile_loss_by_hand():
    # tau is 1/4 and 3/4; u is 3 - 0 = 3 and 3 - 5 = -2; L is 2.5 and 1.5
    losses, slopes = quantile_huber(tensor(0.0, 5.0)[None], tensor(3.0)[None], 1.0)
    assert losses.tolist() == pytest.approx([0.25 * 2.5 + 0.25 * 1.5])
    assert slopes[0].tolist() == pytest.approx([-0.25, 0.25])


def test_one_quantile_is_half_of_the_huber_loss():
    """Its tau is 1/2, so that DQN's loss comes back but for its scale."""
    errors = torch.linspace(-3, 3, 13, dtype=torch.float64)
    losses, _ = quantile_huber(torch.zeros(13, 1).double(), errors.unsqueeze(1), 1.0)
    assert torch.allclose(losses, td_loss(errors, "huber") / 2)


def test_the_loss_is_least_at_the_quantiles():
    """Of many draws, the quantile loss settles on the midpoints' quantiles."""
    target = torch.from_numpy(np.random.default_rng(2).exponential(size=(1, 4_001)))
    theta = torch.zeros(1, 4).double()
    for _ in range(3_000):
        theta -= 0.02 * quantile_huber(theta, target, 0.0)[1]
    expected = np.quantile(target.numpy(), [1 / 8, 3 / 8, 5 / 8, 7 / 8])
    assert np.allclose(theta.numpy(), expected, atol=0.03)


def test_quantile_targets_are_moved_and_shrunk_and_terminals_are_the_reward():
    got = quantile_target(tensor(1.0, -2.0), tensor(0.5, 0.0), torch.stack([tensor(0, 4)] * 2))
    assert got.tolist() == [[1.0, 3.0], [-2.0, -2.0]]


# Derivatives.


@pytest.mark.parametrize("kind", ["c51", "qr", "qr 0"])
def test_slopes_are_the_derivatives_of_the_losses(kind: str):
    rng = np.random.default_rng(3)
    own = torch.from_numpy(rng.normal(size=(4, 6))).requires_grad_()
    target = torch.from_numpy(chances(rng, 4, 6) if kind == "c51" else rng.normal(size=(4, 6)))

    def both(numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if kind == "c51":
            return cross_entropy(numbers, target)
        return quantile_huber(numbers, target, 0.0 if kind == "qr 0" else 0.7)

    losses, slopes = both(own)
    (expected,) = torch.autograd.grad(losses.sum(), own)
    assert torch.allclose(slopes.detach(), expected)
    assert gradcheck(lambda numbers: both(numbers)[0], (own,))


def test_targets_carry_no_gradient():
    p_t = torch.softmax(torch.randn(2, 5).double(), 1).requires_grad_()
    assert not categorical_target(tensor(0, 1), tensor(1, 1), p_t, SUPPORT).requires_grad
    assert not quantile_target(tensor(0, 1), tensor(1, 1), p_t).requires_grad


# Actions, and shapes that would broadcast.


def test_numbers_of_an_action_are_found_and_put_back():
    numbers = torch.arange(24.0).reshape(2, 3, 4)
    actions = torch.tensor([2, 0])
    taken = of_action(numbers, actions)
    assert taken.tolist() == [[8, 9, 10, 11], [12, 13, 14, 15]]
    placed = at_action(taken, actions, 3)
    assert placed.shape == (2, 3, 4) and torch.equal(of_action(placed, actions), taken)
    assert placed.sum() == taken.sum()


def test_shapes_that_would_broadcast_are_refused():
    rows, pairs = torch.zeros(2), torch.zeros(2, 5)
    actions = torch.zeros(2, dtype=torch.int64)
    for call in (
        lambda: categorical_target(rows[:1], rows, pairs, torch.zeros(5)),
        lambda: categorical_target(rows[:, None], rows, pairs, torch.zeros(5)),
        lambda: categorical_target(rows, rows, pairs, torch.zeros(4)),
        lambda: quantile_target(rows, rows[:, None], pairs),
        lambda: cross_entropy(pairs, pairs[:1]),
        lambda: quantile_huber(pairs, pairs[:1], 1.0),
        lambda: quantile_huber(pairs, rows, 1.0),
        lambda: of_action(pairs, actions),
        lambda: of_action(torch.zeros(2, 3, 5), actions[:1]),
        lambda: at_action(pairs, actions[:1], 3),
    ):
        with pytest.raises(ValueError, match=r"\(2"):
            call()
