"""Environments with a fault, for `--game tests.faults.worlds:Name-v0`."""

import math
import multiprocessing as mp
import os
import signal
import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

WHEN = 150  # of all lanes' environments of the process, each counts its own steps


class Faulty(gym.Env[Any, Any]):
    """Four numbers that drift, a small reward, episodes of 20 steps; `fault` comes at step WHEN."""

    def __init__(self, fault: str = "", when: int = WHEN, **_: Any) -> None:
        if fault == "unbuilt" and mp.parent_process() is not None:
            raise ZeroDivisionError("the world was never made")
        if fault == "slow" and mp.parent_process() is not None:
            time.sleep(3)
        self._fault, self._when = fault, when
        self._steps = self._age = 0
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(-10, 10, (4,), np.float32)

    def _observe(self) -> np.ndarray:
        return self.np_random.normal(size=4).astype(np.float32)

    def _trouble(self) -> None:
        """Faults that come in a collector's process alone, at its step `when`."""
        if self._steps != self._when:
            return
        if self._fault == "late":
            raise ZeroDivisionError("the world fell apart")
        if self._fault == "hang":
            time.sleep(1_000)
        if self._fault == "death":
            os.kill(os.getpid(), signal.SIGKILL)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._age = 0
        return self._observe(), {}

    def step(self, action):
        self._steps += 1
        self._age += 1
        obs, reward = self._observe(), float(action)
        if self._steps == WHEN:
            if self._fault == "reward":
                reward = math.nan
            elif self._fault == "infinity":
                reward = math.inf
            elif self._fault == "observation":
                obs[2] = math.nan
            elif self._fault == "error":
                raise ZeroDivisionError("the world fell apart")
        if mp.parent_process() is not None:
            self._trouble()
        return obs, reward, self._age == 20, False, {"age": self._age}


class FourValues(Faulty):
    """Speaks the interface of gym before 0.26: step gives four values."""

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated or truncated, info


class BareReset(Faulty):
    """Speaks the interface of gym before 0.26: reset gives the observation alone."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class Picture(gym.Env[Any, Any]):
    """Random pictures of a shape, episodes of 9 steps."""

    def __init__(self, shape: tuple[int, ...], dtype: str = "uint8", **_: Any) -> None:
        self._age = 0
        self.action_space = spaces.Discrete(3)
        self.observation_space = spaces.Box(0, 255, shape, np.dtype(dtype))

    def _observe(self) -> np.ndarray:
        space = self.observation_space
        return self.np_random.integers(0, 256, space.shape).astype(space.dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._age = 0
        return self._observe(), {}

    def step(self, action):
        self._age += 1
        return self._observe(), float(action == 1), self._age == 9, False, {}


FAULTS = {
    "NanReward": "reward",
    "InfiniteReward": "infinity",
    "NanObservation": "observation",
    "Raises": "error",
    "Sound": "",
}
PICTURES = {
    "Picture16x16x1": (16, 16, 1),
    "Picture40x40": (40, 40),
    "Picture84x84x3": (84, 84, 3),
    "Picture3x84x84": (3, 84, 84),
    "Picture2x30": (2, 30),
    "Picture10x1x3": (10, 1, 3),
    "Picture2x16x16x3": (2, 16, 16, 3),
}
for name, fault, when in (
    ("RaisesFirst", "late", 1),
    ("RaisesLate", "late", 1_000),
    ("Hangs", "hang", WHEN),
    ("Dies", "death", WHEN),
    ("Unbuilt", "unbuilt", 0),
    ("SlowlyBuilt", "slow", 0),
):
    gym.register(f"{name}-v0", Faulty, kwargs={"fault": fault, "when": when})
for name, fault in FAULTS.items():
    gym.register(f"{name}-v0", Faulty, kwargs={"fault": fault})
gym.register("FourValues-v0", FourValues)
gym.register("BareReset-v0", BareReset)
for name, shape in PICTURES.items():
    gym.register(f"{name}-v0", Picture, kwargs={"shape": shape})
