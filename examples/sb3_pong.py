"""Stable-Baselines3's DQN on Pong, with a million frames in its replay buffer and little RAM.

    pip install stable-baselines3 ale-py opencv-python-headless
    python -m examples.sb3_pong

Two lines are ours: `replay_buffer_class` and its keywords.
"""

import argparse

import ale_py
import gymnasium as gym
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack

from core.adapters.sb3 import EngramReplayBuffer


def main() -> None:
    """Trains for as many steps as the command line says."""
    parser = argparse.ArgumentParser(description="Stable-Baselines3's DQN on Pong")
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--buffer_size", type=int, default=1_000_000)
    given = parser.parse_args()
    gym.register_envs(ale_py)
    env = VecFrameStack(make_atari_env("PongNoFrameskip-v4", n_envs=1, seed=1), 4)
    model = DQN(
        "CnnPolicy",
        env,
        buffer_size=given.buffer_size,
        replay_buffer_class=EngramReplayBuffer,
        replay_buffer_kwargs={"window_length": 4},
        learning_rate=1e-4,
        learning_starts=min(50_000, given.steps // 2),
        target_update_interval=1_000,
        train_freq=4,
        exploration_fraction=0.1,
        exploration_final_eps=0.01,
        seed=1,
        verbose=1,
    )
    model.learn(given.steps)


if __name__ == "__main__":
    main()
