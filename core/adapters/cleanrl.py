"""CleanRL's scripts: `ReplayBuffer` in place of the one that they import, with the same calls.

Keywords beyond CleanRL's own are those of `keys.KEYS`.
"""

from typing import Any, NamedTuple

from .libraries import library
from .samples import five, tensors
from .spaces import env_of, tell
from .stream import Stream


class Samples(NamedTuple):
    """Tensors of a batch; `dones` is 1 after a termination alone."""

    observations: Any
    actions: Any
    next_observations: Any
    dones: Any
    rewards: Any
    discounts: Any = None


class ReplayBuffer:
    """Each frame stored once; `stream.memory` is the memory within."""

    def __init__(self, buffer_size: int, observation_space: Any, action_space: Any,
                 device: Any = "cpu", n_envs: int = 1, optimize_memory_usage: bool = False,
                 handle_timeout_termination: bool = True, **keys: Any) -> None:  # fmt: skip
        """As CleanRL's; time-outs are told apart, and frames stored once, in any case."""
        self._tensor = library("torch").as_tensor
        self._device, self._n_step = device, keys.get("n_step", 1)
        env = env_of(observation_space, action_space)
        self.stream = Stream(env, buffer_size, n_envs, keys)

    def add(self, obs: Any, next_obs: Any, actions: Any, rewards: Any, terminations: Any,
            infos: Any, truncations: Any = None) -> None:  # fmt: skip
        """One step of all environments.

        What `infos` tells of last observations goes before `next_obs`. A truncation that
        `truncations` does not tell shows in them, or in the step after.
        """
        ends = terminations, False if truncations is None else truncations
        tell(self.stream, (obs, next_obs), actions, rewards, ends, infos=infos)

    def sample(self, batch_size: int) -> Samples:
        """A batch on the device, to be read and not written to."""
        parts = five(self.stream.sample(batch_size), self._n_step)
        return Samples(**tensors(parts, lambda array: self._tensor(array, device=self._device)))
