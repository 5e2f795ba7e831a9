"""Any registered gymnasium environment."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from typing import Any, Final

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import FlattenObservation, TimeLimit

from ..errors import UsageError
from ..names import did_you_mean
from .display import draw_without_display
from .frames import Frames
from .lanes import Lanes
from .options import NO_LIMIT, GymOptions
from .spaces import needs_flattening
from .vector import GymVector

EXTRAS: Final = {
    "box2d": "-r requirements-box2d.txt",
    "mujoco": '"gymnasium[mujoco]"',
    "toy_text": '"gymnasium[toy-text]"',
}
"""What pip installs, by a part of an environment's entry point."""
QUICKER: Final = {
    "gymnasium.envs.box2d.car_racing:CarRacing": f"{__package__}.car_racing:QuickCarRacing",
}
"""Entry points by which the same can be had in less time."""
ALE: Final = "ale_py.env:AtariEnv"
SKIPS: Final = ("frameskip", "frame_skip")
SKIPPING: Final = frozenset({"AtariPreprocessing", "MaxAndSkipObservation"})
"""Keys of an id, and gymnasium's wrappers, that make a step of several frames."""


def make(options: GymOptions, lanes: int) -> GymVector:
    """See `MakeEnv`."""
    draw_without_display()
    spec, notes = _probe(options)
    about = options.about(notes) if options.prepared else ""
    return vectorize([partial(_one, options, spec)] * lanes, options.game, about)


def _one(options: GymOptions, spec: EnvSpec | None) -> gym.Env[Any, Any]:
    game: str | EnvSpec = options.game
    arguments: dict[str, Any] = _actions(options)
    if options.time_limit:
        arguments["max_episode_steps"] = -1
    if spec is not None and spec.entry_point in QUICKER and not spec.additional_wrappers:
        game = replace(spec, entry_point=QUICKER[str(spec.entry_point)])
    env = gym.make(game, disable_env_checker=True, **_no_window(spec), **arguments)
    if options.prepared.keys() - {"actions"}:
        env = Frames(env, options)
    has_limit = spec is not None and spec.max_episode_steps
    env = limit(env, options.time_limit or (0 if has_limit else NO_LIMIT))
    return FlattenObservation(env) if needs_flattening(env.observation_space) else env


def vectorize(
    makers: list[Callable[[], gym.Env[Any, Any]]], game: str, about: str = ""
) -> GymVector:
    """Steps environments one after the other, resetting each as its episode ends."""
    envs = Lanes(makers)
    try:
        return GymVector(envs, about)
    except UsageError as error:
        envs.close()
        raise UsageError(f"'{game}' cannot be used: {error}") from None


def limit(env: gym.Env[Any, Any], steps: int) -> gym.Env[Any, Any]:
    """The environment cut after `steps` steps an episode; 0 leaves it as it is."""
    return TimeLimit(env, steps) if steps else env


def _actions(options: GymOptions) -> dict[str, bool]:
    own = options.actions == "own"
    return {} if own else {"continuous": options.actions == "continuous"}


def _no_window(spec: EnvSpec | None) -> dict[str, Any]:
    shows = spec is not None and spec.kwargs.get("render_mode") == "human"
    return {"render_mode": None} if shows else {}


def _probe(options: GymOptions) -> tuple[EnvSpec | None, dict[str, str]]:
    """Refuses what cannot be made, and what does not speak gymnasium's five values.

    Gives what is registered of it, and what is to be said of the keys.
    """
    game = options.game
    env = _make_one(game)
    try:
        begin = env.reset(seed=0)
        if not (isinstance(begin, tuple) and len(begin) == 2 and isinstance(begin[1], dict)):
            raise UsageError(_old_api(game, "reset gives no (observation, info)"))
        step = env.step(env.action_space.sample())
        if not (isinstance(step, tuple) and len(step) == 5):
            raise UsageError(_old_api(game, f"step gives {len(step)} values, not 5"))
        if _actions(options) and "continuous" not in signature(type(env)).parameters:
            raise UsageError(f"'{game}' has one kind of actions alone: leave out actions")
        # of its own an environment has one without limit and wrappers
        spec = gym.registry.get(env.spec.id) if env.spec else None
        return spec, _notes(options, spec, getattr(env, "frame_skip", 1))
    finally:
        env.close()


