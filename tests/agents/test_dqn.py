from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from agents.acting import epsilon_greedy, random_actions
from agents.differentiated import Differentiated
from agents.dqn import DQNAgent
from agents.optimizers import Adam
from agents.options.dqn import DQNOptions
from agents.tensors import to_tensors
from core.agent import AgentContext
from core.errors import RunFailedError
from core.options import SharedOptions
from core.rollout import Rollout
from core.schedules import Clock
from core.seeding import SeedTree
from core.train import Parts
from core.types import NEXT, ArraySpec, Batch, ContinuousActions, DiscreteActions, EnvSpec
from models.dqn import DQNCNN, DQNMLP
from models.options import DQNCNNOptions, DQNMLPOptions
from tests.harness import COUNTER, equal_trees, parts_of

torch.set_num_threads(1)
ENV = EnvSpec({"obs": ArraySpec((3,), np.dtype(np.float32))}, DiscreteActions(4))


class FixedMemory:
    """Gives the batch it was told to, whatever is asked; all that `learn` needs of a memory."""

    takes_feedback = False

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.asked: list[int] = []

    def sample(self, batch_size: int, *, columns: Sequence[str] | None = None) -> Batch:
        self.asked.append(batch_size)
        return {name: array.copy() for name, array in self.batch.items()}


