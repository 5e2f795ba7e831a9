"""Noisy layers: their noise is the published one, drawn when told, and gone when told."""

from copy import deepcopy

import numpy as np
import pytest
import torch

from models.noisy import Noise, NoisyLinear

torch.set_num_threads(1)


def layer_of(inputs: int = 16, outputs: int = 5, sigma: float = 0.5, seed: int = 0) -> NoisyLinear:
    torch.manual_seed(seed)
    return NoisyLinear(inputs, outputs, sigma)


def f(x: np.ndarray) -> np.ndarray:
    return np.sign(x) * np.sqrt(np.abs(x))


def test_first_weights_are_those_of_the_paper():
    layer = layer_of(64, 200)
    for means in (layer.weight, layer.bias):
        assert 0.9 / 8 < means.abs().max() <= 1 / 8
    assert torch.equal(layer.weight_sigma, torch.full((200, 64), 0.5 / 8))
    assert torch.equal(layer.bias_sigma, torch.full((200,), 0.5 / 8))


def test_outputs_are_the_definition_in_numpy():
    layer = layer_of()
    with torch.no_grad():
        for sigma in (layer.weight_sigma, layer.bias_sigma):
            sigma.copy_(torch.rand(sigma.shape))
    Noise(layer).draw(np.random.default_rng(3))
    drawn = f(np.random.default_rng(3).standard_normal(21, dtype=np.float32))
    into, out = drawn[:16], drawn[16:]
    inputs = np.random.default_rng(1).normal(size=(7, 16)).astype(np.float32)
    weights = {name: value.detach().numpy() for name, value in layer.named_parameters()}
    weight = weights["weight"] + weights["weight_sigma"] * np.outer(out, into)
    bias = weights["bias"] + weights["bias_sigma"] * out
    got = layer(torch.from_numpy(inputs)).detach().numpy()
    assert np.allclose(got, inputs @ weight.T + bias, atol=1e-5)


def test_the_variance_of_outputs_is_the_formulas():
    """Var y_j = E|e| * (sum_i (sigma_ij x_i)^2 E|e| + sigma_j^2), with E|e| = sqrt(2 / pi)."""
    layer, rng = layer_of(), np.random.default_rng(0)
    noise, inputs = Noise(layer), torch.randn(1, 16)
    outputs = []
    with torch.no_grad():
        means = layer(inputs)
        for _ in range(6_000):
            noise.draw(rng)
            outputs.append(layer(inputs))
        spread = (layer.weight_sigma.square() * inputs.square()).sum(1)
        expected = (2 / np.pi) * spread + (2 / np.pi) ** 0.5 * layer.bias_sigma.square()
    seen = torch.cat(outputs)
    assert torch.allclose(seen.var(0), expected, rtol=0.1)
    assert torch.allclose(seen.mean(0), means[0], atol=4 * float(expected.max() / 6_000) ** 0.5)


def test_one_seed_draws_one_noise_and_each_draw_is_new():
    layer, inputs = layer_of(), torch.randn(3, 16)
    noise, seen = Noise(layer), []
    for rng in (np.random.default_rng(1), np.random.default_rng(1), np.random.default_rng(2)):
        noise.draw(rng)
        seen.append(layer(inputs))
        noise.draw(rng)
        assert not torch.equal(layer(inputs), seen[-1])
    assert torch.equal(seen[0], seen[1]) and not torch.equal(seen[0], seen[2])


@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_without_noise_and_without_sigma_it_is_the_linear_layer_of_its_means(sigma: float):
    layer, inputs = layer_of(sigma=sigma), torch.randn(3, 16)
    expected = torch.nn.functional.linear(inputs, layer.weight, layer.bias)
    noise = Noise(layer)
    assert torch.equal(layer(inputs), expected)
    noise.draw(np.random.default_rng(0))
    assert torch.equal(layer(inputs), expected) == (sigma == 0.0)
    noise.clear()
    assert torch.equal(layer(inputs), expected)


def test_a_copy_has_noise_of_its_own():
    layer, inputs = layer_of(), torch.randn(3, 16)
    copy = deepcopy(layer)
    Noise(layer).draw(np.random.default_rng(0))
    before = layer(inputs)
    Noise(copy).draw(np.random.default_rng(1))
    assert torch.equal(layer(inputs), before) and not torch.equal(copy(inputs), before)


def test_noise_is_not_saved_with_the_weights():
    layer = layer_of()
    Noise(layer).draw(np.random.default_rng(0))
    assert set(layer.state_dict()) == {"weight", "bias", "weight_sigma", "bias_sigma"}


def test_means_and_sigmas_have_gradients():
    layer = layer_of()
    Noise(layer).draw(np.random.default_rng(0))
    slopes = torch.autograd.grad(layer(torch.randn(3, 16)).sum(), list(layer.parameters()))
    assert all(float(slope.abs().sum()) > 0 for slope in slopes)


def test_a_network_without_noisy_layers_draws_nothing():
    rng = np.random.default_rng(0)
    noise = Noise(torch.nn.Linear(3, 2))
    noise.draw(rng)
    noise.clear()
    assert not noise and rng.integers(2**40) == np.random.default_rng(0).integers(2**40)
    assert Noise(torch.nn.Sequential(torch.nn.Linear(3, 2), layer_of(2, 2)))
