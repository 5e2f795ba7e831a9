"""Rewards are clipped where they are learnt from, and nowhere else."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from agents import returns
from agents.maths.values import clipped
from core.errors import UsageError
from tests.harness import CHAIN, Run, parts_of, settings_of
from utils.assemble import check

REWARDS = (10.0, -30.0, 0.5, 0.0)


class Paying(gym.Env[Any, Any]):
    """Four steps, which pay `REWARDS`."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 4, (1,))
        self.action_space = spaces.Discrete(2)
        self._at = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._at = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self._at += 1
        end = self._at == len(REWARDS)
        return np.full(1, self._at, np.float32), REWARDS[self._at - 1], end, False, {}


@pytest.fixture
def row() -> Any:
    gym.register("Paying-v0", Paying)
    kept = {key: value for key, value in CHAIN.items() if key != "size"}
    yield {**kept, "env_type": "gym", "game": "Paying-v0", "learn_start": 0}
    del gym.registry["Paying-v0"]


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (1.0, [1, -1, 0.5, 0]),
        (20.0, [10, -20, 0.5, 0]),
        (0.25, [0.25, -0.25, 0.25, 0]),
        (0.0, list(REWARDS)),
    ],
)
def test_rewards_are_cut_to_the_bound(bound: float, expected: list[float]) -> None:
    reward = torch.tensor(REWARDS)
    assert clipped(reward, bound).tolist() == expected
    assert reward.tolist() == list(REWARDS)


def learnt_from(monkeypatch: pytest.MonkeyPatch, row: dict[str, Any], **keys: Any) -> tuple:
    """Rewards that the targets are made of, and those of the memory, over a small run."""
    seen: list[float] = []
    real = returns.q_target

    def spy(reward: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        seen.extend(reward.tolist())
        return real(reward, *rest)

    monkeypatch.setattr(returns, "q_target", spy)
    parts = parts_of(row, **keys)
    actor = parts.agent.actor(1, np.random.default_rng(0))
    obs = parts.env.reset([1])
    writer, first = parts.memory.writer(), np.ones(1, np.bool_)
    writer.start(obs)
    for _ in range(40):
        actions, extras = actor.act(obs, first, 0, explore=True)
        step = parts.env.step(actions)
        writer.append(actions, step.reward, step.terminated, step.truncated, step.next_obs, extras)
        if step.started.any():
            writer.start(step.obs)
        obs, first = step.obs, step.started
    for _ in range(20):
        parts.agent.learn(parts.memory)
    stored = parts.memory.sample(200)["reward"]
    parts.env.close()
    return set(seen), set(stored.tolist())


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, set(REWARDS)),
        ({"clip_reward": 1.0}, {1.0, -1.0, 0.5, 0.0}),
        ({"clip_reward": 20.0, "double": True}, {10.0, -20.0, 0.5, 0.0}),
    ],
)
def test_the_learner_sees_clipped_rewards_and_the_memory_raw_ones(
    monkeypatch: pytest.MonkeyPatch, row: dict[str, Any], keys: dict[str, Any], expected: set
) -> None:
    assert learnt_from(monkeypatch, row, **keys) == (expected, set(REWARDS))


def test_scores_are_raw_whatever_is_clipped(tmp_path, row: dict[str, Any]) -> None:
    run = Run(tmp_path, row, clip_reward=1.0, steps=100, eval_freq=50).go()
    scored = {float(line["return_mean"]) for line in run.rows if line["return_mean"]}
    scores = {float(line["eval_return_mean"]) for line in run.rows if line["eval_return_mean"]}
    assert scored == scores == {sum(REWARDS)}
    assert run.result["eval_return_mean"] == sum(REWARDS)


def test_sums_of_rewards_are_not_clipped_but_refused() -> None:
    with pytest.raises(UsageError) as error:
        check(settings_of(CHAIN, clip_reward=1.0, n_step=3))
    assert str(error.value) == (
        "clip_reward 1 clips single rewards, and n_step 3 sums them first; "
        "set --n_step 1 or --clip_reward 0"
    )
    check(settings_of(CHAIN, clip_reward=1.0, n_step=1))
    check(settings_of(CHAIN, clip_reward=0.0, n_step=3))


def test_a_bound_below_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match=r"clip_reward = -1\.0 in row 'row' is not allowed"):
        settings_of(CHAIN, clip_reward=-1.0)
