"""TorchRL: `EngramReplayBuffer(size, observation="pixels", actions=6, window_length=4)`.

It takes and gives TensorDicts as TorchRL's collectors and losses do. Keywords beyond its own are
those of `keys.KEYS`.
"""

from typing import Any

from ..errors import UsageError
from ..types import NEXT, OBS, Array
from .actions import env_like
from .libraries import library
from .samples import outcome
from .stream import ENDS, Stream


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
        names = self._name, "action", *(("next", told) for told in (self._name, "reward", *ENDS))
        obs, action, last, *rest = (steps[name].numpy().swapaxes(0, 1) for name in names)
        stream = self.stream or self._begun(obs[0, 0], action[0, 0])
        reward, ended, cut = (part.reshape(part.shape[:2]) for part in rest)
        actions = self._form.held(action)
        stream.extend({OBS: obs}, {OBS: last}, actions, reward, ended, cut & ~ended)

    def add(self, step: Any) -> None:
        """One step of each lane: `[]`, or `[L]`."""
        self.extend(step)

    def _begun(self, obs: Array, action: Array) -> Stream:
        env, self._form = env_like(obs, action, self._actions)
        self.stream = Stream(env, self._size, self._lanes, self._keys)
        return self.stream

    def sample(self, batch_size: int | None = None) -> Any:
        """A TensorDict `[B]`; what ended by truncation alone is not done in it."""
        size = batch_size or self._batch
        if self.stream is None or size is None:
            raise ValueError("sample after extend, and with a batch_size")
        batch = self.stream.sample(size)
        after = {self._name: batch[NEXT + OBS], **outcome(batch)}
        told = {self._name: batch[OBS], "action": self._form.told(batch["action"]), "next": after}
        return self._library.TensorDict(told, batch_size=[size])
