import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from agents.maths.policies import (
    bias_correction,
    entropy,
    importance,
    masked_mean,
    policy_gain,
    retrace,
    taken,
    trust_region,
)
from tests.conftest import examples

torch.set_num_threads(1)
INFINITY = math.inf
SEEDS = st.integers(0, 2**31)


def tensor(*rows: object) -> Tensor:
    """Float64, a row a step."""
    return torch.tensor(rows, dtype=torch.float64)


def column(*numbers: float) -> Tensor:
    """One window of float64: `[T, 1]`."""
    return torch.tensor(numbers, dtype=torch.float64)[:, None]


def softmax(rng: np.random.Generator, *shape: int, spread: float = 1.5) -> Tensor:
    return torch.softmax(torch.from_numpy(rng.normal(size=shape) * spread), -1)


class Windows:
    """Random windows, right-padded: some end by termination, some by truncation or run on."""

    def __init__(self, seed: int, steps: int = 6, windows: int = 5, actions: int = 3) -> None:
        rng = np.random.default_rng(seed)
        shape = (steps, windows)
        length = rng.integers(1, steps + 1, windows)
        self.mask = torch.from_numpy(np.arange(steps)[:, None] < length)
        self.reward = torch.from_numpy(rng.normal(size=shape)) * self.mask
        terminal = np.zeros(shape, bool)
        terminal[length - 1, np.arange(windows)] = rng.random(windows) < 0.5
        # a lost life: the value ends within the window, and the window goes on
        terminal |= rng.random(shape) < 0.1
        discount = torch.from_numpy(np.where(terminal, 0.0, 0.9))
        self.discount = torch.where(self.mask, discount, torch.ones_like(discount))
        self.q = torch.from_numpy(rng.normal(size=(*shape, actions)))
        self.policy = softmax(rng, *shape, actions)
        self.behaviour = softmax(rng, *shape, actions)
        self.actions = torch.from_numpy(rng.integers(0, actions, shape))
        self.value = (self.policy * self.q).sum(-1)
        self.last = torch.from_numpy(rng.normal(size=windows))
        self.ratios = importance(self.policy, self.behaviour)
        self.ratio = taken(self.ratios, self.actions)
        self.q_taken = taken(self.q, self.actions)

    def retrace(self, c: float = 1.0) -> Tensor:
        return retrace(
            self.reward,
            self.discount,
            self.q_taken,
            self.value,
            self.last,
            self.ratio,
            self.mask,
            c,
        )


def defined_retrace(windows: Windows, c: float = 1.0) -> np.ndarray:
    """The recursion as the paper has it, a window and a step at a time, in plain numbers."""
    targets = np.zeros(windows.mask.shape)

    def target(t: int, s: int, length: int) -> float:
        if t + 1 == length:
            following = float(windows.last[s])
        else:
            rho = min(c, float(windows.ratio[t + 1, s]))
            gap = target(t + 1, s, length) - float(windows.q_taken[t + 1, s])
            following = rho * gap + float(windows.value[t + 1, s])
        return float(windows.reward[t, s]) + float(windows.discount[t, s]) * following

    for s, length in enumerate(windows.mask.sum(0).tolist()):
        for t in range(length):
            targets[t, s] = target(t, s, length)
    return targets


def there(windows: Windows, values: Tensor | np.ndarray) -> np.ndarray:
    return np.asarray(values)[windows.mask.numpy()]


# Retrace, worked by hand.


def by_hand(discount_last: float, last: float) -> Tensor:
    return retrace(
        reward_t=column(1.0, 2.0, 3.0),
        discount_t=column(0.5, 0.5, discount_last),
        q_tm1=column(9.0, 4.0, 2.0),  # the first step's own value is in no target
        v_tm1=column(9.0, 3.0, 1.0),
        v_last=tensor(last)[0:1],
        ratio_tm1=column(9.0, 0.5, 3.0),  # 3 is cut to 1, and the first is in no target
        mask=torch.ones(3, 1, dtype=torch.bool),
    )


