"""Stable-Baselines3: `replay_buffer_class=EngramReplayBuffer` of its off-policy algorithms.

`replay_buffer_kwargs` are those of `keys.KEYS`; `window_length` is the depth of VecFrameStack.
"""

from typing import Any, cast

import numpy as np

from ..types import Batch
from .libraries import library, on_demand
from .samples import five, tensors
from .spaces import env_of, tell
from .stream import Stream


class _Buffer:
    """Stable-Baselines3's ReplayBuffer, each frame stored once; `stream.memory` is the memory."""

    def __init__(self, buffer_size: int, observation_space: Any, action_space: Any,
                 device: Any = "auto", n_envs: int = 1, optimize_memory_usage: bool = False,
                 handle_timeout_termination: bool = True, **keys: Any) -> None:  # fmt: skip
        base: Any = _library("buffers").BaseBuffer
        base.__init__(self, buffer_size, observation_space, action_space, device, n_envs)
        self.optimize_memory_usage = optimize_memory_usage  # frames are stored once in any case
        self.handle_timeout_termination = handle_timeout_termination
        self._made_of = env_of(observation_space, action_space), buffer_size, n_envs, keys
        self.reset()

    def reset(self) -> None:
        self.stream = Stream(*self._made_of)

    def size(self) -> int:
        return len(self.stream.memory)

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any) -> None:
        timeouts = np.array([info.get("TimeLimit.truncated", False) for info in infos], np.bool_)
        cut = done & timeouts & self.handle_timeout_termination
        tell(self.stream, (obs, next_obs), action, reward, (done & ~cut, cut))

    def sample(self, batch_size: int, env: Any = None) -> Any:
        return self.as_samples(self.stream.sample(batch_size), env)

    def as_samples(self, batch: Batch, env: Any = None) -> Any:
        """A batch as ReplayBufferSamples, or as those of a dict; normalized as `env` says."""
        parts, own = five(batch, self._made_of[3].get("n_step", 1)), cast(Any, self)
        for name in ("observations", "next_observations"):
            parts[name] = own._normalize_obs(parts[name], env)
        parts["rewards"] = own._normalize_reward(parts["rewards"], env)
        of_dict = "Dict" * isinstance(parts["observations"], dict)
        kind = getattr(_library("type_aliases"), f"{of_dict}ReplayBufferSamples")
        return kind(**tensors(parts, lambda array: own.to_torch(array, copy=False)))


def _library(part: str) -> Any:
    return library(f"stable_baselines3.common.{part}")


__getattr__ = on_demand(_Buffer, "stable_baselines3.common.buffers:ReplayBuffer")
