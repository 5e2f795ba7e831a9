"""DQN of Stable-Baselines3 on a game; with `peer` "sbx", that of SBX."""

from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from pace import EnoughError, Pace, Race, report, settings, watch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn


class Told(BaseCallback):
    """Tells the pace of each step, and a race of each episode."""

    def __init__(self, pace: Pace | Race) -> None:
        super().__init__()
        self._pace = pace

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if isinstance(self._pace, Race) and "episode" in info:
                self._pace.ended(info["episode"]["r"])
        self._pace.at(self.num_timesteps, getattr(self.model, "_n_updates", 0))
        return True


class Small(BaseFeaturesExtractor):
    """The one convolution of Young and Tian (2019)."""

    def __init__(self, space: gym.spaces.Box) -> None:
        super().__init__(space, 16 * 8 * 8)
        self._layers = nn.Sequential(nn.Conv2d(space.shape[0], 16, 3), nn.ReLU(), nn.Flatten())

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Features `[B, F]`."""
        return self._layers(observations.float())


class ChannelsFirst(gym.ObservationWrapper):
    """MinAtar's planes, bytes, channels first."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        shape = env.observation_space.shape
        self.observation_space = gym.spaces.Box(0, 1, (shape[2], *shape[:2]), np.uint8)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """One observation."""
        return np.moveaxis(observation, -1, 0).astype(np.uint8)


def make(game: str) -> Any:
    """The environment, wrapped as the library's own recipes do."""
    if game.startswith("ALE/"):
        import ale_py
        from stable_baselines3.common.env_util import make_atari_env
        from stable_baselines3.common.vec_env import VecFrameStack

        gym.register_envs(ale_py)
        return VecFrameStack(make_atari_env("PongNoFrameskip-v4", n_envs=1, seed=1), 4)
    if game == "breakout":
        from minatar.gym import register_envs

        register_envs()
        return ChannelsFirst(gym.make("MinAtar/Breakout-v0"))
    return gym.make(game)


def main() -> None:
    """Trains for as long as is measured."""
    given = settings()
    torch.set_num_threads(1)
    peer = given.get("peer", "sb3")
    if peer == "sbx":
        from sbx import DQN
    else:
        from stable_baselines3 import DQN
    pixels = given["game"].startswith("ALE/")
    policy: dict[str, Any] = {} if pixels else {"net_arch": list(given["hidden_sizes"])}
    if given["game"] == "breakout":
        policy["features_extractor_class"] = Small
    own = {} if peer == "sbx" else {"device": "cpu"}
    pace = watch(given)
    total = given["end"] + given["train_interval"] + 1
    model = DQN(
        "CnnPolicy" if pixels else "MlpPolicy",
        make(given["game"]),
        learning_rate=given["lr"],
        buffer_size=given["memory_limit"],
        learning_starts=given["learn_start"],
        batch_size=given["batch_size"],
        train_freq=given["train_interval"],
        gradient_steps=given["updates"],
        target_update_interval=given["target_model_update"],
        exploration_fraction=given["eps_decay"] / total,
        exploration_final_eps=given["eps_end"],
        gamma=0.99,
        policy_kwargs=policy,
        seed=given["seed"],
        **own,
    )
    with suppress(EnoughError):
        model.learn(total, callback=Told(pace))
    package = "sbx-rl" if peer == "sbx" else "stable_baselines3"
    report(peer, package, torch.get_num_threads(), pace)


if __name__ == "__main__":
    main()
