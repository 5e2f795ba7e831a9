"""Both ways to a network's gradient give the same one."""

from copy import deepcopy

import numpy as np
import pytest
import torch

from agents.differentiated import ByAutograd, ByHand, differentiated
from agents.optimizers import Adam
from agents.tensors import within
from core.types import ArraySpec, DiscreteActions, EnvSpec
from models.dqn import DQNCNN, DQNMLP
from models.es import flat_inputs
from models.options import DQNCNNOptions, DQNMLPOptions

torch.set_num_threads(1)
TWO = EnvSpec(
    {"obs": ArraySpec((3,), np.dtype(np.float32)), "extra": ArraySpec((2,), np.dtype(np.uint8))},
    DiscreteActions(4),
)
FRAME = EnvSpec({"obs": ArraySpec((10, 10, 2), np.dtype(np.uint8))}, DiscreteActions(3))


def network_of(**options: object) -> DQNMLP:
    torch.manual_seed(0)
    return DQNMLP(DQNMLPOptions(hidden_sizes=(9, 5), **options), TWO, 2)


def stacks(size: int = 6) -> dict[str, torch.Tensor]:
    return {
        "obs": torch.randn(size, 2, 3),
        "extra": torch.randint(0, 256, (size, 2, 2), dtype=torch.uint8),
    }


def test_plain_layers_go_by_hand_and_others_by_autograd():
    assert isinstance(differentiated(network_of()), ByHand)
    for dueling in ("avg", "max", "naive"):
        assert isinstance(differentiated(network_of(dueling=dueling)), ByAutograd)
    picture = DQNCNN(DQNCNNOptions(hidden_sizes=(8,)), FRAME, 1)
    assert isinstance(differentiated(picture), ByAutograd)


def test_by_hand_and_by_autograd_agree_with_the_network_itself():
    network = network_of()
    auto, hand = ByAutograd(deepcopy(network)), ByHand(network)
    obs, slope = stacks(), torch.randn(6, 4)
    for one in (auto, hand):
        with one.calm():
            assert torch.allclose(one.values(obs), network(obs), atol=1e-6)
            recorded = one.recorded(obs)
            assert not recorded.requires_grad
            assert torch.equal(recorded, one.values(obs))
    with auto.calm():
        expected = torch.cat([gradient.reshape(-1) for gradient in auto.pull(slope)])
    with hand.calm():
        assert torch.allclose(hand.pull(slope)[0], expected, atol=1e-6)


@pytest.mark.parametrize("kind", [ByAutograd, ByHand])
def test_what_is_learnt_is_the_networks_own(kind: type):
    network = network_of()
    one = kind(network)
    optimizer = Adam(one.parameters, 0.1)
    obs = stacks()
    before = network(obs).detach()
    with one.calm():
        one.recorded(obs)
        optimizer.step(one.pull(torch.ones(6, 4)))
    assert (network(obs) < before).all()
    assert torch.allclose(network(obs), one.values(obs), atol=1e-6)


# Clipping by norm.


@pytest.mark.parametrize("limit", [0.0, 1.0, 5.0, 100.0])
def test_within_is_torchs_clipping(limit: float):
    torch.manual_seed(1)
    gradients = [torch.randn(3, 2) * 3, torch.randn(4)]
    theirs = [torch.zeros_like(one).requires_grad_() for one in gradients]
    for one, gradient in zip(theirs, gradients, strict=True):
        one.grad = gradient.clone()
    expected = torch.nn.utils.clip_grad_norm_(theirs, limit or float("inf"))
    kept = [one.clone() for one in gradients]
    clipped, norm = within(gradients, limit)
    assert norm == pytest.approx(float(expected), rel=1e-6)
    for ours, one in zip(clipped, theirs, strict=True):
        assert torch.allclose(ours, one.grad, rtol=1e-6)
    assert all(torch.equal(one, other) for one, other in zip(gradients, kept, strict=True))
    alone, length = within([torch.full((4,), 3.0)], limit)
    assert length == 6.0 and alone[0].norm() == pytest.approx(min(6.0, limit or 6.0), rel=1e-5)


# Acting.


@pytest.mark.parametrize("lanes", [1, 10, 300])
def test_numpy_acts_as_torch_would(lanes: int):
    network = network_of()
    hand, auto = ByHand(network), ByAutograd(network)
    for _ in range(3):
        obs = stacks(lanes)
        values = network(obs).detach()
        arrays = {name: tensor.numpy() for name, tensor in obs.items()}
        by_numpy = hand._layers.array_values(flat_inputs(arrays))
        assert np.allclose(by_numpy, values.numpy(), rtol=1e-5, atol=1e-6)
        actions = hand.greedy(arrays)
        assert actions.dtype == np.int64 and actions.shape == (lanes,)
        taken = values[torch.arange(lanes), torch.from_numpy(actions)]
        assert torch.allclose(taken, values.amax(1), rtol=1e-5, atol=1e-6)  # else a tie by rounding
        assert np.array_equal(auto.greedy(arrays), values.argmax(1).numpy())
        with hand.calm():  # what acts follows what learns
            hand.recorded(obs)
            Adam(hand.parameters, 0.1).step(hand.pull(torch.randn(lanes, 4)))
