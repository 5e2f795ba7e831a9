from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agents.acer import POLICY, ACERAgent, draw_actions
from agents.options.acer import ACEROptions
from core.agent import AgentContext
from core.errors import RunFailedError, UsageError
from core.options import SharedOptions
from core.rollout import Rollout
from core.schedules import Clock
from core.seeding import SeedTree
from core.train import Parts
from core.types import ArraySpec, Batch, DiscreteActions, EnvSpec
from models.acer import ACERMLP
from models.options import ACERMLPOptions
from tests.harness import CHAIN, Run, equal_trees, parts_of
from utils.options import CONFIGS

torch.set_num_threads(1)
ACTIONS = 3
ENV = EnvSpec({"obs": ArraySpec((4,), np.dtype(np.float32))}, DiscreteActions(ACTIONS))
GAMMA = 0.9
WORLD: dict[str, Any] = {
    **{
        key: value
        for key, value in CHAIN.items()
        if key not in ("target_model_update", "eps_decay")
    },
    "agent_type": "acer",
    "model_type": "acer-mlp",
    "memory_type": "episodic",
    "memory_limit": 2_000,
    "trajectory_length": 5,
    "num_envs": 2,
    "train_interval": 10,
    "learn_start": 0,
    "replay_start": 100,
}
"""A row that runs in a fraction of a second."""


class FixedMemory:
    """Gives the windows it was told to, and counts how often; all that `learn` needs."""

    def __init__(self, newest: Batch, older: Batch) -> None:
        self.newest, self.older = newest, older
        self.held = 10**6
        self.asked: list[int] = []

    def latest(self, columns: Sequence[str] | None = None) -> Batch:
        self.asked.append(0)
        return {name: array.copy() for name, array in self.newest.items()}

    def sample(self, batch_size: int) -> Batch:
        self.asked.append(batch_size)
        return {name: array.copy() for name, array in self.older.items()}

    def ready(self, units: int) -> bool:
        return self.held >= units


def windows(seed: int = 0, steps: int = 5, count: int = 4, spread: float = 1.5) -> Batch:
    """Windows of which the first terminates, the second is padded, the rest run on."""
    rng = np.random.default_rng(seed)
    shape = (steps, count)
    logits = rng.normal(size=(*shape, ACTIONS)) * spread
    behaviour = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    batch = {
        "obs": rng.normal(size=(steps + 1, count, 1, 4)).astype(np.float32),
        "action": rng.integers(0, ACTIONS, shape),
        POLICY: behaviour.astype(np.float32),
        "reward": rng.normal(size=shape).astype(np.float32),
        "discount": np.full(shape, GAMMA, np.float32),
        "mask": np.ones(shape, np.bool_),
    }
    batch["discount"][-1, 0] = 0.0
    cut_short(batch, 1, steps - 2)
    return batch


def cut_short(batch: Batch, window: int, length: int) -> None:
    """Ends a window after `length` steps, as the memory pads it."""
    batch["mask"][length:, window] = False
    batch["reward"][length:, window], batch["discount"][length:, window] = 0.0, 1.0
    batch["obs"][length + 1 :, window] = batch["obs"][length, window]


class Always(np.random.Generator):
    """Draws the same number of replays each time."""

    def __init__(self, count: int) -> None:
        super().__init__(np.random.PCG64(0))
        self._count = count

    def poisson(self, mean: float) -> int:
        return self._count


class Lab:
    """An agent on fixed windows, and its clock."""

    def __init__(self, seed: int = 0, steps: int = 1_000, **options: Any) -> None:
        torch.manual_seed(seed)
        self.clock = Clock()
        self.shared = SharedOptions(batch_size=16, steps=steps, trajectory_length=5, gamma=GAMMA)
        self.context = AgentContext(ENV, self.shared, SeedTree(seed), self.clock)
        model = ACERMLP(ACERMLPOptions(hidden_sizes=(8,)), ENV, 1)
        # the policy's last layer begins near 0: with weights of size 1 policies differ
        torch.nn.init.orthogonal_(model.policy[-1].weight)
        self.agent = ACERAgent(ACEROptions(**{"replay_ratio": 0.0, **options}), self.context, model)
        self.memory = FixedMemory(windows(1), windows(2))

    def learn(self, step: int = 0) -> dict[str, float]:
        self.clock.step = step
        return dict(self.agent.learn(self.memory))

    @property
    def online(self) -> dict[str, np.ndarray]:
        return self.agent.weights()

    @property
    def average(self) -> dict[str, np.ndarray]:
        return dict(self.agent.state()["average"])

    def gradients(self, tower: str) -> dict[str, np.ndarray]:
        """The gradients of the last update."""
        return {
            name: p.grad.numpy().copy()
            for name, p in self.agent._online.named_parameters()
            if name.startswith(tower)
        }

    def replaying(self, count: int) -> "Lab":
        """Replays exactly so often."""
        self.agent._rng = Always(count)
        return self


