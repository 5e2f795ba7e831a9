"""Frame stacks: one rule for what the policy sees and for what the memory gives back.

A stack of `window` observations ends with the newest. Before an episode's first observation there
is nothing: the first one is repeated, as gymnasium's FrameStackObservation does by default.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..types import ArraySpec, Columns, Tree


def stack_offsets(age: NDArray[np.int64], window: int) -> NDArray[np.int64]:
    """How far back each frame of a stack lies, oldest first: `[..., W]` from ages `[...]`.

    `age` is an observation's place in its episode, 0 for the first; no offset exceeds it.
    """
    back = np.arange(window - 1, -1, -1, dtype=np.int64)
    return np.minimum(back, np.asarray(age)[..., None])


class FrameStack:
    """The stacks of `lanes` lanes as they are acted on: the actor's own, never the memory's."""

    def __init__(self, specs: Mapping[str, ArraySpec], lanes: int, window: int) -> None:
        self._frames = {
            name: np.zeros((window, lanes, *spec.shape), spec.dtype) for name, spec in specs.items()
        }
        self._lanes = np.arange(lanes)[:, None]
        self._window = window
        self._age = np.full(lanes, -1, np.int64)
        self._newest = -1

    def push(self, obs: Columns, first: NDArray[np.bool_]) -> Columns:
        """Adds one observation a lane, `[L, ...]`, and returns the stacks `[L, W, ...]`.

        `first` marks the lanes whose episode begins with this observation.
        """
        if self._window == 1:  # nothing to look back at, and no time to lose
            return self._push_alone(obs, first)
        self._newest = (self._newest + 1) % self._window
        self._age = np.where(first, 0, self._age + 1)
        slots = (self._newest - stack_offsets(self._age, self._window)) % self._window
        stacks = {}
        for name, frames in self._frames.items():
            frames[self._newest] = obs[name]
            stacks[name] = frames[slots, self._lanes]
        return stacks

    def _push_alone(self, obs: Columns, first: NDArray[np.bool_]) -> Columns:
        self._newest = 0
        self._age += 1
        self._age[first] = 0
        stacks = {}
        for name, frames in self._frames.items():
            frames[0] = obs[name]
            stacks[name] = frames[0][:, None].copy()
        return stacks

    def padding(self, lane: int) -> int:
        """How many frames of a lane's newest stack are its episode's first one, repeated."""
        return max(self._window - 1 - int(self._age[lane]), 0)

    def state(self) -> Tree:
        """Everything that changes, copied."""
        # by place, since a column's name may hold a slash, and a name in a tree may not
        frames = {str(at): frames.copy() for at, frames in enumerate(self._frames.values())}
        return {"frames": frames, "age": self._age.copy(), "newest": self._newest}

    def load(self, state: Tree) -> None:
        """Takes over a saved state."""
        for at, frames in enumerate(self._frames.values()):
            frames[...] = state["frames"][str(at)]
        self._age, self._newest = np.array(state["age"]), state["newest"]
