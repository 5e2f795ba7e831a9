"""A memory of this package, or one with the same methods, as a subject of the rules."""

from typing import Any, Self

import numpy as np

from .subject import Batch
from .world import Array, Setting, Tick


class MemorySubject:
    """Writes by `writer()` and takes what `sample` gives apart into steps.

    Windows of trajectories are steps of n = 1, of which one each is given, so that a batch has the
    size that was asked for.
    """

    def __init__(self, memory: Any, setting: Setting, again: Any = None) -> None:
        self.memory = memory
        self._writer = memory.writer()
        self._lanes = np.arange(setting.lanes)
        self._again = again
        """Builds an empty memory of the same kind, for `resumed`."""

        self._setting = setting

    def begin(self, obs: Array) -> None:
        """See `Subject.begin`."""
        self._writer.start({"obs": obs})

    def step(self, tick: Tick) -> None:
        """See `Subject.step`."""
        self._writer.append(
            tick.action, tick.reward, tick.terminated, tick.truncated, {"obs": tick.next_obs}
        )
        if tick.over.any():
            self._writer.start({"obs": tick.first[tick.over]}, self._lanes[tick.over])

    def sample(self, count: int) -> Batch:
        """See `Subject.sample`."""
        batch = self.memory.sample(count)
        return batch if "mask" not in batch else _steps(batch)

    def resumed(self) -> Self:
        """See `Subject`."""
        memory = self._again()
        memory.load(_copied(self.memory.state()))
        return type(self)(memory, self._setting, self._again)

    def feedback(self, ids: Array, priorities: Array) -> None:
        """See `Subject`."""
        self.memory.feedback(ids, priorities)


def _steps(batch: Batch) -> Batch:
    """The first step of each window, and its last where that is another."""
    mask = batch["mask"]
    windows, last = np.arange(mask.shape[1]), mask.sum(0) - 1
    at = np.where(windows % 2, last, 0)
    taken = {name: batch[name][at, windows] for name in ("obs", "action", "reward", "discount")}
    return {**taken, "next_obs": batch["obs"][at + 1, windows], "id": batch["id"] + at}


def _copied(tree: Any) -> Any:
    """A tree of state that no later change reaches."""
    if isinstance(tree, dict):
        return {key: _copied(value) for key, value in tree.items()}
    return tree.copy() if isinstance(tree, np.ndarray) else tree