# The whole update, against a definition in plain numpy.


def log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def tower(weights: dict[str, np.ndarray], name: str, obs: np.ndarray) -> np.ndarray:
    hidden = np.tanh(obs @ weights[f"{name}.0.weight"].T + weights[f"{name}.0.bias"])
    return hidden @ weights[f"{name}.2.weight"].T + weights[f"{name}.2.bias"]


def defined(lab: Lab, batch: Batch, c: float, entropy_coef: float, correct: bool) -> dict:
    """Loss and gain of the windows, a step at a time; without the trust region."""
    weights = {name: array.astype(np.float64) for name, array in lab.online.items()}
    obs = batch["obs"][:, :, 0].astype(np.float64)
    policy = np.exp(log_softmax(tower(weights, "policy", obs)))
    q = tower(weights, "values", obs)
    v = (policy * q).sum(-1)
    gains, errors, entropies, ratios, qs = [], [], [], [], []
    for s in range(obs.shape[1]):
        length = int(batch["mask"][:, s].sum())
        following = v[length, s]  # of the last observation: a termination's discount hides it
        for t in reversed(range(length)):
            a, mu = batch["action"][t, s], batch[POLICY][t, s].astype(np.float64)
            target = batch["reward"][t, s] + batch["discount"][t, s] * following
            rho = policy[t, s] / (mu + 1e-6)
            following = min(1.0, rho[a]) * (target - q[t, s, a]) + v[t, s]
            log = np.log(policy[t, s] + 1e-6)
            gain = min(c, rho[a]) * (target - v[t, s]) * log[a]
            if correct:
                weight = np.maximum(1 - c / (rho + 1e-6), 0) * policy[t, s]
                gain += (weight * (q[t, s] - v[t, s]) * log).sum()
            entropies.append(-(policy[t, s] * log).sum())
            gains.append(gain + entropy_coef * entropies[-1])
            errors.append((target - q[t, s, a]) ** 2 / 2)
            ratios.append(rho[a])
            qs.append(q[t, s, a])
    return {
        "policy_loss": -np.mean(gains),
        "loss": -np.mean(gains) + 0.5 * np.mean(errors),
        "entropy": np.mean(entropies),
        "ratio_mean": np.mean(ratios),
        "q_mean": np.mean(qs),
    }


