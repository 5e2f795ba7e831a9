"""Worlds that show pixels as floats, for `--game tests.reports.pixel_worlds:Name-v0`."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from core.envs.options import ToyOptions
from core.envs.toy import Counter

SIDE = 96
CHANNELS = 3


class FloatCounter(gym.Env[Any, Any]):
    """The toy counter in colour, its pixels divided by `scale`; an episode takes 50 steps."""

    def __init__(self, scale: float = 1.0, dtype: Any = np.float64, **_: Any) -> None:
        options = ToyOptions(game="counter", observation="pixels", size=SIDE, episode_length=50)
        self._counter = Counter(options, 0)
        self._scale, self._dtype = scale, dtype
        shape = (SIDE, SIDE, CHANNELS)
        self.observation_space = spaces.Box(0, 255 / scale, shape, dtype)
        self.action_space = self._counter.action_space

    def _paint(self, frame: np.ndarray) -> np.ndarray:
        return np.repeat(frame[..., None], CHANNELS, axis=2).astype(self._dtype) / self._scale

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        frame, infos = self._counter.reset(seed=seed)
        return self._paint(frame), infos

    def step(self, action: Any) -> Any:
        frame, *rest = self._counter.step(action)
        return self._paint(frame), *rest


class FloatCarRacing(gym.ObservationWrapper):
    """CarRacing-v3, whose pixels a careless wrapper made floats."""

    def __init__(self, scale: float = 1.0, **_: Any) -> None:
        super().__init__(gym.make("CarRacing-v3", disable_env_checker=True))
        self._scale = scale
        self.observation_space = spaces.Box(0, 255 / scale, (SIDE, SIDE, CHANNELS), np.float64)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return observation / self._scale


for name, world, scale in (
    ("Whole", FloatCounter, 1.0),
    ("Unit", FloatCounter, 255.0),
    ("WholeCar", FloatCarRacing, 1.0),
    ("UnitCar", FloatCarRacing, 255.0),
):
    gym.register(f"{name}-v0", world, kwargs={"scale": scale})