def test_retrace_of_a_window_that_terminates():
    # step 2: 3 + 0 * 100 = 3
    # step 1: 2 + 0.5 * (1.0 * (3 - 2) + 1) = 3
    # step 0: 1 + 0.5 * (0.5 * (3 - 4) + 3) = 2.25
    assert torch.allclose(by_hand(0.0, 100.0), column(2.25, 3.0, 3.0))


def test_retrace_of_a_window_that_is_truncated_or_runs_on_bootstraps():
    # step 2: 3 + 0.5 * 10 = 8
    # step 1: 2 + 0.5 * (1.0 * (8 - 2) + 1) = 5.5
    # step 0: 1 + 0.5 * (0.5 * (5.5 - 4) + 3) = 2.875
    assert torch.allclose(by_hand(0.5, 10.0), column(2.875, 5.5, 8.0))


def test_retrace_of_a_lost_life_ends_the_value_and_not_the_window():
    targets = retrace(
        reward_t=column(1.0, 2.0, 4.0),
        discount_t=column(0.5, 0.0, 0.5),
        q_tm1=column(0.0, 1.0, 5.0),
        v_tm1=column(0.0, 1.0, 6.0),
        v_last=tensor(8.0)[0:1],
        ratio_tm1=column(1.0, 1.0, 1.0),
        mask=torch.ones(3, 1, dtype=torch.bool),
    )
    # step 2: 4 + 0.5 * 8 = 8; step 1: 2, whatever follows; step 0: 1 + 0.5 * (2 - 1 + 1) = 2
    assert torch.allclose(targets, column(2.0, 2.0, 8.0))


def test_retrace_of_windows_of_different_lengths_side_by_side():
    nothing = 77.0  # stale rows are read into the padding: what stands there must not matter
    targets = retrace(
        reward_t=tensor([1.0, 1.0], [2.0, 0.0], [3.0, 0.0]),
        discount_t=tensor([0.5, 0.5], [0.5, 1.0], [0.0, 1.0]),
        q_tm1=tensor([9.0, 9.0], [4.0, nothing], [2.0, -nothing]),
        v_tm1=tensor([9.0, 9.0], [3.0, nothing], [1.0, nothing]),
        v_last=tensor(100.0, 6.0),
        ratio_tm1=tensor([9.0, 9.0], [0.5, nothing], [3.0, 0.1]),
        mask=torch.tensor([[True, True], [True, False], [True, False]]),
    )
    assert torch.allclose(targets[:, 0], tensor(2.25, 3.0, 3.0))
    assert targets[0, 1].item() == pytest.approx(1 + 0.5 * 6)


# Retrace, against its definition.


@examples(60)
@given(seed=SEEDS, c=st.sampled_from([0.3, 1.0, 2.5, INFINITY]))
def test_retrace_is_its_definition(seed: int, c: float):
    windows = Windows(seed)
    targets = windows.retrace(c)
    assert np.allclose(there(windows, targets), there(windows, defined_retrace(windows, c)))


@examples(30)
@given(seed=SEEDS)
def test_without_truncation_it_is_plain_importance_sampling(seed: int):
    """Q_ret_0 = sum over t of discounts * ratios * (r_t + discount_t V_t+1 - Q_t), plus Q_0."""
    windows = Windows(seed)
    targets = windows.retrace(INFINITY).numpy()
    lengths = windows.mask.sum(0).tolist()
    for s, length in enumerate(lengths):
        values = [*windows.value[1:length, s].tolist(), float(windows.last[s])]
        total, weight = float(windows.q_taken[0, s]), 1.0
        for t in range(length):
            discount = float(windows.discount[t, s])
            error = windows.reward[t, s] + discount * values[t] - windows.q_taken[t, s]
            total += weight * float(error)
            weight *= discount * (float(windows.ratio[t + 1, s]) if t + 1 < length else 0.0)
        assert targets[0, s] == pytest.approx(total)


