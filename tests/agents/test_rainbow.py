"""DQN with distributions and noisy layers: Rainbow's parts, each alone and all together."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agents.dqn import DQNAgent
from agents.options.dqn import DQNOptions
from core.agent import AgentContext
from core.errors import RunFailedError, UsageError
from core.options import SharedOptions
from core.schedules import Clock
from core.seeding import SeedTree
from core.types import ArraySpec, DiscreteActions, EnvSpec
from models.dqn import DQNCNN, DQNMLP
from models.options import DQNCNNOptions, DQNMLPOptions
from tests.agents.test_distributions import projected, quantile_loss
from tests.agents.test_dqn import ENV, FixedMemory, batch_of
from tests.contracts.test_agent_contract import Case, saved
from tests.contracts.test_agent_contract import Lab as Played
from tests.harness import CHAIN, equal_trees, parts_of, settings_of

torch.set_num_threads(1)
FRAME = EnvSpec({"obs": ArraySpec((10, 10, 2), np.dtype(np.uint8))}, DiscreteActions(4))
DISTRIBUTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "c51": {"distribution": "c51", "atoms": 7, "v_min": -3.0, "v_max": 3.0},
    "qr": {"distribution": "qr", "quantiles": 6},
}
every_distribution = pytest.mark.parametrize("distribution", DISTRIBUTIONS)
every_noise = pytest.mark.parametrize("noisy", [False, True], ids=["plain", "noisy"])
CASE = Case("dqn", "sequential", "dqn-mlp", "discrete")


class Listening(FixedMemory):
    """Gives one batch, and keeps what it is told of it."""

    takes_feedback = True

    def __init__(self, env: EnvSpec = ENV) -> None:
        batch = {**batch_of(), "id": np.arange(100, 116)}
        batch["discount"][:3] = 0.0  # terminals
        if env is FRAME:
            rng = np.random.default_rng(0)
            for name in ("obs", "next_obs"):
                batch[name] = rng.integers(0, 256, (16, 1, 10, 10, 2)).astype(np.uint8)
        super().__init__(batch)
        self.told: list[np.ndarray] = []

    def feedback(self, ids: np.ndarray, errors: np.ndarray) -> None:
        assert ids.tolist() == list(range(100, 116)) and errors.shape == (16,)
        self.told.append(errors)


class Lab:
    """An agent on fixed data; keys are the agent's and the network's."""

    def __init__(self, seed: int = 0, env: EnvSpec = ENV, **keys: Any) -> None:
        torch.manual_seed(seed)
        self.clock = Clock()
        context = AgentContext(
            env, SharedOptions(batch_size=16, learn_start=0), SeedTree(seed), self.clock
        )
        options, network = (
            (DQNMLPOptions, DQNMLP) if env is ENV else (DQNCNNOptions, DQNCNN)
        )  # fmt: skip
        own = {key: value for key, value in keys.items() if key in options.model_fields}
        rest = {key: value for key, value in keys.items() if key not in own}
        model = network(options(hidden_sizes=(8,), **own), env, 1)
        self.agent = DQNAgent(DQNOptions(**rest), context, model)
        self.memory = Listening(env)

    def learn(self) -> dict[str, float]:
        self.clock.step += 1
        return dict(self.agent.learn(self.memory))

    def part(self) -> "Lab":
        """Moves the online network away from the target."""
        torch.manual_seed(7)
        with torch.no_grad():
            for parameter in self.agent._online.parameters():
                parameter.add_(0.3 * torch.randn(parameter.shape))
        return self

    def outputs(self, name: str, obs: str) -> np.ndarray:
        """What the online or the target network gives, with the noise that stands."""
        with torch.no_grad():
            seen = {"obs": torch.from_numpy(self.memory.batch[obs])}
            return getattr(self.agent, f"_{name}")(seen).double().numpy()


def goes_on_identically(one: Lab, other: Lab) -> None:
    """Asserts that the other, with the state of the one, learns what it learns."""
    assert not equal_trees(other.agent.weights(), one.agent.weights())
    other.clock.step = one.clock.step
    other.agent.load(one.agent.state())
    for _ in range(2):
        assert one.learn() == other.learn()
    assert equal_trees(one.agent.state(), other.agent.state())
    assert np.array_equal(one.memory.told[-1], other.memory.told[-1])


# Every combination.


@every_noise
@every_distribution
def test_every_combination_learns_and_goes_on_bit_for_bit(distribution: str, noisy: bool):
    values = product(("off", "avg", "max", "naive"), (False, True), (10, 0.1), ("td", "reducible"))
    for dueling, double, target, priority in values:
        keys = {
            **DISTRIBUTIONS[distribution],
            "noisy": noisy,
            "dueling": dueling,
            "double": double,
            "target_model_update": target,
            "priority": priority,
        }
        one = Lab(1, **keys)
        told = [one.learn() for _ in range(2)]
        assert all(np.isfinite(list(metrics.values())).all() for metrics in told), keys
        assert told[0]["loss"] > 0 and told[0]["grad_norm"] > 0
        assert all(np.isfinite(errors).all() for errors in one.memory.told)
        goes_on_identically(one, Lab(2, **keys))


@every_noise
@every_distribution
def test_pictures_in_every_order_and_rounding(distribution: str, noisy: bool):
    losses = []
    for channels_last, bfloat16 in product((False, True), repeat=2):
        keys = {
            **DISTRIBUTIONS[distribution],
            "noisy": noisy,
            "dueling": "avg",
            "channels_last": channels_last,
            "bfloat16": bfloat16,
        }
        one = Lab(1, FRAME, **keys)
        losses.append(one.learn()["loss"])
        assert {p.dtype for p in one.agent._online.parameters()} == {torch.float32}
        goes_on_identically(one, Lab(2, FRAME, **keys))
    assert np.allclose(losses, losses[0], rtol=0.05)


RAINBOW = {
    "double": True,
    "dueling": "avg",
    "sampler": "prioritized",
    "n_step": 3,
    "target_model_update": 40,
    "eps_start": 0.0,
    "eps_end": 0.0,
}


@every_noise
@every_distribution
def test_a_run_of_all_its_parts_goes_on_identically(distribution: str, noisy: bool, tmp_path: Path):
    keys = {**RAINBOW, **DISTRIBUTIONS[distribution], "noisy": noisy}
    whole = Played(CASE, **keys).go(40)
    past = saved(whole, tmp_path)
    parted = Played(CASE, past, **keys)
    assert parted.exact and equal_trees(parted.state, past)
    whole.told.clear()
    whole.watch().go(40)
    parted.watch().go(40)
    assert whole.told == parted.told and len(whole.told) == 20
    assert whole.played == parted.played
    assert equal_trees(whole.state, parted.state)


# What is learnt, against the definitions.


@pytest.mark.parametrize("double", [False, True])
@every_noise
def test_c51_learns_the_published_target(noisy: bool, double: bool):
    lab = Lab(**DISTRIBUTIONS["c51"], noisy=noisy, double=double, target_model_update=10_000).part()
    batch = lab.memory.batch
    batch["weight"] = np.random.default_rng(5).uniform(0.2, 1, 16).astype(np.float32)
    kept, support = lab.agent.state(), np.linspace(-3, 3, 7)
    loss = lab.learn()["loss"]
    lab.agent._online.load_state_dict({k: torch.from_numpy(v) for k, v in kept["weights"].items()})

    def probabilities(logits: np.ndarray) -> np.ndarray:
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    p_t = probabilities(lab.outputs("target", "next_obs"))
    selecting = probabilities(lab.outputs("online", "next_obs")) if double else p_t
    p_tm1 = probabilities(lab.outputs("online", "obs"))
    best = (selecting @ support).argmax(1)
    losses, divergences = np.zeros(16), np.zeros(16)
    for row, action in enumerate(batch["action"]):
        target = projected(
            batch["reward"][row], batch["discount"][row], p_t[row, best[row]], support
        )
        losses[row] = -(target * np.log(p_tm1[row, action])).sum()
        known = target[target > 0]
        divergences[row] = losses[row] + (known * np.log(known)).sum()
    assert loss == pytest.approx((losses * batch["weight"]).mean(), rel=1e-4)
    np.testing.assert_allclose(lab.memory.told[0], divergences, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kappa", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("double", [False, True])
def test_qr_learns_the_published_target(double: bool, kappa: float):
    lab = Lab(**DISTRIBUTIONS["qr"], double=double, kappa=kappa, target_model_update=10_000).part()
    batch = lab.memory.batch
    theta_t, online_t, theta = (
        lab.outputs(*which)
        for which in (("target", "next_obs"), ("online", "next_obs"), ("online", "obs"))
    )
    best = (online_t if double else theta_t).mean(2).argmax(1)
    assert (best != (theta_t if double else online_t).mean(2).argmax(1)).any()
    losses = [
        quantile_loss(
            theta[row, action],
            batch["reward"][row] + batch["discount"][row] * theta_t[row, best[row]],
            kappa,
        )
        for row, action in enumerate(batch["action"])
    ]
    assert lab.learn()["loss"] == pytest.approx(np.mean(losses), rel=1e-4)
    np.testing.assert_allclose(lab.memory.told[0], losses, rtol=1e-3, atol=1e-5)


@every_distribution
def test_what_is_left_to_learn_is_the_loss_less_the_older_networks(distribution: str):
    keys = {**DISTRIBUTIONS[distribution], "target_model_update": 10_000}
    lab = Lab(**keys, priority="reducible").part()
    with torch.no_grad():
        data = {name: torch.from_numpy(array) for name, array in lab.memory.batch.items()}
        target_of, losses = lab.agent._returns.target, lab.agent._returns.losses
        following = lab.agent._target({"obs": data["next_obs"]})
        select = lab.agent._returns.expected(following)
        target = target_of(data["reward"], data["discount"], following, select)
        online, older = (
            losses(network({"obs": data["obs"]}), data["action"], target)
            for network in (lab.agent._online, lab.agent._target)
        )
    lab.learn()
    expected = np.maximum(online.numpy() - older.numpy(), 0)
    np.testing.assert_allclose(lab.memory.told[0], expected, rtol=1e-3, atol=1e-5)
    assert (expected > 0).any() and (expected == 0).any()


@pytest.mark.parametrize("distribution", ["c51", "qr"])
def test_the_gradient_is_that_of_the_loss(distribution: str):
    lab = Lab(**DISTRIBUTIONS[distribution], dueling="avg").part()
    lab.memory.batch["weight"] = np.linspace(0.1, 1, 16).astype(np.float32)
    outputs, target, lesson = lab.agent._lesson(lab.memory.batch)
    pulled = lab.agent._online_values.pull(lesson.slope)
    action, obs = (torch.from_numpy(lab.memory.batch[name]) for name in ("action", "obs"))
    again = lab.agent._online({"obs": obs})
    weight = torch.from_numpy(lab.memory.batch["weight"])
    loss = (weight * lab.agent._returns.losses(again, action, target)).mean()
    expected = torch.autograd.grad(loss, list(lab.agent._online.parameters()))
    assert torch.allclose(loss, lesson.loss) and torch.equal(outputs, again)
    for one, other in zip(pulled, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("distribution", ["c51", "qr"])
def test_learning_finds_the_rewards_of_terminals(distribution: str):
    lab = Lab(**DISTRIBUTIONS[distribution], lr=0.02)
    lab.memory.batch["discount"][:] = 0.0
    for _ in range(400):
        lab.learn()
    q = lab.agent._returns.expected(torch.from_numpy(lab.outputs("online", "obs")).float())
    batch = lab.memory.batch
    error = q.numpy()[np.arange(16), batch["action"]] - batch["reward"]
    assert np.abs(error).max() < 0.15
    assert lab.learn()["td_error_mean"] < 0.1


# Where the mathematics says so, it is DQN.


def test_one_quantile_has_half_of_dqns_loss_and_slope():
    plain, one = (
        Lab(clip_grad=0.0).part(),
        Lab(distribution="qr", quantiles=1, clip_grad=0.0).part(),
    )
    assert equal_trees(plain.agent.weights(), one.agent.weights())
    told, halved = plain.learn(), one.learn()
    for name in ("q_mean", "td_error_mean"):
        assert halved[name] == pytest.approx(told[name], rel=1e-5)
    for name in ("loss", "grad_norm"):
        assert halved[name] == pytest.approx(told[name] / 2, rel=1e-5)


def test_equal_quantiles_act_and_bootstrap_as_their_value():
    """A distribution of one point is a value: its target is Q-learning's."""
    lab, q = Lab(**DISTRIBUTIONS["qr"]), torch.randn(16, 4)
    data = {name: torch.from_numpy(array) for name, array in lab.memory.batch.items()}
    points, returns = q.unsqueeze(2).expand(-1, -1, 6), lab.agent._returns
    assert torch.allclose(returns.expected(points), q, atol=1e-6)
    target = returns.target(data["reward"], data["discount"], points, q)
    expected = data["reward"] + data["discount"] * q.max(1).values
    assert torch.allclose(target, expected.unsqueeze(1).expand(-1, 6))


