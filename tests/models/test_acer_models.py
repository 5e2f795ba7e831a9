import numpy as np
import pytest
import torch

from core.types import ArraySpec, DiscreteActions, EnvSpec
from models.acer import ACERMLP, tower
from models.options import ACERMLPOptions

torch.set_num_threads(1)
ENV = EnvSpec(
    {
        "obs.body": ArraySpec((3,), np.dtype(np.float32)),
        "obs.eye": ArraySpec((2, 2), np.dtype(np.uint8)),
    },
    DiscreteActions(4),
)
WINDOW = 2


def network(*hidden: int, seed: int = 0) -> ACERMLP:
    torch.manual_seed(seed)
    return ACERMLP(ACERMLPOptions(hidden_sizes=hidden), ENV, WINDOW)


def observations(count: int = 6) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(0)
    return {
        "obs.body": torch.from_numpy(rng.normal(size=(count, WINDOW, 3)).astype(np.float32)),
        "obs.eye": torch.from_numpy(rng.integers(0, 256, (count, WINDOW, 2, 2)).astype(np.uint8)),
    }


def by_hand(layers: torch.nn.Sequential, inputs: np.ndarray) -> np.ndarray:
    linear = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
    for number, layer in enumerate(linear):
        inputs = inputs @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
        inputs = np.tanh(inputs) if number < len(linear) - 1 else inputs
    return inputs


@pytest.mark.parametrize("hidden", [(), (5,), (8, 6)])
def test_it_computes_what_numpy_does(hidden: tuple[int, ...]):
    net, obs = network(*hidden), observations()
    flat = np.concatenate(
        [obs["obs.body"].numpy().reshape(6, -1), obs["obs.eye"].numpy().reshape(6, -1) / 255],
        axis=1,
    ).astype(np.float32)
    log_policy, q = net(obs)
    logits = by_hand(net.policy, flat)
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert np.allclose(log_policy.exp().detach().numpy(), expected, atol=1e-5)
    assert np.allclose(q.detach().numpy(), by_hand(net.values, flat), atol=1e-5)
    assert torch.equal(net.log_policy(obs), log_policy)


def test_probabilities_sum_to_1_however_sure():
    net, obs = network(8), observations()
    with torch.no_grad():
        net.policy[-1].bias[:] = torch.tensor([60.0, -60.0, 0.0, 0.0])
    log_policy, _ = net(obs)
    assert torch.isfinite(log_policy).all()
    assert torch.allclose(log_policy.exp().sum(1), torch.ones(6))


def test_the_towers_share_nothing():
    net = network(8, 6)
    net(observations())[0].sum().backward()
    assert all(p.grad is None for p in net.values.parameters())
    net.zero_grad()
    net(observations())[1].sum().backward()
    assert all(p.grad is None for p in net.policy.parameters())
    assert {id(p) for p in net.policy.parameters()}.isdisjoint(map(id, net.values.parameters()))


def test_a_policy_begins_nearly_uniform_and_values_do_not():
    log_policy, q = network(64, 64)(observations())
    assert (log_policy.exp() - 0.25).abs().max() < 0.02
    assert q.abs().max() > 0.05


def test_weights_begin_orthogonal():
    layers = tower([40, 30], 3, last_gain=0.01)
    first, last = layers[0].weight, layers[2].weight
    assert torch.allclose(first @ first.T, 2 * torch.eye(30), atol=1e-4)
    assert torch.allclose(last @ last.T, 1e-4 * torch.eye(3), atol=1e-7)
    assert not layers[0].bias.any() and not layers[2].bias.any()


def test_sizes_follow_the_options():
    net = network(7, 5)
    inputs = WINDOW * (3 + 4)
    each = inputs * 7 + 7 + 7 * 5 + 5 + 5 * 4 + 4
    assert sum(p.numel() for p in net.parameters()) == 2 * each