@examples(30)
@given(seed=SEEDS)
def test_on_policy_with_exact_values_it_is_monte_carlo_and_a_bootstrap(seed: int):
    windows = Windows(seed)
    windows.ratio = torch.ones_like(windows.ratio)
    windows.q_taken = windows.value  # Q = V: nothing to correct but the returns themselves
    targets = windows.retrace(1.0).numpy()
    for s, length in enumerate(windows.mask.sum(0).tolist()):
        total = float(windows.last[s])
        for t in reversed(range(length)):
            total = float(windows.reward[t, s]) + float(windows.discount[t, s]) * total
            assert targets[t, s] == pytest.approx(total)


@examples(30)
@given(seed=SEEDS, extra=st.integers(1, 4))
def test_padding_changes_nothing(seed: int, extra: int):
    windows = Windows(seed)
    short = windows.retrace()
    rng = np.random.default_rng(seed)

    def padded(values: Tensor, filling: float) -> Tensor:
        rows = torch.full((extra, *values.shape[1:]), filling, dtype=values.dtype)
        return torch.cat([values, rows])

    windows.reward, windows.discount = padded(windows.reward, 0), padded(windows.discount, 1)
    for name in ("q_taken", "value", "ratio"):
        setattr(windows, name, padded(getattr(windows, name), rng.normal() * 50))
    windows.mask = padded(windows.mask, False)
    assert torch.equal(windows.retrace()[:-extra], short)


def test_a_terminal_hides_what_follows_and_a_truncation_does_not():
    windows = Windows(1, steps=4, windows=2)
    windows.mask[:] = True
    windows.discount[:] = 0.9
    windows.discount[-1, 0] = 0.0
    before = windows.retrace()
    windows.last += 10
    moved = windows.retrace() - before
    assert torch.equal(moved[:, 0], torch.zeros(4, dtype=torch.float64))
    assert moved[-1, 1].item() == pytest.approx(9.0)


def test_no_gradient_passes_through_targets():
    windows = Windows(3)
    for name in ("q_taken", "value", "ratio", "last"):
        setattr(windows, name, getattr(windows, name).clone().requires_grad_())
    assert not windows.retrace().requires_grad


def test_shapes_that_would_spread_silently_are_refused():
    windows = Windows(0)
    with pytest.raises(ValueError, match="end in"):
        retrace(
            windows.reward, windows.discount, windows.q_taken, windows.value,
            windows.last[:1], windows.ratio, windows.mask,
        )  # fmt: skip
    with pytest.raises(ValueError, match="windows"):
        retrace(
            windows.reward, windows.discount, windows.q_taken[:, :1], windows.value,
            windows.last, windows.ratio, windows.mask,
        )  # fmt: skip
    with pytest.raises(ValueError, match="of actions"):
        taken(windows.q, windows.actions[:, :1])
    with pytest.raises(ValueError, match="behaviour"):
        importance(windows.policy, windows.behaviour[:1])
    with pytest.raises(ValueError, match="policy"):
        bias_correction(windows.policy, windows.q[:1], windows.value, windows.ratios, 10)
    with pytest.raises(ValueError, match="policies"):
        trust_region(windows.q, windows.policy, windows.policy[:1], 1.0)


# Ratios.


def test_ratios_are_of_the_policy_to_the_behaviour():
    ratios = importance(tensor(0.2, 0.8), tensor(0.5, 0.25))
    assert torch.allclose(ratios, tensor(0.4, 3.2), rtol=1e-5)


def test_a_ratio_to_what_could_not_be_done_is_finite():
    assert torch.isfinite(importance(tensor(1.0), tensor(0.0))).all()


def test_taken_picks_each_step_s_own_action():
    values = tensor([[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]])
    picked = taken(values, torch.tensor([[1, 0], [0, 1]]))
    assert torch.equal(picked, tensor([2.0, 3.0], [5.0, 8.0]))


# The gain's two parts.


def log_gradient(policy: Tensor, weights: Tensor) -> Tensor:
    """The gradient by the policy of sum of weights * log policy."""
    return weights / (policy + 1e-6)


