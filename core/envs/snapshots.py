"""Snapshots of environments: all that decides what comes next, as a tree of arrays and JSON.

A layer of an environment (a wrapper, or the world inside) is known by its exact class in `KNOWN`,
or has methods of its own, as anyone's may (`Snapshots`). One layer that is neither, and there is no
snapshot: none is better than a wrong one.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, NamedTuple, Protocol, TypeGuard, runtime_checkable

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control import (
    AcrobotEnv,
    CartPoleEnv,
    Continuous_MountainCarEnv,
    MountainCarEnv,
    PendulumEnv,
)
from gymnasium.vector import SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import iterate
from gymnasium.wrappers import FlattenObservation, OrderEnforcing, TimeLimit

from ..seeding import generator_state, restore_generator
from ..types import Columns, Tree
from .lanes import Lanes
from .options import EnvOptions
from .spaces import flat_observation


@runtime_checkable
class Snapshots(Protocol):
    """What a gymnasium environment or wrapper offers that can be snapshotted by itself.

    The generator `np_random` of the world inside is kept for it, and put back after its `restore`.
    A subclass that keeps more than its parent has to override both.
    """

    def snapshot(self) -> Tree | None:
        """Its own state; None, or anything that is no tree (see `is_tree`): it has none to give."""

    def restore(self, snapshot: Tree) -> None:
        """Goes on from there. Raises ValueError for a snapshot of another kind."""


class Attributes(NamedTuple):
    """A class whose state lies in some attributes, and which others say what kind it is."""

    state: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()


KNOWN: Final[Mapping[type, Attributes]] = {
    AcrobotEnv: Attributes(("state",)),
    CartPoleEnv: Attributes(("state", "steps_beyond_terminated"), ("_sutton_barto_reward",)),
    Continuous_MountainCarEnv: Attributes(("state",), ("goal_velocity",)),
    MountainCarEnv: Attributes(("state",), ("goal_velocity",)),
    PendulumEnv: Attributes(("state", "last_u"), ("g",)),
    TimeLimit: Attributes(("_elapsed_steps",), ("_max_episode_steps",)),
    OrderEnforcing: Attributes(("_has_reset",)),
    FlattenObservation: Attributes(),
}
"""By the exact class, since a subclass may keep more."""


def take(envs: VectorEnv[Any, Any, Any]) -> dict[str, Any] | None:
    """The state of every lane, and what the vector environment itself keeps; None without."""
    if not _is_known(envs):
        return None
    lanes: dict[str, Tree] = {}
    for index, env in enumerate(envs.envs):
        lane = _take_lane(env)
        if lane is None:
            return None
        lanes[str(index)] = lane
    columns = enumerate(_shown(envs).values())
    return copied(
        {
            "kind": _kind(envs),
            "lanes": lanes,
            "shown": {str(index): column for index, column in columns},
            "autoreset": envs._autoreset_envs,
        }
    )


def put(envs: VectorEnv[Any, Any, Any], snapshot: Tree) -> None:
    """Goes on from what `take` gave, whatever was played before; raises ValueError as `Env` says.

    The kind and the number of lanes are looked at before anything is changed.
    """
    if not _is_known(envs):
        raise ValueError(f"{type(envs).__name__} has no snapshots")
    kind, wanted = _kind(envs), snapshot.get("kind")
    if wanted != kind:
        raise ValueError(f"a snapshot of {wanted} is not one of {kind}")
    snapshot = copied(snapshot)
    for index, env in enumerate(envs.envs):
        _put_lane(env, snapshot["lanes"][str(index)])
    for index, column in enumerate(_shown(envs).values()):
        column[...] = snapshot["shown"][str(index)]
    # a masked reset shows these again for the lanes that go on
    envs._env_obs = deepcopy(list(iterate(envs.observation_space, envs._observations)))
    envs._autoreset_envs = snapshot["autoreset"]


def _is_known(envs: VectorEnv[Any, Any, Any]) -> TypeGuard[SyncVectorEnv]:
    return type(envs) in (SyncVectorEnv, Lanes)


def check_options(options: EnvOptions, snapshot: Tree) -> None:
    """Raises ValueError unless the `options` of a snapshot are these."""
    given, ours = snapshot.get("options"), options_of(options)
    if given != ours:
        raise ValueError(f"a snapshot of a game with {given} is not one with {ours}")


def options_of(options: EnvOptions) -> dict[str, Any]:
    """The options as a snapshot holds them."""
    return {key: plain(value) for key, value in options.model_dump().items()}


def plain(value: Any) -> Any:
    """A value with numpy's numbers as Python's, and tuples as lists, as JSON has them."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def is_tree(tree: Any) -> bool:
    """Whether it comes back from a file as it is: arrays of numbers and JSON values by name."""
    return isinstance(tree, Mapping) and all(
        isinstance(key, str) and key and "/" not in key and (is_tree(value) or _is_leaf(value))
        for key, value in tree.items()
    )


