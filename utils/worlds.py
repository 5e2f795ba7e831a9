"""Environments as a person knows them: how they are drawn, and what their actions are called."""

from collections.abc import Callable
from typing import Any, Final

import gymnasium as gym
import numpy as np

from core.envs.atari import Atari
from core.envs.base import Env
from core.envs.lanes import Lanes
from core.envs.minatar import MinAtar
from core.envs.toy import World
from core.envs.vector import GymVector
from core.errors import UsageError
from core.types import Array

from .painting import cells, picture

RGB_ARRAY: Final = "rgb_array"
Painter = Callable[[Any], Array]
"""From the newest observation to the environment's picture, `[H, W, 3]` uint8."""
MINATAR: Final = ("noop", "left", "up", "right", "down", "fire")
NAMES: Final = {
    "CartPole": ("left", "right"),
    "MountainCar": ("left", "coast", "right"),
    "Acrobot": ("-1", "0", "+1"),
    "LunarLander": ("nothing", "left engine", "main engine", "right engine"),
    "CarRacing": ("nothing", "right", "left", "gas", "brake"),
    "catch": ("left", "stay", "right"),
    "chain": ("leave", "right"),
}
"""Actions of a game, by its name without a version, as gymnasium documents them; and of ours."""


def lanes_of(env: Env) -> Lanes | None:
    """The environments of its lanes, where it has them one by one."""
    lanes = env._envs if isinstance(env, GymVector) else None
    return lanes if isinstance(lanes, Lanes) else None


def action_names(env: Env, game: str) -> list[str]:
    """What the actions are called, by index; empty where nobody says."""
    lanes = lanes_of(env)
    world: Any = lanes.envs[0].unwrapped if lanes is not None else None
    if isinstance(world, Atari):
        return [str(name) for name in world._env.get_action_meanings()]
    if isinstance(world, MinAtar):
        return [MINATAR[action] for action in world._actions]
    return list(NAMES.get(game.rpartition(":")[2].partition("-v")[0], ()))


def painter_of(env: gym.Env[Any, Any], game: str) -> Painter:
    """How that environment is drawn: by itself, else by what it observes.

    Raises UsageError where neither shows anything.
    """
    world = env.unwrapped
    if isinstance(world, Atari):
        return lambda _: _checked(world._ale.getScreenRGB(), game)
    if RGB_ARRAY in (env.metadata.get("render_modes") or ()):
        return lambda _: _checked(_rendered(env), game)
    space = env.observation_space
    if isinstance(space, gym.spaces.Box):
        if _shows(space):
            return picture
        if isinstance(world, World):
            return lambda obs: cells(obs, space.low, space.high)
    raise UsageError(
        f"'{game}' cannot be drawn: it has no render mode {RGB_ARRAY}, and observes no picture"
    )


def _rendered(env: gym.Env[Any, Any]) -> Any:
    """What the environment draws of itself.

    It is told to draw for this moment alone, since some do more in a step when they are to draw.
    """
    world: Any = env.unwrapped
    before = world.render_mode
    world.render_mode = RGB_ARRAY
    try:
        return env.render()
    finally:
        world.render_mode = before


def _checked(frame: Any, game: str) -> Array:
    if not (isinstance(frame, np.ndarray) and frame.dtype == np.uint8 and frame.ndim == 3):
        raise UsageError(f"'{game}' cannot be drawn: what it renders is no picture")
    return frame


def _shows(space: gym.spaces.Box) -> bool:
    is_picture = len(space.shape) in (2, 3) and space.dtype in (np.uint8, np.bool_)
    return is_picture and min(sorted(space.shape)[-2:]) > 1