def test_one_hot_atoms_act_and_bootstrap_as_their_value():
    lab, support = Lab(**DISTRIBUTIONS["c51"]), torch.linspace(-3, 3, 7)
    data = {name: torch.from_numpy(array) for name, array in lab.memory.batch.items()}
    atom = torch.randint(2, 5, (16, 4), generator=torch.manual_seed(0))
    logits = 1e4 * torch.nn.functional.one_hot(atom, 7).float()
    returns, q = lab.agent._returns, support[atom]
    assert torch.allclose(returns.expected(logits), q, atol=1e-6)
    reward = data["reward"].clamp(-1, 1)
    target = returns.target(reward, data["discount"], logits, q)
    expected = reward + data["discount"] * q.max(1).values
    assert torch.allclose(target @ support, expected, atol=1e-5)


def test_noise_of_no_size_learns_as_plain_layers_do():
    plain = Lab(dueling="avg", clip_grad=0.0)
    still = Lab(dueling="avg", clip_grad=0.0, noisy=True, noisy_sigma=0.0)
    told, other = plain.learn(), still.learn()
    for name in ("loss", "q_mean", "td_error_mean"):
        assert told[name] == pytest.approx(other[name], rel=1e-6)


# Noise.


def test_noise_is_drawn_each_update_for_each_network_apart():
    lab = Lab(noisy=True, target_model_update=10_000)
    rows = [(lab.learn(), lab.outputs("online", "obs"), lab.outputs("target", "obs"))]
    rows.append((lab.learn(), lab.outputs("online", "obs"), lab.outputs("target", "obs")))
    layers = lab.agent._online.head.advantage, lab.agent._target.head.advantage
    assert not torch.equal(layers[0].noise[0], layers[1].noise[0])
    # the target's weights stood still: what moved is its noise
    assert not np.array_equal(rows[0][2], rows[1][2])