def test_the_truncated_part_worked_by_hand():
    policy = tensor([[0.25, 0.75]], [[0.5, 0.5]]).requires_grad_()
    ratio = column(4.0, 0.5).requires_grad_()
    target, value = column(3.0, 1.0).requires_grad_(), column(1.0, 2.0).requires_grad_()
    gain = policy_gain(policy, torch.tensor([[1], [0]]), target, value, ratio, c=2.0)
    # min(2, 4) * (3 - 1) * log 0.75, and 0.5 * (1 - 2) * log 0.5
    expected = column(4 * math.log(0.75), -0.5 * math.log(0.5))
    assert torch.allclose(gain, expected, atol=1e-5)
    gain.sum().backward()
    assert torch.allclose(policy.grad, tensor([[0, 4 / 0.75]], [[-1.0, 0]]), atol=1e-4)
    assert ratio.grad is target.grad is value.grad is None


def test_the_bias_correction_worked_by_hand():
    policy = tensor([[0.8, 0.2]]).requires_grad_()
    q, value = tensor([[2.0, -3.0]]).requires_grad_(), column(1.0).requires_grad_()
    ratios = tensor([[4.0, 0.5]])
    gain = bias_correction(policy, q, value, ratios, c=2.0)
    # (1 - 2/4) * 0.8 * (2 - 1) * log 0.8; of the other action nothing was truncated
    assert gain.item() == pytest.approx(0.4 * math.log(0.8), abs=1e-5)
    gain.sum().backward()
    assert torch.allclose(policy.grad, tensor([[0.4 / 0.8, 0.0]]), atol=1e-5)
    assert q.grad is value.grad is None


@examples(30)
@given(seed=SEEDS)
def test_where_nothing_is_truncated_there_is_nothing_to_correct(seed: int):
    windows = Windows(seed)
    greatest = float(windows.ratios.max())
    args = (windows.policy, windows.q, windows.value, windows.ratios)
    assert torch.equal(bias_correction(*args, greatest * 1.01), torch.zeros_like(windows.value))
    assert (bias_correction(*args, greatest / 2) != 0).any()


@examples(30)
@given(seed=SEEDS)
def test_both_parts_together_are_unbiased(seed: int):
    """Over the behaviour's actions, the truncated gain and its correction sum to the full one.

    With Q_ret = Q that is an identity of ACER's equation 7: the sum over actions of
    pi(a) (Q(a) - V) grad log pi(a), whatever c is.
    """
    windows = Windows(seed, steps=2, windows=3)
    c = 0.7
    policy = windows.policy.clone().requires_grad_()
    total = bias_correction(policy, windows.q, windows.value, windows.ratios, c).sum()
    for action in range(3):
        chosen = torch.full_like(windows.actions, action)
        gain = policy_gain(
            policy,
            chosen,
            taken(windows.q, chosen),
            windows.value,
            taken(windows.ratios, chosen),
            c,
        )
        total = total + (windows.behaviour[..., action] * gain).sum()
    total.backward()
    advantage = windows.q - windows.value.unsqueeze(-1)
    full = log_gradient(windows.policy, windows.policy * advantage)
    assert torch.allclose(policy.grad, full, rtol=1e-3, atol=1e-4)


def attached(policy: Tensor, windows: Windows, c: float) -> Tensor:
    """Kaixhin's ACER, train.py line 106: the weight's policy carries a gradient too."""
    weight = (1 - c / (windows.ratios + 1e-6)).clamp(min=0) * policy
    advantage = windows.q - windows.value.unsqueeze(-1)
    return (weight * advantage * torch.log(policy + 1e-6)).sum(-1)


def only_taken(policy: Tensor, windows: Windows, c: float) -> Tensor:
    """A correction of the action taken alone."""
    weight = (1 - c / (windows.ratios + 1e-6)).clamp(min=0) * policy.detach()
    each = weight * (windows.q - windows.value.unsqueeze(-1)) * torch.log(policy + 1e-6)
    return taken(each, windows.actions)


def with_returns(policy: Tensor, windows: Windows, c: float) -> Tensor:
    """A correction by the returns that followed, which say nothing of the other actions."""
    weight = (1 - c / (windows.ratios + 1e-6)).clamp(min=0) * policy.detach()
    advantage = (windows.retrace() - windows.value).unsqueeze(-1)
    return (weight * advantage * torch.log(policy + 1e-6)).sum(-1)


