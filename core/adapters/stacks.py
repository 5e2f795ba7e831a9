"""Observations that arrive stacked: which of their axes holds the frames, and the newest of them.

Frames are stacked in two ways: along an axis of their own, in front (gymnasium's
FrameStackObservation), or one behind the other on the first or the last axis that they have
anyway (Stable-Baselines3's VecFrameStack, with or without VecTransposeImage).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..types import Array, ArraySpec, Columns


@dataclass(frozen=True)
class Stack:
    """A stacked column: `window` frames in an item of `shape`, on its first or its last axis."""

    window: int
    shape: tuple[int, ...]
    last: bool
    frame: tuple[int, ...]
    """Shape of a frame."""

    def split(self, items: Array) -> Array:
        """Items `[N, *shape]` as frames `[N, W, *frame]`, oldest first; nothing is copied."""
        if not self.last:
            return items.reshape(len(items), self.window, *self.frame)
        apart = items.reshape(*items.shape[:-1], self.window, self.frame[-1])
        return np.moveaxis(apart, -2, 1)

    def join(self, frames: Array) -> Array:
        """Frames `[N, W, *frame]` as items `[N, *shape]`."""
        if self.last:
            frames = np.moveaxis(frames, 1, -2)
        return frames.reshape(len(frames), *self.shape)


def find_stack(name: str, spec: ArraySpec, window: int) -> Stack:
    """How a column of that shape is stacked. Raises UsageError where it cannot be.

    A first axis of exactly `window` is one of its own wherever two more axes follow. Else it is
    the first axis that a multiple of `window` lies on if the item is no picture, or a picture whose
    channels come first; and the last one otherwise.
    """
    shape = spec.shape
    if window == 1:
        return Stack(1, shape, last=False, frame=shape)
    ends = [bool(shape) and shape[at] % window == 0 for at in (0, -1)] if shape else [False, False]
    if not any(ends):
        raise UsageError(
            f"'{name}' of shape {list(shape)} holds no {window} frames on its first or last axis; "
            "set window_length to the depth of the stacks, or to 1 for none"
        )
    channels_last = len(shape) == 3 and shape[-1] < min(shape[:2])
    if not ends[0] or (ends[1] and channels_last):
        return Stack(window, shape, last=True, frame=(*shape[:-1], shape[-1] // window))
    own = shape[0] == window and len(shape) > 1
    frame = shape[1:] if own else (shape[0] // window, *shape[1:])
    return Stack(window, shape, last=False, frame=frame)


Stacks = Mapping[str, Stack]
"""Of each column."""


def newest(stacks: Stacks, obs: Columns) -> Columns:
    """The newest frame of each column, `[N, *frame]`."""
    return {name: stack.split(obs[name])[:, -1] for name, stack in stacks.items()}


def bits(items: Array) -> Array:
    """The same items as whole numbers, so that comparing them compares every bit."""
    return items.view(np.dtype(f"u{items.itemsize}"))


def alike(first: Array, second: Array) -> NDArray[np.bool_]:
    """Which of the items `[N, ...]` are the same, bit for bit: `[N]`."""
    same = bits(first) == bits(second)
    items: NDArray[np.bool_] = same.all(axis=tuple(range(1, same.ndim)))
    return items
