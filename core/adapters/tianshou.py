"""Tianshou: `EngramReplayBuffer` for its collectors and off-policy algorithms.

An index is a slot of the memory's ring. Keywords beyond the spaces are those of `keys.KEYS`;
n-step returns are summed by Tianshou, and of its info and policy entries nothing is kept.
"""

from typing import Any

import numpy as np

from ..types import NEXT, OBS
from .libraries import library, on_demand
from .slots import Slots
from .spaces import env_of, tell
from .stream import ENDS, Stream


class _Buffer(Slots):
    """Tianshou's VectorReplayBuffer, each frame stored once; `stream.memory` is the memory."""

    def __init__(self, total_size: int, buffer_num: int, observation_space: Any,
                 action_space: Any, **keys: Any) -> None:  # fmt: skip
        # where the base looks for whatever is not there
        self._meta = library("tianshou.data").Batch()
        self._made_of = env_of(observation_space, action_space), total_size, buffer_num, keys
        self.maxsize, self.buffer_num = total_size, buffer_num
        self.reset()

    def reset(self, keep_statistics: bool = False) -> None:
        self.stream, self._nan = Stream(*self._made_of), False
        self.take_up(self.stream.memory)
        self._returns = np.zeros(self.buffer_num)

    def hasnull(self) -> bool:
        return self._nan

    def add(self, batch: Any, buffer_ids: Any = None) -> tuple[Any, Any, Any, Any]:
        lanes = np.arange(self.buffer_num) if buffer_ids is None else np.asarray(buffer_ids)
        told, ends = (batch.obs, batch.obs_next), (batch.terminated, batch.truncated)
        tell(self.stream, told, batch.act, batch.rew, ends, lanes)
        reward, over = np.reshape(batch.rew, -1), np.reshape(ends[0] | ends[1], -1)
        self._nan |= bool(np.isnan(reward).any())
        slots, steps, first = self.newest(lanes)
        self._returns[lanes] = reward + np.where(steps == 1, 0, self._returns[lanes])
        return slots, self._returns[lanes] * over, steps * over, first

    def sample(self, batch_size: int | None) -> tuple[Any, Any]:
        indices = self.sample_indices(batch_size)
        return self[indices], indices

    def __getitem__(self, index: Any) -> Any:
        slots = self.every_slot()[index] if isinstance(index, slice) else np.asarray(index)
        batch, kind = self.stream.read(*self.rows_of(slots)), library("tianshou.data").Batch
        known = {key: getattr(self, key)[slots] for key in ("rew", "done", *ENDS)}
        told = {"obs": batch[OBS], "obs_next": batch[NEXT + OBS], "act": batch["action"]}
        return kind(**told, **known, info=kind(), policy=kind())


__getattr__ = on_demand(_Buffer, "tianshou.data:ReplayBufferManager")
