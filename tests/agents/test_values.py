import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from agents.maths.values import loss_slope, q_target, td_error, weighted_loss
from tests.conftest import examples


def tensor(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


Q = torch.tensor([[1.0, 4.0, 2.0], [0.0, -1.0, -3.0]], dtype=torch.float64)
SELECT = torch.tensor([[9.0, 0.0, 1.0], [0.0, 0.0, 5.0]], dtype=torch.float64)


def random_batch(seed: int, size: int = 6, actions: int = 4) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(seed)
    normal = {name: rng.normal(size=(size, actions)) for name in ("q_tm1", "q_t", "select_t")}
    rows = {name: rng.normal(size=size) for name in ("r_t", "weight")}
    rows["discount_t"] = rng.uniform(size=size)
    batch = {name: torch.from_numpy(array) for name, array in (normal | rows).items()}
    batch["a_tm1"] = torch.from_numpy(rng.integers(0, actions, size))
    return batch


# Values worked by hand.


def test_a_plain_target_takes_the_greatest_value():
    target = q_target(tensor(1.0, -1.0), tensor(0.9, 0.5), Q, Q)
    assert torch.allclose(target, tensor(1 + 0.9 * 4, -1 + 0.5 * 0))


def test_a_double_target_takes_the_value_of_the_selected_action():
    target = q_target(tensor(1.0, -1.0), tensor(0.9, 0.5), Q, SELECT)
    assert torch.allclose(target, tensor(1 + 0.9 * 1, -1 + 0.5 * -3))


def test_the_error_is_target_less_value():
    error = td_error(Q, torch.tensor([1, 2]), tensor(5.0, 5.0))
    assert torch.equal(error, tensor(1.0, 8.0))


def test_huber_is_a_parabola_within_one_and_a_line_beyond():
    error = tensor(0.5, -0.5, 1.0, 3.0, -4.0)
    each = [0.125, 0.125, 0.5, 2.5, 3.5]
    loss = weighted_loss(error, torch.ones_like(error), "huber")
    assert loss.item() == pytest.approx(sum(each) / 5)


def test_mse_is_the_square():
    error = tensor(0.5, -3.0)
    assert weighted_loss(error, torch.ones_like(error), "mse").item() == pytest.approx(9.25 / 2)


def test_weights_multiply_each_loss_and_the_mean_is_over_the_batch():
    loss = weighted_loss(tensor(1.0, 2.0), tensor(0.5, 0.25), "mse")
    assert loss.item() == pytest.approx((0.5 * 1 + 0.25 * 4) / 2)


# A numpy definition, and identities.


@examples(40)
@given(seed=st.integers(0, 10_000))
def test_the_target_is_its_definition_in_numpy(seed: int):
    batch = random_batch(seed)
    arrays = {name: value.numpy() for name, value in batch.items()}
    expected = [
        arrays["r_t"][i]
        + arrays["discount_t"][i] * arrays["q_t"][i][arrays["select_t"][i].argmax()]
        for i in range(len(arrays["r_t"]))
    ]
    target = q_target(batch["r_t"], batch["discount_t"], batch["q_t"], batch["select_t"])
    assert np.allclose(target.numpy(), expected)


@examples(40)
@given(seed=st.integers(0, 10_000))
def test_double_with_the_targets_own_values_is_plain(seed: int):
    batch = random_batch(seed)
    double = q_target(batch["r_t"], batch["discount_t"], batch["q_t"], batch["q_t"])
    plain = batch["r_t"] + batch["discount_t"] * batch["q_t"].max(dim=1).values
    assert torch.equal(double, plain)


@examples(40)
@given(seed=st.integers(0, 10_000))
def test_double_never_exceeds_plain(seed: int):
    batch = random_batch(seed)
    double = q_target(batch["r_t"], batch["discount_t"], batch["q_t"], batch["select_t"])
    plain = q_target(batch["r_t"], batch["discount_t"], batch["q_t"], batch["q_t"])
    assert (double <= plain + 1e-12).all()


def test_after_a_terminal_the_target_is_the_reward():
    batch = random_batch(0)
    zero = torch.zeros_like(batch["discount_t"])
    assert torch.equal(q_target(batch["r_t"], zero, batch["q_t"], batch["select_t"]), batch["r_t"])


@pytest.mark.parametrize("kind", ["huber", "mse"])
def test_weight_one_is_the_plain_mean(kind: str):
    error = random_batch(1)["r_t"] * 3
    loss = weighted_loss(error, torch.ones_like(error), kind)
    each = [weighted_loss(e.reshape(1), tensor(1.0), kind).item() for e in error]
    assert loss.item() == pytest.approx(np.mean(each))


def test_huber_is_half_of_mse_within_one():
    error, weight = tensor(0.9, -0.1, 0.3), tensor(1.0, 2.0, 0.5)
    halves = [weighted_loss(error, weight, kind).item() for kind in ("huber", "mse")]
    assert halves[0] == pytest.approx(halves[1] / 2)


# Gradients.


@pytest.mark.parametrize("kind", ["huber", "mse"])
def test_the_gradient_is_right(kind: str):
    batch = random_batch(2)
    q_tm1 = batch["q_tm1"].requires_grad_()
    # scaled, so that some errors stand on either side of huber's knee, none on it
    target = batch["r_t"] * 3

    def loss(q: torch.Tensor) -> torch.Tensor:
        return weighted_loss(td_error(q, batch["a_tm1"], target), batch["weight"], kind)

    error = td_error(q_tm1, batch["a_tm1"], target).detach().abs()
    assert (error < 1).any() and (error > 1).any()
    assert gradcheck(loss, (q_tm1,))


@examples(40)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(["huber", "mse"]))
def test_the_slope_of_the_loss_is_autograds(seed: int, kind: str):
    batch = random_batch(seed)
    q_tm1, actions = batch["q_tm1"].requires_grad_(), batch["a_tm1"]
    error = td_error(q_tm1, actions, batch["r_t"] * 3)
    weighted_loss(error, batch["weight"], kind).backward()
    given = loss_slope(q_tm1.detach(), actions, error.detach(), batch["weight"], kind)
    assert torch.allclose(given, q_tm1.grad, rtol=1e-12, atol=1e-15)