@pytest.mark.parametrize("faulty", [attached, only_taken, with_returns])
def test_the_faulty_corrections_are_told_apart(faulty: Callable[..., Tensor]):
    """The gradient that all tests above ask for is none of theirs."""
    windows = Windows(8)
    c = float(windows.ratios.median())
    ours, theirs = (windows.policy.clone().requires_grad_() for _ in range(2))
    bias_correction(ours, windows.q, windows.value, windows.ratios, c).sum().backward()
    faulty(theirs, windows, c).sum().backward()
    weight = (1 - c / (windows.ratios + 1e-6)).clamp(min=0) * windows.policy
    advantage = windows.q - windows.value.unsqueeze(-1)
    expected = log_gradient(windows.policy, weight * advantage)
    assert torch.allclose(ours.grad, expected)
    assert (theirs.grad - expected).abs().max() > 0.1


def test_entropy_of_known_policies():
    assert entropy(tensor([0.25] * 4))[0].item() == pytest.approx(math.log(4), abs=1e-4)
    assert entropy(tensor([1.0, 0.0, 0.0]))[0].item() == pytest.approx(0.0, abs=1e-5)
    half = entropy(tensor([0.5, 0.5, 0.0]))[0].item()
    assert half == pytest.approx(math.log(2), abs=1e-5)


@examples(10)
@given(seed=SEEDS)
def test_gradients_by_the_policy_are_right(seed: int):
    windows = Windows(seed, steps=2, windows=2)
    policy = windows.policy.clone().requires_grad_()
    target = windows.retrace()

    def gain(policy: Tensor) -> Tensor:
        return policy_gain(policy, windows.actions, target, windows.value, windows.ratio, 2.0)

    assert gradcheck(gain, (policy,))
    assert gradcheck(entropy, (policy,))
    # the weight of the correction is fixed: that is what its numeric gradient has to see
    fixed = (1 - 0.5 / (windows.ratios + 1e-6)).clamp(min=0) * windows.policy
    advantage = windows.q - windows.value.unsqueeze(-1)

    def defined(policy: Tensor) -> Tensor:
        return (fixed * advantage * torch.log(policy + 1e-6)).sum(-1)

    assert gradcheck(defined, (policy,))
    ours = bias_correction(policy, windows.q, windows.value, windows.ratios, 0.5)
    (by_ours,) = torch.autograd.grad(ours.sum(), policy)
    (by_definition,) = torch.autograd.grad(defined(policy).sum(), policy)
    assert torch.allclose(by_ours, by_definition)


# The trust region.