def batch_of(size: int = 16, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    return {
        "obs": rng.normal(size=(size, 1, 3)).astype(np.float32),
        "next_obs": rng.normal(size=(size, 1, 3)).astype(np.float32),
        "action": rng.integers(0, 4, size),
        "reward": rng.normal(size=size).astype(np.float32),
        "discount": np.full(size, 0.9, np.float32),
        "weight": np.ones(size, np.float32),
    }


class Lab:
    """An agent on fixed data, and its clock."""

    def __init__(self, seed: int = 0, env: EnvSpec = ENV, window: int = 1, **options: Any) -> None:
        torch.manual_seed(seed)
        self.clock = Clock()
        shared = SharedOptions(batch_size=16, learn_start=100, window_length=window)
        context = AgentContext(env, shared, SeedTree(seed), self.clock)
        pixels = next(iter(env.observations.values())).is_frame
        model = (
            DQNCNN(DQNCNNOptions(hidden_sizes=(8,)), env, window)
            if pixels
            else DQNMLP(DQNMLPOptions(hidden_sizes=(8,)), env, window)
        )
        self.agent = DQNAgent(DQNOptions(**options), context, model)
        self.memory = FixedMemory(batch_of())

    def learn(self, step: int | None = None) -> dict[str, float]:
        self.clock.step = self.clock.step + 1 if step is None else step
        return dict(self.agent.learn(self.memory))

    @property
    def online(self) -> dict[str, np.ndarray]:
        return self.agent.weights()

    @property
    def target(self) -> dict[str, np.ndarray]:
        return dict(self.agent.state()["target"])


# The target network.


@pytest.mark.parametrize("stride", [1, 3, 7, 25])
def test_a_hard_target_is_copied_on_crossing_multiples_and_only_then(stride: int):
    lab = Lab(target_model_update=10)
    copied = []
    for step in range(stride, 100, stride):
        before, kept = lab.online, lab.target
        lab.learn(step)
        if not equal_trees(lab.target, kept):
            # the copy is of the weights before the update, exactly
            assert equal_trees(lab.target, before)
            copied.append(step)
        assert not equal_trees(lab.online, before)
    crossing = [s for s in range(stride, 100, stride) if s // 10 != (s - stride) // 10]
    # at the first crossing without an update yet, a copy of what is equal cannot be seen
    assert copied == [s for s in crossing if s > stride]


def test_several_updates_at_one_moment_copy_once():
    lab = Lab(target_model_update=10)
    lab.learn(9)
    lab.learn(10)
    kept = lab.target
    lab.learn(10)
    assert equal_trees(lab.target, kept)


def test_a_target_begins_as_a_copy():
    lab = Lab()
    assert equal_trees(lab.target, lab.online)


@pytest.mark.parametrize("share", [0.005, 0.3])
def test_a_soft_target_moves_its_share_each_update(share: float):
    lab = Lab(target_model_update=share)
    for _ in range(5):
        kept = lab.target
        lab.learn()
        for name, online in lab.online.items():
            expected = (1 - share) * kept[name] + share * online
            assert np.allclose(lab.target[name], expected, rtol=1e-6, atol=1e-8)
            assert not np.array_equal(lab.target[name], kept[name])


def test_learning_leaves_no_gradient_on_the_target():
    lab = Lab()
    lab.learn()
    assert all(p.grad is None and not p.requires_grad for p in lab.agent._target.parameters())


# The loss, against the definition computed from the networks' own values.


def reference_loss(lab: Lab, *, double: bool) -> float:
    batch = {name: torch.from_numpy(array) for name, array in lab.memory.batch.items()}
    with torch.no_grad():
        q_t = lab.agent._target({"obs": batch["next_obs"]}).numpy()
        online_t = lab.agent._online({"obs": batch["next_obs"]}).numpy()
        q_tm1 = lab.agent._online({"obs": batch["obs"]}).numpy()
    rows = np.arange(len(q_t))
    best = (online_t if double else q_t).argmax(axis=1)
    reward, discount = lab.memory.batch["reward"], lab.memory.batch["discount"]
    target = reward + discount * q_t[rows, best]
    error = np.abs(target - q_tm1[rows, lab.memory.batch["action"]])
    return float(np.where(error < 1, error**2 / 2, error - 0.5).mean())


@pytest.mark.parametrize("double", [False, True])
def test_double_selects_with_the_online_network(double: bool):
    lab = Lab(double=double, target_model_update=10_000, lr=0.05)
    for _ in range(30):
        lab.learn()
    expected, other = (reference_loss(lab, double=kind) for kind in (double, not double))
    assert abs(expected - other) > 1e-3, "the two agree here, so this would prove nothing"
    assert lab.learn()["loss"] == pytest.approx(expected, rel=1e-5)


def test_weights_of_the_sample_scale_the_loss():
    plain, halved = Lab(), Lab()
    halved.memory.batch["weight"] *= 0.5
    assert halved.learn()["loss"] == pytest.approx(plain.learn()["loss"] / 2, rel=1e-5)


def test_learning_lowers_the_loss_of_a_fixed_problem():
    lab = Lab(lr=0.01, target_model_update=10_000)
    losses = [lab.learn()["loss"] for _ in range(300)]
    assert losses[-1] < losses[0] / 20
    assert lab.agent.updates == 300
    assert set(lab.memory.asked) == {16}


def test_terminals_are_learnt_as_their_reward():
    lab = Lab(lr=0.02, target_model_update=5)
    lab.memory.batch["discount"][:] = 0.0
    for _ in range(500):
        lab.learn()
    batch = lab.memory.batch
    values = lab.agent._online({"obs": torch.from_numpy(batch["obs"])}).detach().numpy()
    chosen = values[np.arange(16), batch["action"]]
    assert np.abs(chosen - batch["reward"]).max() < 0.1


def test_metrics_are_those_announced():
    lab = Lab()
    assert set(lab.learn()) == {"loss", "q_mean", *lab.agent.metrics}


# Gradients are clipped by their norm.


@pytest.fixture(name="descended")
def _descended(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Norms of the gradients that optimizers took."""
    norms: list[float] = []
    step = Adam.step

    def noted(optimizer: Adam, gradients: list[torch.Tensor]) -> None:
        norms.append(float(torch.cat([one.reshape(-1) for one in gradients]).norm()))
        step(optimizer, gradients)

    monkeypatch.setattr(Adam, "step", noted)
    return norms


@pytest.mark.parametrize("limit", [0.01, 0.1])
def test_clip_grad_bounds_the_norm_of_the_step(descended: list[float], limit: float):
    lab = Lab(clip_grad=limit)
    reported = lab.learn()["grad_norm"]
    assert reported > limit
    assert descended == [pytest.approx(limit, rel=1e-3)]


@pytest.mark.parametrize("limit", [0.0, 1e6])
def test_a_gradient_within_the_limit_is_left_alone_and_0_means_any(
    descended: list[float], limit: float
):
    lab = Lab(clip_grad=limit, loss="mse")
    lab.memory.batch["reward"] *= 100
    reported = lab.learn()["grad_norm"]
    assert reported > 10.0, "the default limit would cut this"
    assert descended == [pytest.approx(reported, rel=1e-4)]


# What is not finite ends the run, with the tensor and the step named.


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("column", ["reward", "obs", "next_obs"])
def test_a_number_that_is_not_finite_in_a_batch_is_named(column: str, wrong: float):
    lab = Lab()
    lab.learn(41)
    kept = lab.online
    lab.memory.batch[column].reshape(-1)[5] = wrong
    with pytest.raises(RunFailedError, match=f"'{column}' of the batch is not finite at step 42"):
        lab.learn(42)
    assert equal_trees(lab.online, kept), "the step must not be taken"
    assert lab.agent.updates == 1


def test_a_weight_that_is_not_finite_is_named():
    lab = Lab()
    with torch.no_grad():
        lab.agent._online.head.advantage.bias[1] = float("nan")
    with pytest.raises(
        RunFailedError, match=r"weight 'head\.advantage\.bias' is not finite at step 7"
    ):
        lab.learn(7)


def test_a_loss_that_overflows_is_named():
    lab = Lab(loss="mse")
    lab.memory.batch["reward"][:] = 3e38
    with pytest.raises(RunFailedError, match="'loss' is not finite at step 3"):
        lab.learn(3)


# State.


@pytest.mark.parametrize("target_model_update", [10, 0.1])
def test_a_loaded_agent_goes_on_bit_for_bit(target_model_update: float):
    first = Lab(seed=1, target_model_update=target_model_update)
    for _ in range(17):
        first.learn()
    state = first.agent.state()
    second = Lab(seed=2, target_model_update=target_model_update)
    assert not equal_trees(second.online, first.online)
    second.clock.step = first.clock.step
    second.agent.load(state)
    assert second.agent.updates == 17
    for _ in range(15):
        assert first.learn() == second.learn()
        assert equal_trees(first.agent.state(), second.agent.state())


def test_a_loaded_agent_still_copies_what_was_due_when_it_was_saved():
    """The clock crossed a multiple after the last update, and before the state was taken."""
    first, second = Lab(1, target_model_update=10), Lab(2, target_model_update=10)
    first.learn(8)
    first.clock.step = second.clock.step = 12
    second.agent.load(first.agent.state())
    before = first.online
    assert first.learn(13) == second.learn(13)
    assert equal_trees(first.target, before) and equal_trees(second.target, before)
    assert first.learn(14) == second.learn(14)
    assert equal_trees(first.agent.state(), second.agent.state())
    assert equal_trees(first.target, before)


def test_a_saved_state_does_not_move_with_the_agent():
    lab = Lab(target_model_update=0.5)
    lab.learn()
    state = lab.agent.state()
    again = lab.agent.state()
    lab.learn()
    assert equal_trees(state, again)
    for part in ("weights", "target", "optimizer"):
        assert not equal_trees(state[part], lab.agent.state()[part]), part


def test_weights_of_another_shape_are_refused():
    lab, other = Lab(), Lab(env=EnvSpec(ENV.observations, DiscreteActions(5)))
    with pytest.raises(RuntimeError, match="size mismatch"):
        lab.agent.load(other.agent.state())


# Acting.


def observe(rng: np.random.Generator, lanes: int) -> dict[str, np.ndarray]:
    return {"obs": rng.normal(size=(lanes, 3)).astype(np.float32)}


def greedy_of(weights: dict[str, np.ndarray], obs: np.ndarray) -> np.ndarray:
    """The greedy actions, in numpy."""
    hidden = np.maximum(obs @ weights["body.0.weight"].T + weights["body.0.bias"], 0)
    out = hidden @ weights["head.advantage.weight"].T + weights["head.advantage.bias"]
    return out.argmax(axis=1)


def test_an_actor_follows_the_live_network_and_one_with_weights_does_not():
    lab = Lab(lr=0.05)
    frozen = lab.online
    live = lab.agent.actor(200, np.random.default_rng(0))
    kept = lab.agent.actor(200, np.random.default_rng(0), weights=frozen)
    obs, first = observe(np.random.default_rng(1), 200), np.ones(200, np.bool_)
    for _ in range(30):
        lab.learn()
    assert np.array_equal(
        live.act(obs, first, 0, explore=False)[0], greedy_of(lab.online, obs["obs"])
    )
    assert np.array_equal(kept.act(obs, first, 0, explore=False)[0], greedy_of(frozen, obs["obs"]))
    assert not np.array_equal(greedy_of(lab.online, obs["obs"]), greedy_of(frozen, obs["obs"]))


def test_an_actor_takes_newer_weights():
    lab = Lab(lr=0.05)
    actor = lab.agent.actor(200, np.random.default_rng(0), weights=lab.online)
    for _ in range(30):
        lab.learn()
    actor.take(lab.online)
    obs = observe(np.random.default_rng(1), 200)
    acted, extras = actor.act(obs, np.ones(200, np.bool_), 0, explore=False)
    assert np.array_equal(acted, greedy_of(lab.online, obs["obs"]))
    assert extras == {} and lab.agent.extras() == {}


def test_exploration_is_whole_before_learning_and_falls_linearly_with_the_clock():
    lab = Lab(eps_start=0.8, eps_end=0.2, eps_decay=1_000)  # learn_start is 100
    share = lab.agent.exploration
    assert [share(step) for step in (0, 50, 99)] == [1.0, 1.0, 1.0]
    steps = (100, 500, 999, 1_000, 50_000)
    expected = [0.8 - 0.6 * min(step / 1_000, 1) for step in steps]
    assert [share(step) for step in steps] == pytest.approx(expected)


@pytest.mark.parametrize(("step", "share"), [(0, 1.0), (500, 0.5), (1_000, 0.0)])
def test_the_share_of_random_actions_is_the_schedules(step: int, share: float):
    lab = Lab(eps_start=1.0, eps_end=0.0, eps_decay=1_000)
    actor = lab.agent.actor(4_000, np.random.default_rng(0))
    obs = observe(np.random.default_rng(1), 4_000)
    actions, _ = actor.act(obs, np.ones(4_000, np.bool_), step, explore=True)
    differs = (actions != greedy_of(lab.online, obs["obs"])).mean()
    assert differs == pytest.approx(share * 3 / 4, abs=0.03)  # one in four random ones is greedy


def test_greedy_acting_draws_nothing():
    lab = Lab()
    rng = np.random.default_rng(0)
    actor = lab.agent.actor(5, rng)
    actor.act(observe(np.random.default_rng(1), 5), np.ones(5, np.bool_), 0, explore=False)
    assert rng.integers(2**40) == np.random.default_rng(0).integers(2**40)


def test_epsilon_greedy_draws_the_same_stream_whatever_epsilon():
    after = []
    for epsilon in (0.0, 0.3, 1.0):
        rng = np.random.default_rng(5)
        for _ in range(10):
            epsilon_greedy(lambda: np.zeros(7, np.int64), 7, DiscreteActions(3), epsilon, rng)
        after.append(rng.integers(2**40))
    assert len(set(after)) == 1


def test_where_all_lanes_explore_the_network_is_not_asked():
    actions = epsilon_greedy(
        lambda: pytest.fail("asked"), 9, DiscreteActions(3), 1.0, np.random.default_rng(0)
    )
    assert actions.shape == (9,) and set(actions) <= {0, 1, 2}


def test_a_larger_epsilon_only_adds_random_actions():
    acted = {}
    for epsilon in (0.2, 0.7):
        rng = np.random.default_rng(5)
        acted[epsilon] = epsilon_greedy(
            lambda: np.full(500, 9), 500, DiscreteActions(9), epsilon, rng
        )
    explored = acted[0.2] != 9
    assert 50 < explored.sum() < 150
    assert np.array_equal(acted[0.7][explored], acted[0.2][explored])


def test_random_actions_are_of_the_space():
    rng = np.random.default_rng(0)
    few = random_actions(DiscreteActions(3), 1_000, rng)
    assert few.dtype == np.int64 and set(few) == {0, 1, 2}
    box = random_actions(ContinuousActions((-2.0, 0.0), (2.0, 9.0)), 1_000, rng)
    assert box.shape == (1_000, 2) and box.dtype == np.float32
    assert box.min() >= -1 and box.max() <= 1 and box.std() > 0.5


def test_actions_are_indices_of_the_space():
    lab = Lab()
    actor = lab.agent.actor(1_000, np.random.default_rng(0))
    obs = observe(np.random.default_rng(1), 1_000)
    actions, _ = actor.act(obs, np.ones(1_000, np.bool_), 0, explore=True)
    assert actions.shape == (1_000,) and actions.dtype == np.int64
    assert set(actions) == {0, 1, 2, 3}


# What the policy saw is what the memory gives.


class Spy:
    """Keeps what a network is shown."""

    def __init__(self, network: Differentiated) -> None:
        self.shown: list[np.ndarray] = []
        self._greedy, network.greedy = network.greedy, self._look

    def _look(self, stacks: dict[str, np.ndarray]) -> np.ndarray:
        self.shown.append(stacks["obs"].copy())
        return self._greedy(stacks)


@pytest.mark.parametrize("observation", ["vector", "pixels"])
def test_the_stacks_acted_on_are_those_the_memory_gives(observation: str):
    model = {"vector": "dqn-mlp", "pixels": "dqn-cnn"}[observation]
    parts = parts_of(
        COUNTER,
        model_type=model,
        observation=observation,
        window_length=3,
        num_envs=2,
        size=12,
        memory_limit=400,
        learn_start=0,
        eps_start=0.0,  # a lane that explores shows the network nothing
        eps_end=0.0,
    )
    spy = Spy(parts.agent._online_values)
    rollout = rollout_of(parts)
    for step in range(60):
        rollout.step(step)
    acted = {stack.tobytes() for shown in spy.shown for stack in shown}
    batch = parts.memory.sample(2_000)
    given = {stack.tobytes() for stack in batch["obs"]}
    # every stack acted on, the first of an episode and the newest included, comes back
    assert given == acted and len(acted) == 120
    ended = batch["discount"] == 0
    followed = {stack.tobytes() for stack in batch[NEXT + "obs"][~ended]}
    assert len(followed) > 50 and len(followed - acted) <= 2  # the open rows are not acted on yet


def rollout_of(parts: Parts) -> Rollout:
    actor = parts.agent.actor(parts.env.lanes, parts.seeds.generator("explore"))
    rollout = Rollout(parts.env, actor, parts.memory.writer())
    rollout.begin(parts.seeds.integers("env", parts.env.lanes))
    return rollout


def test_a_batch_shares_its_memory_with_the_tensors_of_it():
    batch = batch_of()
    tensors = to_tensors(batch, torch.device("cpu"))
    assert tensors["obs"].data_ptr() == batch["obs"].ctypes.data


def test_rewards_are_clipped_for_the_learner_alone():
    plain, clipped, small = Lab(), Lab(clip_reward=1.0), Lab()
    for lab in (plain, clipped):
        lab.memory.batch["reward"] *= 10
    small.memory.batch["reward"] = np.clip(plain.memory.batch["reward"], -1, 1)
    loss = clipped.learn()["loss"]
    assert small.learn()["loss"] == loss < plain.learn()["loss"] / 2
    assert np.abs(clipped.memory.batch["reward"]).max() > 5
