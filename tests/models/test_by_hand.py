"""Gradients by hand, against autograd's."""

from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from models.by_hand import LayersByHand

torch.set_num_threads(1)


def layers_of(sizes: tuple[int, ...]) -> list[nn.Linear]:
    torch.manual_seed(3)
    return [nn.Linear(width, following) for width, following in pairwise(sizes)]


def sequential(layers: list[nn.Linear]) -> nn.Sequential:
    parts = [part for layer in layers for part in (deepcopy(layer), nn.ReLU())]
    return nn.Sequential(*parts[:-1])


@pytest.mark.parametrize("sizes", [(3, 2), (4, 5, 2), (6, 33, 17, 3), (2, 8, 8, 8, 8, 1)])
@pytest.mark.parametrize("batch", [1, 7])
def test_values_and_gradients_are_those_of_autograd(sizes: tuple[int, ...], batch: int):
    layers = layers_of(sizes)
    network = sequential(layers)
    hand = LayersByHand(layers)
    for _ in range(3):  # what was recorded before leaves no trace
        inputs, slope = torch.randn(batch, sizes[0]), torch.randn(batch, sizes[-1])
        expected = network(inputs)
        slopes = torch.autograd.grad(expected, list(network.parameters()), slope)
        kept = inputs.clone(), slope.clone()
        assert torch.allclose(hand.values(inputs), expected, rtol=1e-5, atol=1e-6)
        assert torch.equal(hand.recorded(inputs), hand.values(inputs))
        flat = torch.cat([one.reshape(-1) for one in slopes])
        assert torch.allclose(hand.pull(slope), flat, rtol=1e-5, atol=1e-6)
        assert torch.equal(inputs, kept[0]) and torch.equal(slope, kept[1])


def test_a_unit_that_is_off_passes_no_gradient():
    """One input, one hidden unit: on at 1, off at -1, and at 0 as torch has it."""
    layers = layers_of((1, 1, 1))
    hand = LayersByHand(layers)
    hand.flat.copy_(torch.tensor([2.0, 0.0, 3.0, 0.5]))  # weight, bias, weight, bias
    assert hand.recorded(torch.tensor([[1.0], [-1.0], [0.0]])).flatten().tolist() == [6.5, 0.5, 0.5]
    one = hand.pull(torch.tensor([[1.0], [10.0], [100.0]]))
    assert one.tolist() == [3.0, 3.0, 2.0, 111.0]


def test_the_layers_parameters_are_views_of_one_piece():
    layers = layers_of((2, 3, 1))
    before = torch.cat([p.detach().reshape(-1).clone() for x in layers for p in x.parameters()])
    hand = LayersByHand(layers)
    assert torch.equal(hand.flat, before)
    with torch.no_grad():
        layers[0].weight.fill_(7.0)
    assert hand.flat[:6].tolist() == [7.0] * 6
    hand.recorded(torch.ones(2, 2))
    pulled = hand.pull(torch.ones(2, 1))
    grads = torch.cat([p.grad.reshape(-1) for x in layers for p in x.parameters()])
    assert torch.equal(grads, pulled) and pulled.abs().sum() > 0


def test_a_copy_has_parameters_of_its_own_and_layers_without_gradient_get_none():
    network = sequential(layers_of((2, 3, 1))).requires_grad_(False)
    hand = LayersByHand([network[0], network[2]])
    other = deepcopy(network)
    hand.flat.zero_()
    assert all((p != 0).any() for p in other.parameters())
    assert all(p.grad is None for p in network.parameters())


def test_many_descents_are_those_of_autograd():
    """Both learn the same thing; rounding alone tells them apart."""
    rng = np.random.default_rng(0)
    layers = layers_of((3, 16, 2))
    network, hand = sequential(layers), LayersByHand(layers)
    for _ in range(200):
        inputs = torch.from_numpy(rng.normal(size=(8, 3)).astype(np.float32))
        wanted = torch.stack([inputs.sum(1), inputs.prod(1)], dim=1)
        loss = (network(inputs) - wanted).square().mean()
        slopes = torch.autograd.grad(loss, list(network.parameters()))
        with torch.no_grad():
            torch._foreach_sub_(list(network.parameters()), [0.05 * one for one in slopes])
        slope = (hand.recorded(inputs) - wanted) * 2 / wanted.numel()
        hand.flat -= 0.05 * hand.pull(slope)
    theirs = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
    assert torch.allclose(hand.flat, theirs, atol=1e-4)