def copied(tree: Tree) -> dict[str, Any]:
    """The tree in dicts of its own, its arrays copied."""
    return {
        key: copied(value) if isinstance(value, Mapping) else deepcopy(value)
        for key, value in tree.items()
    }


def _is_leaf(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    return _is_json(value)


def _is_json(value: Any) -> bool:
    """Exact classes only: a tuple or a number of numpy's would come back as something else."""
    if type(value) is list:
        return all(_is_json(one) for one in value)
    return value is None or type(value) in (bool, int, float, str)


def _kind(envs: SyncVectorEnv) -> dict[str, Any]:
    """What two vector environments share whose snapshots fit each other, as JSON."""
    return {
        "mode": envs.autoreset_mode.value,
        "lanes": [" ".join(_name(layer) for layer in _layers(env)) for env in envs.envs],
        "shown": {
            str(index): f"{name} {column.dtype} {list(column.shape[1:])}"
            for index, (name, column) in enumerate(_shown(envs).items())
        },
    }


def _name(layer: gym.Env[Any, Any]) -> str:
    known = KNOWN.get(type(layer), Attributes())
    said = [f"{name}={getattr(layer, name)}" for name in known.kind]
    if not isinstance(layer, gym.Wrapper) and layer.spec is not None:
        said.insert(0, layer.spec.id)
    return f"{type(layer).__name__}({', '.join(said)})"


def _layers(env: gym.Env[Any, Any]) -> list[gym.Env[Any, Any]]:
    """The wrappers from the outermost on, and the world inside."""
    layers = [env]
    while isinstance(layers[-1], gym.Wrapper):
        layers.append(layers[-1].env)
    return layers


def _shown(envs: SyncVectorEnv) -> Columns:
    """The buffers of the observations that the vector environment gave last."""
    return flat_observation(envs._observations)


def _take_lane(env: gym.Env[Any, Any]) -> Tree | None:
    layers = _layers(env)
    taken = [_take_layer(layer) for layer in layers]
    rng, seed = layers[-1]._np_random, layers[-1]._np_random_seed
    known = rng is None or type(rng.bit_generator) is np.random.PCG64
    if not known or not all(is_tree(one) for one in taken):
        return None
    return {
        "layers": {str(index): one for index, one in enumerate(taken)},
        "generator": None if rng is None else generator_state(rng),
        "seed": plain(seed),
    }


def _take_layer(layer: gym.Env[Any, Any]) -> Tree | None:
    if known := KNOWN.get(type(layer)):
        # some are not there before the first reset
        return {name: plain(getattr(layer, name, None)) for name in known.state}
    return layer.snapshot() if isinstance(layer, Snapshots) else None


def _put_lane(env: gym.Env[Any, Any], lane: Tree) -> None:
    layers = _layers(env)
    for index in reversed(range(len(layers))):  # the world first: it may still refuse
        _put_layer(layers[index], lane["layers"][str(index)])
    world, state = layers[-1], lane["generator"]
    if state is None:
        world._np_random = None
    else:
        if world._np_random is None:
            world._np_random = np.random.Generator(np.random.PCG64(0))
        restore_generator(world._np_random, state)
    world._np_random_seed = lane["seed"]


def _put_layer(layer: gym.Env[Any, Any], state: Tree) -> None:
    if known := KNOWN.get(type(layer)):
        for name in known.state:
            setattr(layer, name, state[name])
    elif isinstance(layer, Snapshots):
        layer.restore(state)
    else:
        raise ValueError(f"{type(layer).__name__} has no snapshots")