def acting(lab: Lab, lanes: int = 50) -> tuple[Any, dict[str, np.ndarray], np.ndarray]:
    actor = lab.agent.actor(lanes, np.random.default_rng(0))
    obs = {"obs": np.random.default_rng(1).normal(size=(lanes, 3)).astype(np.float32)}
    return actor, obs, np.ones(lanes, np.bool_)


@every_distribution
def test_acting_draws_noise_each_step_and_evaluation_has_the_means(distribution: str):
    lab = Lab(**DISTRIBUTIONS[distribution], noisy=True, eps_start=0.0, eps_end=0.0)
    lab.learn()
    actor, obs, first = acting(lab, 400)
    with torch.no_grad():
        actor.act(obs, first, 1, explore=False)
        outputs = lab.agent._online({"obs": torch.from_numpy(obs["obs"][:, None])})
    means = lab.agent._returns.expected(outputs).argmax(1).numpy()
    explored = [actor.act(obs, first, 1, explore=True)[0] for _ in range(3)]
    assert any((one != explored[0]).any() for one in explored[1:])
    state = actor.state()["rng"]
    for _ in range(2):
        assert np.array_equal(actor.act(obs, first, 1, explore=False)[0], means)
    assert actor.state()["rng"] == state, "evaluation draws nothing"


