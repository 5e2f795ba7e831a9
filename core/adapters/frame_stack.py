"""Stacked observations that share their frames, and stay small whatever is done with them.

LazyFrames of OpenAI Baselines keeps the joined array once anything has looked at it, and so gives
back what it had saved. These join anew each time, into an array that belongs to whoever asked.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box

from ..types import Array


class LazyStack:
    """Frames of one shape, oldest first, as an array `[W, *frame]` that is made when it is read.

    Nothing is copied until then, and nothing kept afterwards. Frames are shared with the stacks
    before and after, and are not to be written to. Pickled together, such stacks share frames too.
    """

    __slots__ = ("_frames",)

    def __init__(self, frames: Sequence[Array]) -> None:
        self._frames = tuple(frames)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a stack of shared frames cannot be an array without a copy")
        return np.stack(self._frames, dtype=dtype, casting="unsafe")

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, index: Any) -> Array:
        """A frame, shared; for another index what the array gives for it."""
        if isinstance(index, int | np.integer):
            return self._frames[index]
        item: Array = np.asarray(self)[index]
        return item

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return (len(self._frames), *self._frames[0].shape)

    @property
    def ndim(self) -> int:
        """Axes of the array."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the array."""
        return self._frames[0].dtype

    def count(self) -> int:
        """Frames in the stack."""
        return len(self._frames)

    def frame(self, index: int) -> Array:
        """One of them, oldest first; not a copy."""
        return self._frames[index]

    def __eq__(self, other: object) -> Any:
        return np.asarray(self) == np.asarray(other)

    __hash__ = None  # type: ignore[assignment]


class FrameStack(gym.Wrapper[Any, Any, Any, Any]):
    """The last `depth` observations of an environment, as a LazyStack.

    The space is that of gymnasium's FrameStackObservation. Before an episode's first observation
    the same one stands again, or with `padding` "zero" zeros.
    """

    def __init__(self, env: gym.Env[Any, Any], depth: int, padding: str = "reset") -> None:
        """Raises ValueError for a space that is no Box, a depth below 1, another padding."""
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, Box) or depth < 1 or padding not in ("reset", "zero"):
            raise ValueError(
                f"FrameStack of {space}, depth {depth}, padding '{padding}': it takes a Box, at "
                "least 1, and 'reset' or 'zero'"
            )
        low, high = (np.repeat(bound[None], depth, axis=0) for bound in (space.low, space.high))
        self.observation_space = Box(low, high, dtype=space.dtype)
        self._zeros = np.zeros(space.shape, space.dtype) if padding == "zero" else None
        self._frames: deque[Array] = deque(maxlen=depth)

    def reset(self, **kwargs: Any) -> tuple[LazyStack, dict[str, Any]]:
        """See `gymnasium.Env.reset`."""
        obs, info = self.env.reset(**kwargs)
        first = np.array(obs)  # some environments write into the same array again
        filling = first if self._zeros is None else self._zeros
        self._frames.extend([filling] * (len(self) - 1))
        self._frames.append(first)
        return LazyStack(self._frames), info

    def __len__(self) -> int:
        return int(self._frames.maxlen or 1)

    def step(self, action: Any) -> tuple[LazyStack, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._frames.append(np.array(obs))
        return LazyStack(self._frames), reward, terminated, truncated, info