@pytest.mark.parametrize("correct", [False, True])
@pytest.mark.parametrize("c", [0.5, 10.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_update_is_its_definition(seed: int, c: float, correct: bool):
    lab = Lab(
        seed, trust_region=False, bias_correction=correct, clip_trace=c, entropy_coef=0.3, lr=0.01
    )
    lab.memory.newest = windows(seed + 10)
    for _ in range(2):
        expected = defined(lab, lab.memory.newest, c, 0.3, correct)
        told = lab.learn()
        assert {name: told[name] for name in expected} == pytest.approx(expected, rel=1e-4)


def test_metrics_are_those_announced():
    lab = Lab(replay_ratio=2.0)
    assert set(lab.learn()) == {"loss", "q_mean", *lab.agent.metrics}


def test_a_truncated_window_bootstraps_and_a_terminated_one_does_not():
    told = {}
    for discount in (0.0, GAMMA):
        for moved in (0.0, 1.0):
            lab = Lab()
            batch = windows(3, count=2)
            for length, window in ((5, 0), (3, 1)):
                batch["discount"][length - 1, window] = discount
                batch["obs"][length:, window] += moved  # the last observation, and its padding
            lab.memory.newest = batch
            told[discount, moved] = lab.learn()["loss"]
    assert told[0.0, 0.0] == pytest.approx(told[0.0, 1.0], rel=1e-6)
    assert abs(told[GAMMA, 0.0] - told[GAMMA, 1.0]) > 1e-2


def test_what_stands_in_the_padding_changes_nothing():
    plain, stale = Lab(), Lab()
    rng = np.random.default_rng(0)
    batch = stale.memory.newest
    padding = ~batch["mask"]
    batch["action"][padding] = rng.integers(0, ACTIONS, padding.sum())
    batch[POLICY][padding] = rng.random((padding.sum(), ACTIONS))
    batch[POLICY][3, 1] = 0.0  # a row that was never acted on
    first, second = plain.learn(), stale.learn()
    assert first == second and padding.sum() == 2
    assert equal_trees(plain.online, stale.online)


# What moves, and what does not.


def test_a_policy_s_loss_moves_no_value_and_a_value_s_loss_no_policy():
    without, with_values = (Lab(q_coef=coef, clip_grad=0.0, lr=0.01) for coef in (0.0, 0.5))
    before = without.online
    without.learn()
    with_values.learn()
    # the actor's loss alone: no gradient in the tower of values, which stays where it is
    assert all(not gradient.any() for gradient in without.gradients("values").values())
    for name, array in without.online.items():
        assert np.array_equal(array, before[name]) == name.startswith("values")
    # the loss of the values: none in the policy's, whose gradient is the same with it
    assert equal_trees(without.gradients("policy"), with_values.gradients("policy"))
    assert all(gradient.any() for gradient in with_values.gradients("values").values())


def follow(lab: Lab) -> list[dict[str, np.ndarray]]:
    """Notes the weights after each step of the optimizer."""
    seen: list[dict[str, np.ndarray]] = []
    step = lab.agent._optimizer.step
    lab.agent._optimizer.step = lambda: (step(), seen.append(lab.online))
    return seen


@pytest.mark.parametrize("decay", [0.99, 0.5, 0.0, 1.0])
def test_the_average_follows_each_step_on_and_off_policy(decay: float):
    lab = Lab(average_decay=decay, replay_ratio=1.0, lr=0.01).replaying(3)
    expected, seen = lab.average, follow(lab)
    begun = lab.average
    assert equal_trees(expected, lab.online)
    for step in range(5):
        lab.learn(step)
    assert len(seen) == 20 == lab.agent.updates
    for online in seen:
        expected = {n: decay * a + (1 - decay) * online[n] for n, a in expected.items()}
    for name, array in lab.average.items():
        assert np.allclose(array, expected[name], rtol=1e-5, atol=1e-7)
        # the faulty form binds a loop's name to the new value, and the average stays at its start
        assert np.array_equal(array, begun[name]) == (decay == 1.0)
        assert np.array_equal(array, lab.online[name]) == (decay == 0.0)


def test_nothing_else_moves_the_average():
    lab = Lab(lr=0.01)
    lab.learn()
    kept = lab.average
    assert not equal_trees(kept, lab.online)
    actor = lab.agent.actor(3, np.random.default_rng(0))
    actor.act({"obs": np.ones((3, 4), np.float32)}, np.ones(3, np.bool_), 0, explore=True)
    lab.agent.state(), lab.agent.weights()
    assert equal_trees(lab.average, kept)
    average = lab.agent._average.parameters()
    assert all(p.grad is None and not p.requires_grad for p in average)
    optimized = {id(p) for group in lab.agent._optimizer.param_groups for p in group["params"]}
    assert optimized == {id(p) for p in lab.agent._online.parameters()}


# The trust region, in its place.


def apart(**options: Any) -> Lab:
    """An agent whose average policy is far from its policy."""
    lab = Lab(average_decay=1.0, lr=0.01, clip_grad=0.0, **options)
    with torch.no_grad():
        lab.agent._average.policy[-1].bias[:] = torch.tensor([2.0, 0.0, -2.0])
    return lab


def test_the_region_is_of_each_sample_whatever_the_batch():
    """A window four times over has the gradient of one: delta is not compared with a mean."""
    one, four = (apart(trust_delta=0.05) for _ in range(2))
    single = {name: array[:, :1] for name, array in windows(4).items()}
    one.memory.newest = single
    four.memory.newest = {name: np.concatenate([a] * 4, axis=1) for name, a in single.items()}
    shares = one.learn()["trust_share"], four.learn()["trust_share"]
    assert shares[0] == shares[1] > 0.2
    for name, gradient in one.gradients("policy").items():
        assert np.allclose(gradient, four.gradients("policy")[name], rtol=1e-4, atol=1e-7)
    loose = apart(trust_delta=1e6)
    loose.memory.newest = single
    loose.learn()
    assert not np.allclose(
        loose.gradients("policy")["policy.2.bias"], one.gradients("policy")["policy.2.bias"]
    )


def test_a_wide_region_is_none():
    wide, none = apart(trust_delta=1e9), apart(trust_region=False)
    assert wide.learn()["trust_share"] == none.learn()["trust_share"] == 0.0
    for name, gradient in wide.gradients("policy").items():
        assert np.allclose(gradient, none.gradients("policy")[name], rtol=1e-3, atol=1e-6)


def test_the_held_back_steps_are_counted():
    tight = apart(trust_delta=1e-4)
    share = tight.learn()["trust_share"]
    assert 0.2 < share < 1.0
    # 18 of the 20 steps are there
    assert share * 18 == pytest.approx(round(share * 18), abs=1e-4)


def divergence(lab: Lab) -> float:
    """KL(average || policy), over the observations of the newest windows."""
    obs = {"obs": torch.from_numpy(lab.memory.newest["obs"][:-1]).flatten(0, 1)}
    with torch.no_grad():
        average, policy = lab.agent._average.log_policy(obs), lab.agent._online.log_policy(obs)
    return float((average.exp() * (average - policy)).sum(-1).mean())


def test_a_tight_region_keeps_the_policy_near_its_average():
    kept = {}
    for trust in (False, True):
        lab = Lab(average_decay=1.0, trust_region=trust, trust_delta=1e-3, lr=0.01, q_coef=0.0)
        for _ in range(300):
            lab.learn()
        kept[trust] = divergence(lab)
    assert kept[True] < kept[False] / 2  # measured: a third


# Each key does what it says.


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("trust_region", False),
        ("trust_delta", 1e-3),
        ("bias_correction", False),
        ("clip_trace", 0.3),
        ("entropy_coef", 0.5),
        ("q_coef", 2.0),
        ("clip_grad", 1e-3),
        ("lr", 1e-3),
        ("rmsprop_decay", 0.5),
        ("rmsprop_eps", 10.0),
    ],
)
def test_every_key_changes_the_update(key: str, value: object):
    common = {"clip_trace": 1.0, "lr": 0.01, "clip_grad": 0.0, "trust_delta": 0.05}
    plain, other = (Lab(average_decay=1.0, **{**common, **keys}) for keys in ({}, {key: value}))
    for lab in (plain, other):
        with torch.no_grad():
            lab.agent._average.policy[-1].bias[:] = torch.tensor([2.0, 0.0, -2.0])
        lab.learn()
    assert not equal_trees(plain.online, other.online)


