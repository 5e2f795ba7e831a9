import numpy as np
import pytest
import torch

from agents.optimizers import Adam, RMSpropInside
from agents.tensors import load_optimizer, optimizer_arrays

torch.set_num_threads(1)


def defined(
    start: np.ndarray, gradients: np.ndarray, lr: float, decay: float, eps: float
) -> np.ndarray:
    """v begins at 1; p <- p - lr * g / sqrt(v + eps)."""
    parameter, square = start.astype(np.float64), np.ones_like(start, np.float64)
    for gradient in gradients:
        square = decay * square + (1 - decay) * gradient**2
        parameter = parameter - lr * gradient / np.sqrt(square + eps)
    return parameter


def run(optimizer: torch.optim.Optimizer, parameter: torch.Tensor, gradients: np.ndarray) -> None:
    for gradient in gradients:
        parameter.grad = torch.from_numpy(gradient.copy())
        optimizer.step()


@pytest.mark.parametrize(("decay", "eps"), [(0.99, 1e-5), (0.9, 0.1), (0.0, 1e-3)])
def test_it_is_its_definition(decay: float, eps: float):
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=(3, 2)), rng.normal(size=(40, 3, 2)) * 1e-2
    parameter = torch.from_numpy(start.copy()).requires_grad_()
    run(RMSpropInside([parameter], 0.05, decay, eps), parameter, gradients)
    expected = defined(start, gradients, 0.05, decay, eps)
    assert np.allclose(parameter.detach().numpy(), expected, rtol=1e-10)


def test_a_first_step_worked_by_hand():
    parameter = torch.tensor([1.0], dtype=torch.float64, requires_grad=True)
    run(RMSpropInside([parameter], 0.1, 0.75, 0.25), parameter, np.array([[2.0]]))
    # v = 0.75 * 1 + 0.25 * 4 = 1.75; 1 - 0.1 * 2 / sqrt(1.75 + 0.25)
    assert parameter.item() == pytest.approx(1 - 0.2 / np.sqrt(2.0))


def test_it_is_not_torch_s_with_epsilon_outside():
    gradients = np.full((200, 1), 1e-4)
    ours, theirs = (torch.zeros(1, dtype=torch.float64, requires_grad=True) for _ in range(2))
    run(RMSpropInside([ours], 0.1, 0.9, 1e-2), ours, gradients)
    run(torch.optim.RMSprop([theirs], 0.1, 0.9, 1e-2), theirs, gradients)
    assert abs(theirs.item()) > 5 * abs(ours.item())


def test_a_parameter_without_a_gradient_stays():
    parameters = [torch.ones(2, requires_grad=True) for _ in range(2)]
    optimizer = RMSpropInside(parameters, 0.1)
    optimizer.step()
    parameters[0].grad = torch.ones(2)
    optimizer.step()
    assert (parameters[0] < 1).all() and (parameters[1] == 1).all()
    assert len(optimizer.state) == 1


def test_a_changed_rate_is_used():
    parameter = torch.zeros(1, requires_grad=True)
    optimizer = RMSpropInside([parameter], 0.1)
    optimizer.param_groups[0]["lr"] = 0.0
    parameter.grad = torch.ones(1)
    optimizer.step()
    assert parameter.item() == 0.0


def test_a_loaded_optimizer_goes_on_bit_for_bit():
    rng = np.random.default_rng(1)
    gradients = rng.normal(size=(20, 4))
    first, second = (torch.zeros(4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    one, two = RMSpropInside([first], 0.05), RMSpropInside([second], 0.05)
    run(one, first, gradients[:10])
    saved = optimizer_arrays(one)
    run(one, first, gradients[:1])  # what is saved is a copy
    with torch.no_grad():
        second.copy_(first)
    load_optimizer(two, optimizer_arrays(one))
    assert not np.array_equal(saved["0"]["square"], optimizer_arrays(one)["0"]["square"])
    run(one, first, gradients[10:])
    run(two, second, gradients[10:])
    assert torch.equal(first, second)


# Adam, whose oracle is torch's own.


def pair(lr: float, eps: float) -> tuple[Adam, torch.optim.Adam, list[list[torch.Tensor]]]:
    torch.manual_seed(0)
    ours = [torch.randn(4, 3), torch.randn(5), torch.randn(2, 3, 2, 2)]
    ours[2] = ours[2].to(memory_format=torch.channels_last)
    theirs = [one.clone().requires_grad_() for one in ours]
    return Adam(ours, lr, eps), torch.optim.Adam(theirs, lr=lr, eps=eps), [ours, theirs]


@pytest.mark.parametrize(("lr", "eps"), [(1e-3, 1e-8), (0.1, 1e-3)])
def test_adam_is_torchs(lr: float, eps: float):
    mine, torchs, (ours, theirs) = pair(lr, eps)
    for _ in range(50):
        gradients = [torch.randn_like(one) for one in ours]
        mine.step(gradients)
        for one, gradient in zip(theirs, gradients, strict=True):
            one.grad = gradient
        torchs.step()
        for one, other in zip(ours, theirs, strict=True):
            assert torch.allclose(one, other, rtol=1e-6, atol=1e-7)


def test_a_first_step_of_adam_is_the_rate_against_the_gradients_sign():
    parameter = torch.tensor([1.0, 2.0])
    Adam([parameter], 0.25).step([torch.tensor([3.0, -1e-3])])
    assert parameter.tolist() == pytest.approx([0.75, 2.25], rel=1e-4)


def test_a_loaded_adam_goes_on_bit_for_bit_in_whatever_order_numbers_lie():
    one, _, (first, _) = pair(0.01, 1e-8)
    two, _, (second, _) = pair(0.01, 1e-8)
    gradients = [[torch.randn_like(x) for x in first] for _ in range(12)]
    for step in gradients[:6]:
        one.step(step)
    saved, again = one.state(), one.state()
    for parameter, other in zip(second, first, strict=True):
        parameter.copy_(other)
    two.load(saved)
    for step in gradients[6:]:
        one.step(step)
        two.step(step)
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))
    assert all(
        np.array_equal(saved[number][name], again[number][name])
        for number in saved
        for name in ("exp_avg", "exp_avg_sq", "step")
    )
    assert saved["0"]["step"] == 6 and one.state()["0"]["step"] == 12