def test_a_slope_worked_by_hand():
    actions, weight = torch.tensor([2, 0]), tensor(1.0, 4.0)
    slope = loss_slope(Q, actions, tensor(3.0, -0.5), weight, "huber")  # clipped to 1, and -1/2
    assert torch.equal(slope, torch.tensor([[0, 0, -0.5], [1.0, 0, 0]], dtype=torch.float64))
    slope = loss_slope(Q, actions, tensor(3.0, -0.5), weight, "mse")
    assert torch.equal(slope, torch.tensor([[0, 0, -3.0], [2.0, 0, 0]], dtype=torch.float64))


def test_no_gradient_flows_through_the_target():
    batch = random_batch(3)
    inputs = [batch[name].requires_grad_() for name in ("r_t", "discount_t", "q_t", "select_t")]
    assert not q_target(*inputs).requires_grad


def test_descent_moves_the_value_towards_the_target():
    q_tm1 = torch.zeros(1, 2, requires_grad=True)
    error = td_error(q_tm1, torch.tensor([1]), torch.tensor([1.0]))
    weighted_loss(error, torch.ones(1), "huber").backward()
    assert q_tm1.grad is not None
    assert q_tm1.grad.tolist() == [[0.0, -1.0]]


# What would broadcast is refused.


def test_a_column_where_a_row_belongs_is_refused():
    batch = random_batch(4)
    for name in ("r_t", "discount_t"):
        wrong = {**batch, name: batch[name].unsqueeze(1)}
        with pytest.raises(ValueError, match=r"values \(6, 4\) with .*\(6, 1\)"):
            q_target(wrong["r_t"], wrong["discount_t"], batch["q_t"], batch["select_t"])
    with pytest.raises(ValueError, match=r"\(6, 1\)"):
        td_error(batch["q_tm1"], batch["a_tm1"].unsqueeze(1), batch["r_t"])
    with pytest.raises(ValueError, match=r"\(6, 1\)"):
        td_error(batch["q_tm1"], batch["a_tm1"], batch["r_t"].unsqueeze(1))
    with pytest.raises(ValueError, match=r"errors \(6,\) weighted by \(6, 1\)"):
        weighted_loss(batch["r_t"], batch["weight"].unsqueeze(1), "huber")
    with pytest.raises(ValueError, match=r"errors \(6, 1\)"):
        weighted_loss(batch["r_t"].unsqueeze(1), batch["weight"].unsqueeze(1), "mse")


def test_values_of_another_batch_are_refused():
    batch = random_batch(5)
    with pytest.raises(ValueError, match="chosen by"):
        q_target(batch["r_t"], batch["discount_t"], batch["q_t"], batch["select_t"][:, :3])
    with pytest.raises(ValueError, match="with"):
        q_target(batch["r_t"][:5], batch["discount_t"], batch["q_t"], batch["q_t"])
    with pytest.raises(ValueError, match="with"):
        td_error(batch["q_t"][0], batch["a_tm1"], batch["r_t"])
