"""Any registered gymnasium environment."""

from collections.abc import Callable
from typing import Any, Final

import gymnasium as gym
from gymnasium.wrappers import FlattenObservation, TimeLimit

from ..errors import UsageError
from ..names import did_you_mean
from .lanes import Lanes
from .options import GymOptions
from .spaces import needs_flattening
from .vector import GymVector

EXTRAS: Final = {
    "box2d": "-r requirements-box2d.txt",
    "mujoco": '"gymnasium[mujoco]"',
    "toy_text": '"gymnasium[toy-text]"',
}
"""What pip installs, by a part of an environment's entry point."""


def make(options: GymOptions, lanes: int) -> GymVector:
    """See `MakeEnv`."""
    _probe(options.game)

    def one() -> gym.Env[Any, Any]:
        env = gym.make(options.game, disable_env_checker=True, **_limit(options.time_limit))
        return FlattenObservation(env) if needs_flattening(env.observation_space) else env

    return vectorize([one] * lanes, options.game)


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


def _limit(steps: int) -> dict[str, int]:
    return {"max_episode_steps": steps} if steps else {}


def _probe(game: str) -> None:
    """Refuses what cannot be made, and what does not speak gymnasium's five values."""
    env = _make_one(game)
    try:
        begin = env.reset(seed=0)
        if not (isinstance(begin, tuple) and len(begin) == 2 and isinstance(begin[1], dict)):
            raise UsageError(_old_api(game, "reset gives no (observation, info)"))
        step = env.step(env.action_space.sample())
        if not (isinstance(step, tuple) and len(step) == 5):
            raise UsageError(_old_api(game, f"step gives {len(step)} values, not 5"))
    finally:
        env.close()


def _make_one(game: str) -> gym.Env[Any, Any]:
    if game.startswith(":"):
        raise UsageError(f"'{game}' names no module before its colon")
    if game.startswith("ALE/") or "NoFrameskip-v" in game:  # registered by now, or not
        raise UsageError(f"'{game}' is a game of Atari: set --env_type atari")
    try:
        return gym.make(game, disable_env_checker=True).unwrapped
    except gym.error.DependencyNotInstalled:
        raise UsageError(f"'{game}' needs a package: {_install(game)}") from None
    except gym.error.NamespaceNotFound:
        raise UsageError(_unknown(game)) from None
    except (gym.error.UnregisteredEnv, gym.error.Error):
        raise UsageError(_unknown(game)) from None
    except ModuleNotFoundError as error:
        missing = error.name or game.partition(":")[0]  # gymnasium's own error has no name
        raise UsageError(f"'{game}' needs the module '{missing}', which is missing") from None


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
