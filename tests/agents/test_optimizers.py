import numpy as np
import pytest
import torch

from agents.optimizers import RMSpropInside
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