def test_the_rows_of_the_ablations_differ_in_their_piece_alone():
    row = CONFIGS["acer_cartpole"]
    for name, piece in {
        "no_replay": {"replay_ratio": 0.0},
        "no_trust_region": {"trust_region": False},
        "no_bias_correction": {"bias_correction": False},
    }.items():
        assert CONFIGS[f"acer_cartpole_{name}"] == {**row, **piece}
        assert not piece.items() <= row.items()


@pytest.mark.parametrize("limit", [0.0, 0.05])
def test_clip_grad_bounds_the_norm_of_the_step(limit: float):
    lab = Lab(clip_grad=limit)
    reported = lab.learn()["grad_norm"]
    squares = [float((p.grad**2).sum()) for p in lab.agent._online.parameters()]
    assert reported > 0.05
    assert np.sqrt(np.sum(squares)) == pytest.approx(limit or reported, rel=1e-3)


# Replay.


def counted(ratio: float, seed: int = 0, learns: int = 500) -> np.ndarray:
    """How often each of many calls replayed."""
    lab = Lab(seed, replay_ratio=ratio)
    lab.agent._update = lambda batch: {}
    counts = []
    for _ in range(learns):
        lab.memory.asked.clear()
        lab.learn()
        assert lab.memory.asked[0] == 0 and set(lab.memory.asked[1:]) <= {16}
        counts.append(len(lab.memory.asked) - 1)
    return np.array(counts)


@pytest.mark.parametrize("ratio", [0.5, 4.0])
def test_the_number_of_replays_is_poisson(ratio: float):
    counts = np.concatenate([counted(ratio, seed) for seed in range(4)])
    error = np.sqrt(ratio / len(counts))
    assert counts.mean() == pytest.approx(ratio, abs=4 * error)
    # a fixed number would have no variance, a geometric one far more
    assert counts.var() == pytest.approx(ratio, rel=0.2)
    assert not np.array_equal(counts[:500], counts[500:1_000])
    assert np.array_equal(counts[:500], counted(ratio, seed=0))