def test_evaluation_between_updates_changes_no_number_of_learning():
    one, other = Lab(noisy=True), Lab(noisy=True)
    actor, obs, first = acting(other)
    for _ in range(3):
        assert one.learn() == other.learn()
        actor.act(obs, first, 1, explore=False)
    assert equal_trees(one.agent.state(), other.agent.state())


def test_plain_layers_draw_no_noise_and_save_none():
    lab = Lab()
    lab.learn()
    assert "noise" not in lab.agent.state() and "noise" in Lab(noisy=True).agent.state()
    actor, obs, first = acting(lab)
    actor.act(obs, first, 1, explore=True)
    rng = np.random.default_rng(0)
    rng.random(50), rng.integers(0, 4, 50)
    assert actor.state()["rng"]["state"] == rng.bit_generator.state["state"]


# What does not fit together.


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"atoms": 21}, "atoms with distribution c51 alone"),
        ({"distribution": "qr", "v_max": 5.0}, "v_max with distribution c51 alone"),
        ({"distribution": "c51", "quantiles": 5}, "quantiles with distribution qr alone"),
        ({"noisy_sigma": 0.1}, "noisy_sigma with noisy true alone"),
        ({"distribution": "c51", "v_min": 10.0}, "a v_min below v_max, not 10 and 10"),
    ],
)
def test_a_key_of_another_kind_is_refused(keys: dict[str, Any], why: str):
    with pytest.raises(UsageError, match=why):
        settings_of(CHAIN, **keys)


@pytest.mark.parametrize("distribution", ["none", "c51"])
def test_kappa_without_quantiles_is_refused(distribution: str):
    with pytest.raises(UsageError, match="kappa 2 with distribution qr alone"):
        parts_of(CHAIN, distribution=distribution, kappa=2.0)


@pytest.mark.parametrize("distribution", ["c51", "qr"])
def test_a_number_that_is_not_finite_is_named_and_not_told(distribution: str):
    lab = Lab(**DISTRIBUTIONS[distribution])
    lab.memory.batch["reward"][5] = np.nan
    with pytest.raises(RunFailedError, match="'reward' of the batch is not finite at step 1"):
        lab.learn()
    assert lab.memory.told == []


def test_a_network_that_says_nothing_of_its_outputs_gives_values():
    plain, silent = Lab(1), Lab(1)
    model = torch.nn.Sequential(silent.agent._online)
    assert not hasattr(model, "returns")
    context = AgentContext(ENV, SharedOptions(batch_size=16), SeedTree(1), silent.clock)
    silent.agent = DQNAgent(DQNOptions(), context, model)
    assert silent.learn()["loss"] == pytest.approx(plain.learn()["loss"], rel=1e-5)