def region(seed: int, size: int = 200, actions: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients, policies and average policies, `[N, A]`."""
    rng = np.random.default_rng(seed)
    gradients = torch.from_numpy(rng.normal(size=(size, actions)) * 5)
    return gradients, softmax(rng, size, actions), softmax(rng, size, actions)


def kl_gradient(policy: Tensor, average: Tensor) -> Tensor:
    """The gradient of KL(average || policy) by the policy, by autograd and not by formula."""
    policy = policy.clone().requires_grad_()
    divergence = (average * (torch.log(average) - torch.log(policy + 1e-6))).sum()
    (gradient,) = torch.autograd.grad(divergence, policy)
    return gradient


@examples(40)
@given(seed=SEEDS, delta=st.sampled_from([1e-3, 0.1, 1.0, 5.0]))
def test_a_step_never_leaves_the_region(seed: int, delta: float):
    gradient, policy, average = region(seed)
    k = kl_gradient(policy, average)
    z = trust_region(gradient, policy, average, delta)
    assert ((k * z).sum(-1) <= delta + 1e-6).all()
    outside = (k * gradient).sum(-1) > delta
    assert outside.any() and (~outside).any()
    # what was outside is on the edge, and not further in than it has to be
    assert torch.allclose((k * z).sum(-1)[outside], torch.tensor(delta, dtype=torch.float64))


@examples(40)
@given(seed=SEEDS)
def test_a_step_within_the_region_is_left_alone(seed: int):
    gradient, policy, average = region(seed)
    z = trust_region(gradient, policy, average, 1.0)
    inside = (kl_gradient(policy, average) * gradient).sum(-1) <= 1.0
    assert torch.equal(z[inside], gradient[inside])
    assert not torch.equal(z[~inside], gradient[~inside])


@examples(20)
@given(seed=SEEDS)
def test_the_step_is_the_nearest_in_the_region(seed: int):
    gradient, policy, average = region(seed, size=50)
    z = trust_region(gradient, policy, average, 1.0)
    k = kl_gradient(policy, average)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        other = z + torch.from_numpy(rng.normal(size=z.shape)) * 10.0 ** rng.integers(-3, 2)
        allowed = (k * other).sum(-1) <= 1.0
        distance = (other - gradient).square().sum(-1)[allowed]
        assert (distance >= (z - gradient).square().sum(-1)[allowed] - 1e-9).all()


def test_the_step_worked_by_hand():
    policy, average = tensor([0.5, 0.5], [0.5, 0.5]), tensor([0.75, 0.25], [0.75, 0.25])
    gradient = tensor([-4.0, 0.0], [4.0, 0.0])
    z = trust_region(gradient, policy, average, 1.0)
    # k = (-1.5, -0.5), k . g = 6, |k|^2 = 2.5: z = g - (6 - 1) / 2.5 k = g + (3, 1)
    assert torch.allclose(z, tensor([-1.0, 1.0], [4.0, 0.0]), atol=1e-4)


def minus(g: Tensor, policy: Tensor, average: Tensor, delta: float) -> Tensor:
    """Seed and Kaixhin (issues 1, 11, 15): k has the sign of the loss form, g that of the gain."""
    k = average / policy
    excess = ((k * g).sum(-1, keepdim=True) - delta).clamp(min=0)
    return g - excess / k.square().sum(-1, keepdim=True) * k


def by_the_gradient_s_norm(g: Tensor, policy: Tensor, average: Tensor, delta: float) -> Tensor:
    """dchetelat/acer: the excess is divided by |g|^2."""
    k = -average / policy
    excess = ((k * g).sum(-1, keepdim=True) - delta).clamp(min=0)
    return g - excess / g.square().sum(-1, keepdim=True) * k


def scaled_by_the_batch(g: Tensor, policy: Tensor, average: Tensor, delta: float) -> Tensor:
    """Seed l.277 and DI-engine: g is its share of the batch's mean, so that delta never bites."""
    return trust_region(g / len(g), policy, average, delta) * len(g)


@pytest.mark.parametrize("faulty", [minus, by_the_gradient_s_norm, scaled_by_the_batch])
def test_the_faulty_regions_are_left(faulty: Callable[..., Tensor]):
    gradient, policy, average = region(5)
    k = kl_gradient(policy, average)
    z = faulty(gradient, policy, average, 1.0)
    assert ((k * z).sum(-1) > 1.0 + 1e-6).any()


@pytest.mark.parametrize("power", [20, 60])
def test_extreme_policies_give_finite_steps(power: float):
    logits = torch.tensor([[power, -power, 0.0], [-power, power, power]])
    policy, average = torch.softmax(logits, -1), torch.softmax(-logits, -1)
    for gradient in (torch.full_like(policy, 1e6), -torch.full_like(policy, 1e6)):
        assert torch.isfinite(trust_region(gradient, policy, average, 1.0)).all()
    assert torch.isfinite(entropy(policy)).all()
    ratios = importance(policy, average)
    q = torch.ones_like(policy)
    correction = bias_correction(policy, q, torch.zeros(2), ratios, 10.0)
    assert torch.isfinite(correction).all()


# Means over what is there.


def test_a_mean_counts_what_is_there():
    values = tensor([1.0, 5.0], [3.0, math.nan]).requires_grad_()
    mask = torch.tensor([[True, True], [True, False]])
    mean = masked_mean(values, mask)
    assert mean.item() == pytest.approx(3.0)
    mean.backward()
    assert torch.allclose(values.grad, tensor([1.0, 1.0], [1.0, 0.0]) / 3)


def test_a_mean_of_nothing_is_0():
    assert masked_mean(tensor([1.0, 2.0]), torch.zeros(1, 2, dtype=torch.bool)).item() == 0.0
