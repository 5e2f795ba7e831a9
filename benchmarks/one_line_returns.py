"""Returns of Stable-Baselines3's DQN on LunarLander, with its own replay buffer and with ours.

    .bench/venvs/sb3/bin/python -m benchmarks.one_line_returns [--seeds 5] [--steps 100000]

Settings are those of rl-baselines3-zoo; one thread. A line of JSON a run: the mean return and its
deviation over 50 greedy episodes after the last step, of seeds that no training saw.
"""

import argparse
import json
import time
from typing import Any

import gymnasium as gym
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from core.adapters.sb3 import EngramReplayBuffer

GAME = "LunarLander-v3"
BUFFERS = {"theirs": ReplayBuffer, "ours": EngramReplayBuffer}
EPISODES = 50


def run(buffer: str, seed: int, steps: int) -> dict[str, Any]:
    """Trains one, and plays it."""
    begun = time.process_time()
    model = DQN(
        "MlpPolicy", Monitor(gym.make(GAME)), learning_rate=6.3e-4, batch_size=128,
        buffer_size=50_000, learning_starts=0, gamma=0.99, target_update_interval=250,
        train_freq=4, gradient_steps=-1, exploration_fraction=0.12, exploration_final_eps=0.1,
        policy_kwargs={"net_arch": [256, 256]}, replay_buffer_class=BUFFERS[buffer], seed=seed,
        device="cpu",
    )  # fmt: skip
    model.learn(steps)
    seconds = time.process_time() - begun
    fresh = Monitor(gym.make(GAME))
    fresh.reset(seed=10_000 + seed)
    mean, deviation = evaluate_policy(model, fresh, n_eval_episodes=EPISODES, deterministic=True)
    figures = {"mean": round(float(mean), 1), "std": round(float(deviation), 1)}
    return {"buffer": buffer, "seed": seed, **figures, "cpu_seconds": round(seconds)}


def main() -> None:
    """Every seed with both buffers, by turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100_000)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for seed in range(1, given.seeds + 1):
        for buffer in BUFFERS:
            print(json.dumps(run(buffer, seed, given.steps)), flush=True)


if __name__ == "__main__":
    main()
