"""A world of noise, which nothing compresses."""

import gymnasium as gym
import numpy as np


class Noise(gym.Env):
    """Frames of 64 x 64 that nothing foretells; episodes of 50 steps."""

    observation_space = gym.spaces.Box(0, 255, (64, 64), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._left = 50
        return self._frame(), {}

    def step(self, action):
        self._left -= 1
        return self._frame(), 0.0, self._left == 0, False, {}

    def _frame(self) -> np.ndarray:
        return self.np_random.integers(0, 256, (64, 64)).astype(np.uint8)


gym.register("Noise-v0", Noise)
