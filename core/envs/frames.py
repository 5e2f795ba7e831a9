"""Env steps of several frames, and the pictures of any environment made ready."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ..errors import UsageError
from ..types import Array, Tree, image_layout
from .options import GymOptions
from .preprocess import Observed, Screen, ready
from .snapshots import check_options, options_of

Reset = tuple[Any, dict[str, Any]]
Result = tuple[Any, float, bool, bool, dict[str, Any]]


@runtime_checkable
class Drawn(Protocol):
    """A world that takes longer to draw than to move, and need not draw every frame."""

    drawing: bool
    """Whether the frames to come are drawn; of one that is not, the observation is None."""

    def draw(self) -> Any:
        """The observation of the newest frame, had it been drawn at once."""


class Frames(gym.Wrapper[Any, Any, Any, Any]):
    """Whole env steps of `frame_skip` frames of one action; of pictures, what the options say.

    An episode that ends within a step ends the step, and its last frame is then seen unpooled.
    Raises UsageError where the options do not fit the environment.
    """

    def __init__(self, env: gym.Env[Any, Any], options: GymOptions) -> None:
        super().__init__(env)
        self._options = options
        self._idle = _idle_action(env.action_space) if options.noop_max else None
        self._observed = _observed(env.observation_space, options) if options.pictured else None
        self._screen: Screen | None = None
        if self._observed is not None:
            self._screen = Screen(self._observed, options.resize, pooled=options.max_pool)
            self.observation_space = spaces.Box(0, 255, self._screen.shape, np.uint8)
        self._depth = self._screen.depth if self._screen else 1
        world = env.unwrapped
        self._world = world if isinstance(world, Drawn) else None
        self._newest: Any = None
        if frequency := env.metadata.get("render_fps"):
            self.metadata = {**env.metadata, "render_fps": frequency / options.frame_skip}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Begins an episode; what idle frames earn belongs to no step, and is not counted."""
        most = self._options.noop_max
        self._draws(not most)
        obs, infos = self.env.reset(seed=seed, options=options)
        for last in _until_last(int(self.np_random.integers(1, most + 1)) if most else 0):
            self._draws(last)
            obs, _, terminated, truncated, infos = self.env.step(self._idle)
            if terminated or truncated:
                obs, infos = self.env.reset(options=options)
        self._forget()
        self._see(obs)
        return self._observation(), infos

    def step(self, action: Any) -> Result:
        """The frames of a step: the sum of their rewards, and the last one's infos."""
        total, frames = 0.0, self._options.frame_skip
        if frames > self._depth:
            self._forget()  # frames that nobody sees come between those and these
        for left in reversed(range(frames)):
            seen = left < self._depth
            self._draws(seen)
            obs, reward, terminated, truncated, infos = self.env.step(action)
            total += float(reward)
            over = terminated or truncated
            if over or seen:
                self._see(obs if seen or self._world is None else self._world.draw())
            if over:
                break
        return self._observation(), total, terminated, truncated, infos

    def snapshot(self) -> Tree:
        """See `Snapshots.snapshot`."""
        screen = self._screen.snapshot() if self._screen else None
        return {"options": options_of(self._options), "screen": screen}

    def restore(self, snapshot: Tree) -> None:
        """See `Snapshots.restore`."""
        check_options(self._options, snapshot)
        if self._screen:
            self._screen.restore(snapshot["screen"])

    def _draws(self, drawing: bool) -> None:
        if self._world is not None:
            self._world.drawing = drawing

    def _see(self, obs: Any) -> None:
        self._newest = obs
        if self._observed is not None and self._screen is not None:
            self._observed.newest = obs
            self._screen.draw()

    def _forget(self) -> None:
        if self._screen is not None:
            self._screen.forget()

    def _observation(self) -> Any:
        return self._newest if self._screen is None else self._screen.observation()


def _until_last(count: int) -> Iterator[bool]:
    """So many values, the last of which alone is True."""
    return (left == 0 for left in reversed(range(count)))


def _idle_action(space: gym.Space[Any]) -> Any:
    """The action that does nothing, as far as a space tells."""
    if isinstance(space, spaces.Discrete):
        return space.start
    if isinstance(space, spaces.Box):
        still: Array = np.zeros(space.shape, space.dtype)
        if space.contains(still):
            return still
    raise UsageError(f"noop_max needs an idle action, and none of {space} is one: set it to 0")


def _observed(space: gym.Space[Any], options: GymOptions) -> Observed:
    """What the options make of a picture; raises UsageError for what is none, or too small."""
    keys = ", ".join(options.pictured)
    if not isinstance(space, spaces.Box) or not _is_picture(space.shape):
        raise UsageError(f"{keys}: for one picture [H, W] or [H, W, C], and it observes {space}")
    if space.dtype != np.uint8:
        raise UsageError(
            f"{keys}: for pixels of uint8, and it observes {space.dtype} from {space.low.min():g} "
            f"to {space.high.max():g}; cast them to uint8 in the environment"
        )
    if options.greyscale != "off" and space.shape[2:] != (3,):
        raise UsageError(f"greyscale: for pictures [H, W, 3], and its are {list(space.shape)}")
    if options.resize and space.shape[2:] > (4,):
        raise UsageError(f"resize: for up to 4 planes, and it observes {list(space.shape)}")
    if options.greyscale != "off" or options.resize:
        ready()
    observed = Observed(space.shape, options.greyscale, options.crop)
    if min(observed.shape[:2]) < 1:
        raise UsageError(f"crop {list(options.crop)} leaves nothing of {list(space.shape)}")
    return observed


def _is_picture(shape: tuple[int, ...]) -> bool:
    return len(shape) == 2 or (len(shape) == 3 and image_layout(shape) == "HWC")