def _notes(options: GymOptions, spec: EnvSpec | None, inner: int) -> dict[str, str]:
    """What an environment has of its own; raises UsageError where its id skips frames already.

    `inner` are the steps of a simulation in one of its frames, as MuJoCo's have it.
    """
    notes = {}
    if not options.time_limit:
        own = spec.max_episode_steps if spec is not None else None
        notes["time_limit"] = f"its own {own:,} frames" if own else f"{NO_LIMIT:,}, without its own"
    if options.frame_skip == 1:
        return notes
    if (skip := _skip_of_id(spec)) is not None:
        raise UsageError(
            f"'{options.game}' skips frames itself ({skip}), and frame_skip {options.frame_skip} "
            "would skip them again; set --frame_skip 1"
        )
    if inner != 1:
        notes["frame_skip"] = f"each of {inner} steps of its simulation"
    return notes


def _skip_of_id(spec: EnvSpec | None) -> str | None:
    """What an id says of frames that it skips, if it does."""
    if spec is None:
        return None
    keys = (f"{key} {spec.kwargs[key]}" for key in SKIPS if spec.kwargs.get(key, 1) != 1)
    wrappers = (one.name for one in spec.additional_wrappers if one.name in SKIPPING)
    return next(keys, None) or next(wrappers, None)


def _make_one(game: str) -> gym.Env[Any, Any]:
    if game.startswith(":"):
        raise UsageError(f"'{game}' names no module before its colon")
    if _is_atari(game):
        raise UsageError(f"'{game}' is a game of Atari: set --env_type atari")
    try:
        module, _, name = game.rpartition(":")
        if module:
            import_module(module)
        spec = gym.registry.get(name)
        return gym.make(game, disable_env_checker=True, **_no_window(spec)).unwrapped
    except gym.error.DependencyNotInstalled:
        raise UsageError(f"'{game}' needs a package: {_install(game)}") from None
    except gym.error.NamespaceNotFound:
        raise UsageError(_unknown(game)) from None
    except (gym.error.UnregisteredEnv, gym.error.Error):
        raise UsageError(_unknown(game)) from None
    except ModuleNotFoundError as error:
        missing = error.name or game.partition(":")[0]  # gymnasium's own error has no name
        raise UsageError(f"'{game}' needs the module '{missing}', which is missing") from None


def _is_atari(game: str) -> bool:
    """Whether an id is one of ale-py's, which may be installed or not."""
    if game.startswith("ALE/") or "NoFrameskip-v" in game:
        return True
    if game not in gym.registry and ":" not in game and find_spec("ale_py"):
        import_module("ale_py")  # which registers them
    spec = gym.registry.get(game)
    return spec is not None and spec.entry_point == ALE


def _unknown(game: str) -> str:
    namespace = game.partition("/")[0]
    if namespace in EXTRAS:
        return f"'{game}' needs a package: {_install(game)}"
    return f"gymnasium knows no game '{game}'{did_you_mean(game, _close(game))}"


def _close(game: str) -> list[str]:
    """Registered names to choose the nearest from: those of the same name first, else all."""
    stem = game.rpartition("-v")[0] or game
    same = [name for name in gym.registry if name.rpartition("-v")[0] == stem]
    return same or list(gym.registry)


def _install(game: str) -> str:
    spec = gym.registry.get(game)
    entry = str(spec.entry_point) if spec is not None else game
    packages = (install for part, install in EXTRAS.items() if part in entry)
    return "pip install " + next(packages, '"gymnasium[other]"')


def _old_api(game: str, what: str) -> str:
    return f"'{game}' speaks the old gym interface: its {what}; port it to gymnasium.Env"
