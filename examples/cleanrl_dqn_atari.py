"""DQN on Atari as one plain script, in the manner of CleanRL's.

    python -m examples.cleanrl_dqn_atari --game PongNoFrameskip-v4

In a script of CleanRL's own two lines change: the import of ReplayBuffer, and `window_length=4`
where it is made.
"""

import argparse

import ale_py
import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import AtariPreprocessing, ClipReward, FrameStackObservation
from torch import nn

from core.adapters.cleanrl import ReplayBuffer


def make_env(game: str, seed: int) -> gym.Env:
    """One game: grey frames of 84 by 84, four of them stacked, rewards by their sign."""
    env = AtariPreprocessing(gym.make(game, frameskip=1), grayscale_obs=True)
    env = FrameStackObservation(ClipReward(env, -1, 1), 4)
    env.action_space.seed(seed)
    return env


def network(actions: int) -> nn.Module:
    """The network of Mnih et al. (2015); pixels go in as bytes."""
    return nn.Sequential(
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(),
        nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, actions),
    )  # fmt: skip


def values(net: nn.Module, obs: torch.Tensor) -> torch.Tensor:
    """Values of all actions, `[B, A]`."""
    return net(obs.float() / 255)


def main() -> float:
    """Trains, and gives the last loss."""
    parser = argparse.ArgumentParser(description="DQN on Atari")
    parser.add_argument("--game", default="PongNoFrameskip-v4")
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--buffer_size", type=int, default=1_000_000)
    parser.add_argument("--learning_starts", type=int, default=80_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    gym.register_envs(ale_py)
    np.random.seed(given.seed)
    torch.manual_seed(given.seed)
    envs = SyncVectorEnv(
        [lambda: make_env(given.game, given.seed)], autoreset_mode=AutoresetMode.SAME_STEP
    )
    actions, loss = int(envs.single_action_space.n), torch.zeros(())
    q, target = network(actions), network(actions)
    target.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=1e-4)
    rb = ReplayBuffer(
        given.buffer_size, envs.single_observation_space, envs.single_action_space, "cpu",
        handle_timeout_termination=False, window_length=4,
    )  # fmt: skip
    obs, _ = envs.reset(seed=given.seed)
    for step in range(given.steps):
        epsilon = max(0.01, 1 - 0.99 * step / (0.1 * given.steps))
        chosen = envs.action_space.sample()
        if np.random.random() >= epsilon:
            with torch.no_grad():
                chosen = values(q, torch.as_tensor(obs)).argmax(1).numpy()
        next_obs, rewards, terminations, _, infos = envs.step(chosen)
        rb.add(obs, next_obs, chosen, rewards, terminations, infos)
        obs = next_obs
        if step > given.learning_starts and step % 4 == 0:
            data = rb.sample(32)
            with torch.no_grad():
                best = values(target, data.next_observations).max(1).values
                goal = data.rewards.flatten() + 0.99 * best * (1 - data.dones.flatten())
            old = values(q, data.observations).gather(1, data.actions).flatten()
            loss = nn.functional.mse_loss(old, goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 1_000 == 0:
            target.load_state_dict(q.state_dict())
    envs.close()
    rb.stream.memory.check()
    return float(loss.detach())


if __name__ == "__main__":
    print(f"last loss {main():.4f}")
