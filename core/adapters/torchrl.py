"""TorchRL: `EngramReplayBuffer(size, observation="pixels", actions=6, window_length=4)`.

It takes and gives TensorDicts as TorchRL's collectors and losses do. Keywords beyond its own are
those of `keys.KEYS`.
"""

from typing import Any, Final

import numpy as np

from ..errors import UsageError
from ..types import NEXT, OBS, Array, ArraySpec, ContinuousActions, DiscreteActions, EnvSpec
from .libraries import library
from .stream import Stream

ENDS: Final = ("terminated", "truncated")


class EngramReplayBuffer:
    """Each observation stored once; `stream.memory` is the memory, once something was told."""

    def __init__(self, size: int, *, observation: str = "observation", actions: int | None = None,
                 lanes: int = 1, batch_size: int | None = None, **keys: Any) -> None:  # fmt: skip
        """`actions` is how many there are, as indices or one-hot; None: they are numbers."""
        if keys.get("n_step", 1) != 1:
            raise UsageError("n_step stays 1: TorchRL sums rewards by its MultiStepTransform")
        self._library = library("tensordict", "torchrl")
        self._size, self._keys, self._batch = size, keys, batch_size
        self._name, self._actions, self._lanes = observation, actions, lanes
        self.stream: Stream | None = None

    def __len__(self) -> int:
        return len(self.stream.memory) if self.stream else 0

    def extend(self, data: Any) -> None:
        """Steps `[T]`, or `[L, T]` of L lanes, in the order of time; see `Stream.add`."""
        steps = data.reshape(self._lanes, -1).cpu()
        told = [steps[name].numpy() for name in (self._name, "action")]
        told += [steps["next", name].numpy() for name in (self._name, "reward", *ENDS)]
        stream = self.stream or self._begun(*(part[0, 0] for part in told[:2]))
        for at in range(steps.shape[1]):
            obs, action, after, *rest = (part[:, at] for part in told)
            reward, ended, cut = (part.reshape(-1) for part in rest)
            chosen = action.argmax(-1) if self._one_hot else action
            stream.add({OBS: obs}, {OBS: after}, chosen, reward, ended, cut & ~ended)

    def add(self, step: Any) -> None:
        """One step of each lane: `[]`, or `[L]`."""
        self.extend(step)

    def _begun(self, obs: Array, action: Array) -> Stream:
        self._one_hot, self._kind = self._actions is not None and action.ndim > 0, action.dtype
        bounds = (-1.0,) * action.size, (1.0,) * action.size
        actions = DiscreteActions(self._actions) if self._actions else ContinuousActions(*bounds)
        env = EnvSpec({OBS: ArraySpec(obs.shape, obs.dtype)}, actions)
        self.stream = Stream(env, self._size, self._lanes, self._keys)
        return self.stream

    def sample(self, batch_size: int | None = None) -> Any:
        """A TensorDict `[B]`; what ended by truncation alone is not done in it."""
        size = batch_size or self._batch
        if self.stream is None or size is None:
            raise ValueError("sample after extend, and with a batch_size")
        batch = self.stream.sample(size)
        action, ended = batch["action"], (batch["discount"] == 0)[:, None]
        if self._one_hot:
            action = np.eye(self._actions or 0, dtype=self._kind)[action]
        following = {self._name: batch[NEXT + OBS], "reward": batch["reward"][:, None]}
        following |= {"done": ended, "terminated": ended, "truncated": np.zeros_like(ended)}
        told = {self._name: batch[OBS], "action": action, "next": following}
        return self._library.TensorDict(told, batch_size=[size])
