"""MinAtar (Young and Tian 2019): five Atari games reduced to 10x10 planes.

The package `minatar` is under the GPL and never part of this one: it is used where it is installed.
Its front door imports a plotting library and logs that another is missing, so a game's own module
is loaded from where it lies; stickiness and limits, which stand before that door, are ours.
"""

from functools import cache, partial
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ..types import Array, Tree
from .gym import limit, vectorize
from .options import MinAtarOptions
from .packages import missing
from .snapshots import check_options, options_of, plain
from .vector import GymVector

INSTALL: Final = "pip install --no-deps -r requirements-minatar.txt"
ACTIONS: Final = 6
NOOP: Final = 0
FREEWAY_LIMIT: Final = "its own 2,501 steps"
NO_STATE: Final = frozenset({"channels", "action_map", "ramping", "random"})
"""Attributes of a game that stay, and its generator, which goes another way."""
Reset = tuple[Array, dict[str, Any]]
Result = tuple[Array, float, bool, bool, dict[str, Any]]


class MinAtar(gym.Env[Any, Any]):
    """One game. Observations are planes `[10, 10, C]` of bool, one for each kind of thing."""

    def __init__(self, options: MinAtarOptions) -> None:
        self._game = _game_class(options.game)(ramping=options.difficulty_ramping)
        self._options = options
        self._sticky = options.sticky_actions
        self._last = NOOP
        full = options.full_action_space
        self._actions = list(range(ACTIONS)) if full else self._game.minimal_action_set()
        self.action_space = spaces.Discrete(len(self._actions))
        self.observation_space = spaces.Box(0, 1, tuple(self._game.state_shape()), np.bool_)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Begins an episode; no action of the last one sticks."""
        if seed is not None:
            self._game.random = np.random.RandomState(seed)  # the game draws from it too
        self._game.reset()
        self._last = NOOP
        return self._game.state(), {}

    def step(self, action: int) -> Result:
        """One frame. Freeway's own limit cuts an episode, though the package calls that its end."""
        if not self._game.random.rand() < self._sticky:
            self._last = self._actions[action]
        reward, over = self._game.act(self._last)
        cut = over and getattr(self._game, "terminate_timer", 0) < 0  # freeway alone has a clock
        return self._game.state(), float(reward), over and not cut, cut, {}

    def snapshot(self) -> Tree:
        """See `Snapshots.snapshot`."""
        return {
            "options": options_of(self._options),
            "last": self._last,
            "random": self._game.random.get_state(legacy=False),
            "game": self._state(),
        }

    def restore(self, snapshot: Tree) -> None:
        """See `Snapshots.restore`."""
        check_options(self._options, snapshot)
        if snapshot["game"].keys() != self._state().keys():
            raise ValueError("a snapshot of another version of MinAtar")
        vars(self._game).update(snapshot["game"])
        self._game.random.set_state(snapshot["random"])
        self._last = snapshot["last"]

    def _state(self) -> dict[str, Any]:
        game = vars(self._game).items()
        return {name: plain(value) for name, value in game if name not in NO_STATE}


@cache
def _game_class(game: str) -> Any:
    package = find_spec("minatar")
    if package is None or not package.submodule_search_locations:
        raise missing("minatar", "MinAtar", INSTALL)
    path = Path(package.submodule_search_locations[0]) / "environments" / f"{game}.py"
    loader = SourceFileLoader(f"minatar.environments.{game}", str(path))
    module = ModuleType(loader.name)
    loader.exec_module(module)
    return module.Env


def make(options: MinAtarOptions, lanes: int) -> GymVector:
    """See `MakeEnv`."""
    _game_class(options.game)
    one = partial(_one, options)
    notes = {} if options.time_limit or options.game != "freeway" else {"time_limit": FREEWAY_LIMIT}
    return vectorize([one] * lanes, options.game, f"MinAtar {options.about(notes)}")


def _one(options: MinAtarOptions) -> gym.Env[Any, Any]:
    return limit(MinAtar(options), options.time_limit)
