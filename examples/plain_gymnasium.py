"""A gymnasium loop of one's own over a memory: `core` alone, and nothing else of this project."""

import gymnasium as gym
import numpy as np

from core.adapters.spaces import env_of, tell
from core.adapters.stream import Stream


def main(steps: int = 2_000) -> Stream:
    """Plays CartPole at random, and samples what an agent would learn from."""
    env = gym.make("CartPole-v1")
    memory = Stream(env_of(env.observation_space, env.action_space), 100_000, lanes=1, keys={})
    obs, _ = env.reset(seed=1)
    for step in range(steps):
        action = env.action_space.sample()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        tell(memory, (obs, next_obs), action, reward, (terminated, truncated))
        obs = env.reset()[0] if terminated or truncated else next_obs
        if step >= 100:
            batch = memory.sample(32)  # obs next_obs action reward discount weight id
            targets = batch["reward"] + batch["discount"] * np.zeros(32)  # and here one learns
            assert targets.shape == (32,)
    env.close()
    return memory


if __name__ == "__main__":
    print(f"{len(main().memory)} transitions")
