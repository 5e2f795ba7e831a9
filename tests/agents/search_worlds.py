"""Worlds for agents that search, `--game tests.agents.search_worlds:Name-v0`, and a small run."""

import math
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from core.evaluate import evaluate
from core.rollout import Rollout
from tests.harness import parts_of

ROW: dict[str, Any] = {
    "agent_type": "es",
    "env_type": "gym",
    "game": "tests.agents.search_worlds:Walk-v0",
    "model_type": "es-mlp",
    "memory_type": "episode-parameter",
    "memory_limit": 200,
    "population": 6,
    "batch_size": 1,
    "learn_start": 0,
    "steps": 1_000,
    "visdom": "off",
}
CEM: dict[str, Any] = {"agent_type": "cem", "elite_share": 0.5}


class Walk(gym.Env[Any, Any]):
    """Random sights, an episode of 3 to 8 steps; to act as the sight's sign says pays.

    Everything follows from the seed of its reset, whichever lane it is played in.
    """

    seeds: ClassVar[list[int]] = []
    """Those of every reset by a candidate, in the order they came."""

    def __init__(self, fault: str = "", box: bool = False, **_: Any) -> None:
        self._fault = fault
        self._age = self._length = 0
        self._sight = np.zeros(2, np.float32)
        self.action_space = spaces.Box(-2, 2, (1,), np.float32) if box else spaces.Discrete(2)
        self.observation_space = spaces.Box(-100, 100, (2,), np.float32)

    def _observe(self) -> np.ndarray:
        self._sight = self.np_random.normal([3.0, 0.0], [0.1, 2.0]).astype(np.float32)
        return self._sight

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            Walk.seeds.append(seed)
        self._age, self._length = 0, int(self.np_random.integers(3, 9))
        return self._observe(), {}

    def step(self, action):
        self._age += 1
        right = bool(np.all(action > 0))
        reward = float((self._sight[1] > 0) == right) + 0.1 * float(self._sight[0])
        if self._fault == "nan" and right:
            reward = math.nan
        obs = self._observe()
        if self._fault == "blind" and self._length == 3:
            obs = np.full(2, np.nan, np.float32)
        return obs, reward, self._age == self._length, False, {"age": self._age}

    def snapshot(self):
        return {"age": self._age, "length": self._length, "sight": self._sight}

    def restore(self, snapshot):
        self._age, self._length = snapshot["age"], snapshot["length"]
        self._sight = snapshot["sight"]


class Even(Walk):
    """Pays the same for each episode, exactly."""

    def step(self, action):
        obs, _, over, cut, info = super().step(action)
        return obs, float(over), over, cut, info


gym.register("Walk-v0", Walk)
gym.register("WalkBox-v0", Walk, kwargs={"box": True})
gym.register("WalkEven-v0", Even)
gym.register("WalkNan-v0", Walk, kwargs={"fault": "nan"})
gym.register("WalkBlind-v0", Walk, kwargs={"fault": "blind"})


class Search:
    """A run of an agent that searches, generation by generation; with a past, it goes on."""

    def __init__(
        self,
        row: dict[str, Any] | None = None,
        past: dict[str, Any] | None = None,
        **keys: Any,
    ) -> None:
        self.parts = parts_of({**ROW, **keys} if row is None else row)
        self.agent, self.memory = self.parts.agent, self.parts.memory
        if past is not None:
            self.agent.load(past["agent"])
            self.memory.load(past["memory"])
        self.said: list[str] = []
        self.parts.voice.connect(self.said.append)
        self.actor = self.agent.actor(
            self.parts.env.lanes, self.parts.seeds.generator("explore")
        )  # fmt: skip
        self.rollout = Rollout(self.parts.env, self.actor, self.memory.writer())
        lanes = self.parts.env.lanes
        if past is None:
            self.rollout.begin(self.parts.seeds.integers("env", lanes))
        else:
            self.rollout.resume(past["rollout"], self.parts.seeds.integers("env", lanes, 2))
        self.told: list[dict[str, float]] = []
        self.played = [self.generation]

    @property
    def generation(self) -> Any:
        """The one at play."""
        return self.agent._population.generation

    def step(self) -> None:
        """A step of every lane, and a call of `learn`."""
        self.parts.clock.step += self.rollout.step(self.parts.clock.step)
        if told := dict(self.agent.learn(self.memory)):
            self.told.append(told)
            self.played.append(self.generation)

    def go(self, generations: int) -> "Search":
        """Plays so many generations to their end."""
        last = len(self.told) + generations
        while len(self.told) < last:
            self.step()
        return self

    @property
    def state(self) -> dict[str, Any]:
        return dict(self.agent.state())

    @property
    def mean(self) -> np.ndarray:
        return np.array(self.state["mean"])


def score_of(row: dict[str, Any], steps: int) -> float:
    """The incumbent's mean return over 20 episodes of its own, after so many steps of a row."""
    search = Search(row)
    while search.parts.clock.step < steps:
        search.step()
    env = search.parts.make_eval_env(10)
    actor = search.agent.actor(10, np.random.default_rng(0))
    score = evaluate(env, actor, range(1_000, 1_010), 20, limit=500)
    env.close()
    assert score is not None
    return score.mean
