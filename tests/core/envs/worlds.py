"""Environments of our own making, for the tests of the adapter."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from core.envs.options import ToyOptions
from core.envs.toy import Counter
from core.envs.vector import GymVector

MODES = [AutoresetMode.DISABLED, AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP]


class Scripted(gym.Env[Any, Any]):
    """Gives samples of any space, ends after `length` steps, and keeps the actions it got."""

    def __init__(
        self,
        observation: spaces.Space[Any],
        action: spaces.Space[Any] | None = None,
        *,
        length: int = 3,
    ) -> None:
        self.observation_space = observation
        self.action_space = action or spaces.Discrete(2)
        self.length = length
        self.at = 0
        self.seeds: list[int | None] = []
        self.actions: list[Any] = []
        self.shown: list[Any] = []
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def _show(self) -> Any:
        self.shown.append(self.observation_space.sample())
        return self.shown[-1]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.seeds.append(seed)
        self.at = 0
        return self._show(), {"fresh": 1.0}

    def step(self, action: Any) -> Any:
        self.actions.append(np.array(action))
        self.at += 1
        infos = {
            "at": self.at,
            "half": self.at / 2,
            "even": self.at % 2 == 0,
            "narrow": np.float32(self.at),
            "text": "x",
            "vector": np.zeros(2),
            "nested": {"deep": 1},
        }
        return self._show(), 0.5, self.at == self.length, False, infos


class Reusing(gym.Env[Any, Any]):
    """Counts in one array, which it gives again and again, as simulators written in C do."""

    def __init__(self, length: int) -> None:
        self.observation_space = spaces.Box(0, 99, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._length = length
        self._buffer = np.array([-1, 0], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._buffer += (1, 0)
        self._buffer[1] = 0
        return self._buffer, {}

    def step(self, action: Any) -> Any:
        self._buffer[1] += 1
        return self._buffer, 1.0, self._buffer[1] == self._length, False, {}


def vector(
    *makers: Callable[[], gym.Env[Any, Any]], mode: AutoresetMode = AutoresetMode.DISABLED
) -> GymVector:
    """Those environments as lanes."""
    return GymVector(SyncVectorEnv(list(makers), copy=False, autoreset_mode=mode))


def counter(lane: int, length: int, **options: Any) -> Callable[[], gym.Env[Any, Any]]:
    """A maker of the toy counter whose episodes take `length` steps."""
    chosen = ToyOptions(game="counter", episode_length=length, **options)
    return lambda: Counter(chosen, lane)


def counters(*lengths: int, mode: AutoresetMode, **options: Any) -> GymVector:
    """Counters whose episodes take so many steps, by lane."""
    makers = [counter(lane, length, **options) for lane, length in enumerate(lengths)]
    return vector(*makers, mode=mode)
