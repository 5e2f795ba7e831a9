import numpy as np
import pytest

from agents.empty import EmptyAgent
from agents.options.empty import EmptyOptions
from core.agent import AgentContext
from core.options import SharedOptions
from core.schedules import Clock
from core.seeding import SeedTree
from core.types import ActionSpace, ArraySpec, ContinuousActions, DiscreteActions, EnvSpec
from tests.harness import EMPTY, Run


def agent_of(actions: ActionSpace) -> EmptyAgent:
    env = EnvSpec({"obs": ArraySpec((2,), np.dtype(np.float32))}, actions)
    return EmptyAgent(
        EmptyOptions(), AgentContext(env, SharedOptions(), SeedTree(1), Clock()), None
    )


@pytest.mark.parametrize(
    "actions", [DiscreteActions(5), ContinuousActions((-2.0,), (3.0,))], ids=["few", "box"]
)
def test_it_acts_at_random_whatever_it_sees(actions: ActionSpace):
    actor = agent_of(actions).actor(400, np.random.default_rng(0), weights={})
    first = np.ones(400, np.bool_)
    acted, extras = actor.act({"obs": np.zeros((400, 2), np.float32)}, first, 0, explore=False)
    actor.take({})
    again, _ = actor.act({"obs": np.zeros((400, 2), np.float32)}, ~first, 0, explore=True)
    assert acted.shape == (400, *actions.spec.shape) and extras == {}
    assert not np.array_equal(acted, again)
    low, high = (0, 4) if isinstance(actions, DiscreteActions) else (-1, 1)
    assert acted.min() >= low and acted.max() <= high
    assert acted.std() > (high - low) / 5


def test_the_same_generator_gives_the_same_actions():
    acted = []
    for seed in (3, 3, 4):
        actor = agent_of(DiscreteActions(5)).actor(50, np.random.default_rng(seed))
        acted.append(actor.act({}, np.ones(50, np.bool_), 0, explore=True)[0])
    assert np.array_equal(acted[0], acted[1]) and not np.array_equal(acted[0], acted[2])


def test_it_counts_the_updates_it_does_not_make():
    agent = agent_of(DiscreteActions(2))
    assert agent.learn(None) == {}
    other = agent_of(DiscreteActions(2))
    other.load(agent.state())
    assert other.updates == 1 and agent.weights() == {} and agent.exploration(5) == 1.0


def test_a_run_of_it_gives_the_floor_of_a_result(tmp_path):
    run = Run(tmp_path, EMPTY).go()
    assert run.result["status"] == "finished" and run.result["eval_episodes"] == 100
    # a chain of 5: the far end is reached by 4 times right in a row, else 0.1
    assert 0.1 <= run.result["eval_return_mean"] < 0.4
    run.parts.memory.check()
    assert run.rows[-1]["loss"] == "" and int(run.rows[-1]["memory_len"]) > 300