def test_a_ratio_of_0_never_replays():
    assert not counted(0.0).any()


@pytest.mark.parametrize(("start", "least"), [(300, 300), (0, 16)])
def test_replay_begins_when_the_memory_holds_enough(start: int, least: int):
    lab = Lab(replay_ratio=1.0, replay_start=start).replaying(2)
    lab.agent._update = lambda batch: {}
    for held, asked in ((least - 1, [0]), (least, [0, 16, 16])):
        lab.memory.held = held
        lab.memory.asked.clear()
        lab.learn()
        assert lab.memory.asked == asked


def test_replay_begins_in_a_run_after_replay_start(tmp_path: Path):
    run = Run(tmp_path, WORLD, replay_start=200, replay_ratio=4.0, log_freq=10, eval_freq=0).go()
    updates = {int(row["step"]): int(row["updates"]) for row in run.rows}
    assert all(updates[step] == step // 10 for step in range(10, 200, 10))
    assert updates[400] > 60


def test_replayed_windows_are_learnt_from():
    lab = Lab(replay_ratio=1.0, lr=0.01)
    once, thrice = (Lab(replay_ratio=1.0, lr=0.01).replaying(count) for count in (0, 2))
    for some in (lab.replaying(0), once, thrice):
        some.learn()
    assert equal_trees(lab.online, once.online)
    assert not equal_trees(once.online, thrice.online)
    assert (once.agent.updates, thrice.agent.updates) == (1, 3)


# The learning rate falls with the clock.


def test_the_rate_falls_with_env_steps_and_not_with_updates():
    lab = Lab(lr=0.01, steps=1_000, replay_ratio=1.0).replaying(3)
    assert [lab.learn(step)["lr"] for step in (0, 0, 250, 999)] == pytest.approx(
        [0.01, 0.01, 0.0075, 0.00001]
    )
    assert lab.agent._optimizer.param_groups[0]["lr"] == pytest.approx(0.00001)
    kept = lab.online
    assert lab.learn(1_000)["lr"] == 0.0
    assert equal_trees(lab.online, kept)


def test_the_rate_stays_where_it_is_asked_to():
    lab = Lab(lr=0.01, lr_decay="constant", steps=100)
    assert [lab.learn(step)["lr"] for step in (0, 99, 500)] == [0.01] * 3


# Acting.


def test_drawn_actions_have_their_probabilities():
    policy = np.array([0.05, 0.6, 0.0, 0.35], np.float32)
    drawn = draw_actions(np.tile(policy, (40_000, 1)), np.random.default_rng(0))
    counts = np.bincount(drawn, minlength=4)
    assert counts[2] == 0 and drawn.dtype == np.int64
    expected = policy[policy > 0] * 40_000.0
    chi_square = ((counts[policy > 0] - expected) ** 2 / expected).sum()
    assert chi_square < 13.8  # 2 degrees of freedom: one time in a thousand


def test_each_row_is_drawn_by_its_own_policy():
    policy = np.eye(5, dtype=np.float32)[[3, 0, 4, 1, 1, 2]]
    for seed in range(20):
        drawn = draw_actions(policy, np.random.default_rng(seed))
        assert drawn.tolist() == [3, 0, 4, 1, 1, 2]


class Extreme:
    """Draws the greatest number below 1."""

    def random(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.full(shape, np.nextafter(1.0, 0.0))


def test_a_sum_that_rounding_leaves_short_still_gives_an_action():
    policy = np.full((7, 3), 1 / 3, np.float32) - np.float32(1e-7)
    assert draw_actions(policy, Extreme()).tolist() == [2] * 7
    assert draw_actions(np.full((2, 3), np.nan, np.float32), Extreme()).max() <= 2


def acts(lab: Lab, actor: Any, explore: bool = False, lanes: int = 300) -> tuple[Any, Any]:
    obs = {"obs": np.random.default_rng(9).normal(size=(lanes, 4)).astype(np.float32)}
    return actor.act(obs, np.ones(lanes, np.bool_), 0, explore=explore)


def test_greedy_actions_are_the_likeliest_and_draw_nothing():
    lab, rng = Lab(), np.random.default_rng(0)
    actions, extras = acts(lab, lab.agent.actor(300, rng))
    obs = np.random.default_rng(9).normal(size=(300, 4)).astype(np.float32)
    assert np.array_equal(actions, tower(lab.online, "policy", obs).argmax(axis=1))
    assert extras == {} and len(set(actions)) == ACTIONS
    assert rng.random() == np.random.default_rng(0).random()


def test_an_actor_follows_the_live_network_and_one_with_weights_does_not():
    lab = Lab(lr=0.05)
    frozen = lab.online
    live = lab.agent.actor(300, np.random.default_rng(0))
    kept = lab.agent.actor(300, np.random.default_rng(0), weights=frozen)
    before = acts(lab, kept, explore=True)[1][POLICY]
    assert np.array_equal(before, acts(lab, live, explore=True)[1][POLICY])
    for step in range(20):
        lab.learn(step)
    assert np.array_equal(before, acts(lab, kept, explore=True)[1][POLICY])
    now = acts(lab, live, explore=True)[1][POLICY]
    assert np.abs(now - before).max() > 0.05
    kept.take(lab.online)
    assert np.array_equal(acts(lab, kept, explore=True)[1][POLICY], now)


def rollout_of(parts: Parts) -> Rollout:
    actor = parts.agent.actor(parts.env.lanes, parts.seeds.generator("explore"))
    rollout = Rollout(parts.env, actor, parts.memory.writer())
    rollout.begin(parts.seeds.integers("env", parts.env.lanes))
    return rollout


class Spy:
    """Notes what the network says of each observation that it is shown while acting."""

    def __init__(self, network: torch.nn.Module) -> None:
        self.said: dict[bytes, np.ndarray] = {}
        network.register_forward_hook(self._look)

    def _look(self, module: Any, inputs: tuple[Any, ...], output: tuple[Any, Any]) -> None:
        if not torch.is_inference_mode_enabled():
            return
        for obs, log_policy in zip(inputs[0]["obs"], output[0], strict=True):
            self.said[obs.numpy().tobytes()] = log_policy.exp().numpy().copy()


@pytest.mark.parametrize("window", [1, 3])
def test_the_distribution_stored_is_the_one_acted_from(window: int):
    """Bit for bit, though the policy has moved since; observations name their moment."""
    world = {**WORLD, "game": "counter", "size": 10, "episode_length": 9, "lr": 0.05}
    parts = parts_of(world, window_length=window)
    spy, rollout = Spy(parts.agent._online), rollout_of(parts)
    for step in range(100):
        parts.clock.step += rollout.step(parts.clock.step)
        if step % 5 == 4:
            parts.agent.learn(parts.memory)
    batch = parts.memory.sample(500)
    seen = set()
    for t, s in np.argwhere(batch["mask"]):
        key = batch["obs"][t, s].tobytes()
        assert np.array_equal(batch[POLICY][t, s], spy.said[key])
        seen.add(batch[POLICY][t, s].tobytes())
    assert len(seen) > 50, "the policy hardly moved, so this would prove little"


@pytest.mark.parametrize("ending", ["terminate", "truncate"])
def test_windows_of_a_world_end_as_it_does(ending: str):
    world = {**WORLD, "game": "counter", "size": 10, "episode_length": 3, "ending": ending}
    parts = parts_of(world, gamma=GAMMA)
    rollout = rollout_of(parts)
    for step in range(39):  # 13 episodes in each lane, and no open one
        rollout.step(step)
    batch = parts.memory.sample(300)
    lengths = batch["mask"].sum(0)
    assert set(lengths) == {1, 2, 3}
    last = batch["discount"][lengths - 1, np.arange(300)]
    assert np.allclose(last, 0.0 if ending == "terminate" else GAMMA)
    # the observation to bootstrap from is the true last one, never that of a reset
    finals = batch["obs"][lengths, np.arange(300), 0, 2]
    assert set(finals) <= {1.0, 2.0, 3.0}


# Numbers that are none.


@pytest.mark.parametrize(
    ("column", "wrong"),
    [("obs", np.nan), ("obs", np.inf), ("reward", np.nan), ("reward", np.inf), (POLICY, np.nan)],
)
def test_a_number_that_is_not_finite_is_named(column: str, wrong: float):
    lab = Lab()
    lab.learn(41)
    kept = lab.agent.state()
    lab.memory.newest[column].reshape(-1)[1] = wrong
    with pytest.raises(RunFailedError, match=f"'{column}' of the batch is not finite at step 42"):
        lab.learn(42)
    assert equal_trees(dict(lab.agent.state()), dict(kept)), "the step must not be taken"


def test_a_replayed_number_that_is_not_finite_is_named():
    lab = Lab(replay_ratio=1.0).replaying(1)
    lab.memory.older["reward"][2, 2] = np.nan
    with pytest.raises(RunFailedError, match="'reward' of the batch is not finite at step 7"):
        lab.learn(7)
    assert lab.agent.updates == 1  # the one on-policy


def test_a_weight_that_is_not_finite_is_named():
    lab = Lab()
    with torch.no_grad():
        lab.agent._online.values[-1].bias[1] = float("nan")
    with pytest.raises(RunFailedError, match=r"weight 'values\.2\.bias' is not finite at step 7"):
        lab.learn(7)


@pytest.mark.parametrize("trust_region", [True, False])
@pytest.mark.parametrize("sign", [1, -1])
def test_extreme_logits_stay_finite(sign: int, trust_region: bool):
    """The policy is sure of one action, and the behaviour was as sure of another."""
    lab = Lab(replay_ratio=1.0, trust_region=trust_region, lr=0.01).replaying(2)
    with torch.no_grad():
        lab.agent._online.policy[-1].bias[:] = sign * torch.tensor([60.0, -60.0, 0.0])
    for batch in (lab.memory.newest, lab.memory.older):
        batch[POLICY][...] = np.eye(3, dtype=np.float32)[1 if sign > 0 else 0]
        batch["reward"] *= 100
    for step in range(20):
        assert np.isfinite(list(lab.learn(step).values())).all()
    assert all(np.isfinite(array).all() for array in [*lab.online.values(), *lab.average.values()])


# State.


def test_a_loaded_agent_goes_on_bit_for_bit():
    first, second = (Lab(seed, replay_ratio=2.0, lr=0.01) for seed in (1, 2))
    for step in range(7):
        first.learn(step)
    state = first.agent.state()
    assert not equal_trees(second.online, first.online)
    second.agent.load(state)
    for step in range(7, 20):
        assert first.learn(step) == second.learn(step)
    assert equal_trees(dict(first.agent.state()), dict(second.agent.state()))
    assert second.agent.updates > 20


def test_what_is_saved_is_a_copy():
    lab = Lab(lr=0.01)
    lab.learn()
    state, again = dict(lab.agent.state()), dict(lab.agent.state())
    lab.learn(1)
    assert equal_trees(state, again)
    assert not equal_trees(state, dict(lab.agent.state()))


def test_another_network_s_state_is_refused():
    lab, other = Lab(), Lab()
    state = dict(other.agent.state())
    state["weights"] = {n: np.zeros((1, *a.shape), a.dtype) for n, a in state["weights"].items()}
    with pytest.raises(RuntimeError, match="size mismatch"):
        lab.agent.load(state)


# It learns.


@pytest.mark.parametrize("piece", [{}, {"trust_region": False}])
def test_it_learns_to_go_where_the_reward_is(piece: dict[str, Any], tmp_path: Path):
    """Leaving pays at once, the far end ten times as much: a policy has to see past the first."""
    keys = {"size": 3, "steps": 1_200, "lr": 0.02, "num_envs": 4, "train_interval": 20, **piece}
    run = Run(tmp_path, WORLD, eval_freq=0, **keys).go()
    assert run.result["last_eval_return_mean"] == 1.0
    # the returns of the policy as it explores, measured over 3 seeds: 0.23 to 0.36, 0.80 to 0.87
    assert float(run.rows[0]["return_mean"]) < 0.5
    assert float(run.rows[-1]["return_mean"]) > 0.7


def test_the_same_row_and_seed_give_the_same_numbers():
    told = []
    for _ in range(2):
        parts = parts_of(WORLD)
        rollout = rollout_of(parts)
        for step in range(60):
            parts.clock.step += rollout.step(parts.clock.step)
            if step % 5 == 4:
                parts.agent.learn(parts.memory)
        told.append(parts.agent.state())
    assert equal_trees(dict(told[0]), dict(told[1]))


def test_replay_that_is_never_reached_is_refused():
    with pytest.raises(UsageError, match="replay_start 100 is never reached: the memory holds"):
        ACEROptions(replay_start=100).check(SharedOptions(), 99)
    assert ACEROptions(replay_start=100).check(SharedOptions(), 100) is None
    assert ACEROptions(replay_start=100, replay_ratio=0.0).check(SharedOptions(), 9) is None
