"""Snapshots: a restored environment goes on as the one that it was taken from."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import FlattenObservation, OrderEnforcing, TimeLimit
from hypothesis import given
from hypothesis import strategies as st

from core.checkpoint import load, save
from core.envs import gym as gym_envs
from core.envs import minatar, toy
from core.envs.base import Step
from core.envs.options import GymOptions, MinAtarOptions, ToyOptions
from core.envs.snapshots import is_tree
from core.envs.vector import GymVector
from core.types import Array, Columns, ContinuousActions, Tree
from tests.conftest import examples
from tests.harness import equal_trees

from .optional import needs
from .worlds import MODES, Scripted, counter, counters, vector

Make = Callable[[int], GymVector]
LANES = [1, 3]
STEPS = 200


def gym_kind(game: str, limit: int = 17) -> Any:
    make = partial(gym_envs.make, GymOptions(game=game, time_limit=limit))
    return pytest.param(make, id=f"{game}-{limit}")


def toy_kind(game: str, **options: Any) -> Any:
    name = "-".join([game, *map(str, options.values())])
    return pytest.param(partial(toy.make, ToyOptions(game=game, **options)), id=name)


def minatar_kind(game: str, limit: int, **options: Any) -> Any:
    make = partial(minatar.make, MinAtarOptions(game=game, time_limit=limit, **options))
    return pytest.param(make, id=f"minatar-{game}-{limit}", marks=needs("minatar"))


KINDS = [
    gym_kind("CartPole-v1", 0),
    gym_kind("CartPole-v1"),
    gym_kind("MountainCar-v0"),
    gym_kind("MountainCarContinuous-v0"),
    gym_kind("Acrobot-v1"),
    gym_kind("Pendulum-v1"),
    toy_kind("counter", ending="truncate"),
    toy_kind("counter", observation="pixels", time_limit=5),
    toy_kind("chain"),
    toy_kind("catch"),
    toy_kind("catch", time_limit=4),
    minatar_kind("asterix", 60),
    minatar_kind("breakout", 0),
    minatar_kind("freeway", 60),
    minatar_kind("seaquest", 90),
    minatar_kind("space_invaders", 60),
]


def numbers(columns: Mapping[str, Array]) -> dict[str, tuple[Any, ...]]:
    """Arrays bit for bit, to compare."""
    return {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in columns.items()}


def told(step: Step) -> list[Any]:
    flags = {
        "reward": step.reward,
        "terminated": step.terminated,
        "truncated": step.truncated,
        "stepped": step.stepped,
        "started": step.started,
    }
    return [numbers(part) for part in (flags, step.next_obs, step.obs, step.infos)]


def actions(env: GymVector, steps: int, seed: int) -> Array:
    """`[steps, L]` indices, or `[steps, L, A]` numbers."""
    rng = np.random.default_rng(seed)
    space = env.spec.actions
    if isinstance(space, ContinuousActions):
        return rng.uniform(-1, 1, (steps, env.lanes, len(space.low))).astype(np.float32)
    return rng.integers(0, space.n, (steps, env.lanes))


def play(env: GymVector, moves: Array) -> tuple[list[Any], int]:
    """What every step told, and how many episodes ended."""
    story, ended = [], 0
    for move in moves:
        step = env.step(move)
        story.append(told(step))
        ended += int(step.ended.sum())
    return story, ended


def started(make: Make, lanes: int, seed: int, before: int) -> GymVector:
    env = make(lanes)
    env.reset([seed + lane for lane in range(lanes)])
    play(env, actions(env, before, seed))
    return env


def filed(snapshot: Tree) -> Tree:
    """The snapshot after a checkpoint."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.safetensors"
        save(path, {"env": snapshot})
        return load(path)["env"]


def taken(env: GymVector) -> Tree:
    snapshot = env.snapshot()
    assert snapshot is not None
    return snapshot


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("make", KINDS)
@examples(3)
@given(
    before=st.integers(0, 60),
    seed=st.integers(0, 2**31 - 10),
    played=st.booleans(),
)
def test_it_goes_on_bit_for_bit(
    make: Make, lanes: int, before: int, seed: int, played: bool
) -> None:
    env = started(make, lanes, seed, before)
    snapshot = filed(taken(env))
    story, ended = play(env, actions(env, STEPS, seed + 1))
    assert ended >= lanes
    twin = started(make, lanes, seed + 5, 23) if played else make(lanes)
    twin.restore(snapshot)
    assert equal_trees(taken(twin), snapshot)
    again, _ = play(twin, actions(env, STEPS, seed + 1))
    assert again == story
    assert equal_trees(taken(twin), taken(env))


@pytest.mark.parametrize("make", KINDS)
def test_taking_one_changes_nothing(make: Make) -> None:
    alone, watched = started(make, 2, 3, 0), started(make, 2, 3, 0)
    for move in actions(alone, 100, 4):
        before = taken(watched)
        assert equal_trees(before, taken(watched))
        assert told(alone.step(move)) == told(watched.step(move))


def attributes(env: gym.Env[Any, Any]) -> list[dict[str, Any]]:
    """All that every layer of an environment keeps, but what draws it, and spaces."""
    left_out = ("env", "action_space", "observation_space", "screen", "clock", "_cached_spec")
    layers = [env]
    while isinstance(layers[-1], gym.Wrapper):
        layers.append(layers[-1].env)
    return [
        {
            name: value.bit_generator.state if isinstance(value, np.random.Generator) else value
            for name, value in vars(layer).items()
            if name not in left_out and not isinstance(value, spaces.Space)
        }
        for layer in layers
    ]


@pytest.mark.parametrize("game", ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "Acrobot-v1"])
def test_no_attribute_is_forgotten(game: str) -> None:
    # such as a count of steps after the end, which no step through the adapter ever reads
    def one() -> gym.Env[Any, Any]:
        return gym.make(game, disable_env_checker=True, max_episode_steps=99)

    env, twin = vector(one, one), vector(one, one)
    env.reset([1, 2])
    play(env, actions(env, 12, 1))
    (first, second), (other, _) = env._envs.envs, twin._envs.envs
    if game == "CartPole-v1":
        while not first.step(1)[2]:
            pass
    twin.restore(filed(taken(env)))
    for mine, its in zip(attributes(first), attributes(other), strict=True):
        assert mine.keys() == its.keys()
        for name in mine:
            np.testing.assert_array_equal(its[name], mine[name], err_msg=name)
    assert second.unwrapped.np_random_seed == 2


def spoil(tree: Tree) -> None:
    """Writes into every array."""
    for value in tree.values():
        if isinstance(value, np.ndarray):
            value[...] = 1
        elif isinstance(value, Mapping):
            spoil(value)


@pytest.mark.parametrize("mode", MODES)
def test_what_is_done_to_a_snapshot_touches_no_environment(mode: AutoresetMode) -> None:
    env, twin = (vector(*[Walk] * 3, mode=mode) for _ in range(2))
    env.reset([1, 2, 3])
    play(env, actions(env, 9, 1))
    snapshot = taken(env)
    twin.restore(snapshot)
    spoil(snapshot)
    assert equal_trees(taken(twin), taken(env))
    assert not equal_trees(taken(env), snapshot)
    assert play(twin, actions(env, 40, 2)) == play(env, actions(env, 40, 2))


@pytest.mark.parametrize("make", KINDS)
def test_a_snapshot_is_arrays_and_json_of_its_own(make: Make) -> None:
    env = started(make, 3, 1, 30)
    snapshot = taken(env)
    assert is_tree(snapshot)
    kept = filed(snapshot)
    assert equal_trees(kept, snapshot)
    play(env, actions(env, 40, 2))  # the snapshot is no view of what plays on
    assert equal_trees(kept, snapshot)
    env.restore(snapshot)
    play(env, actions(env, 40, 2))
    assert equal_trees(kept, snapshot)


@pytest.mark.parametrize("make", KINDS)
def test_one_before_the_first_reset_is_that_of_a_fresh_environment(make: Make) -> None:
    fresh, used = make(2), started(make, 2, 9, 20)
    snapshot = filed(taken(fresh))
    used.restore(snapshot)
    assert equal_trees(taken(used), snapshot)
    assert numbers(used.reset([1, 2])) == numbers(fresh.reset([1, 2]))
    moves = actions(used, 50, 1)
    assert play(used, moves) == play(fresh, moves)


@pytest.mark.parametrize("make", KINDS)
def test_lanes_that_do_not_begin_anew_still_show_what_they_showed(make: Make) -> None:
    env = started(make, 3, 4, 11)
    twin = make(3)
    twin.restore(filed(taken(env)))
    for lanes, seeds in (([0], [5]), ([2, 1], [6, 7])):
        shown = [numbers(one.restart(np.array(lanes), seeds)) for one in (env, twin)]
        assert shown[0] == shown[1]
    assert play(twin, actions(env, 50, 1)) == play(env, actions(env, 50, 1))


@pytest.mark.parametrize("before", range(14))
@pytest.mark.parametrize("mode", MODES)
def test_every_way_to_reset(mode: AutoresetMode, before: int) -> None:
    make = partial(counters, 4, 5, 6, mode=mode)
    env, twin = make(), make()
    env.reset([1, 2, 3])
    play(env, actions(env, before, 1))
    twin.restore(filed(taken(env)))
    moves = actions(env, 30, 2)
    assert play(twin, moves) == play(env, moves)


# What has none.


class More(CartPoleEnv):
    """A subclass may keep more than its parent."""


class Alone(gym.Wrapper[Any, Any, Any, Any]):
    """A wrapper of a stranger."""


def scripted() -> gym.Env[Any, Any]:
    return Scripted(spaces.Box(0, 1, (2,)))


def odd_generator() -> gym.Env[Any, Any]:
    env = CartPoleEnv()
    env.np_random = np.random.Generator(np.random.MT19937(1))
    return env


@pytest.mark.parametrize(
    "one",
    [
        More,
        scripted,
        odd_generator,
        lambda: Alone(CartPoleEnv()),
        lambda: TimeLimit(Alone(OrderEnforcing(CartPoleEnv())), 9),
        lambda: gym.make("CartPole-v1"),  # with its checker
        lambda: gym.make("FrozenLake-v1", disable_env_checker=True).env,
    ],
)
def test_what_nobody_knows_gives_none(one: Callable[[], gym.Env[Any, Any]]) -> None:
    if isinstance(one().observation_space, spaces.Discrete):
        env = vector(lambda: FlattenObservation(one()))
    else:
        env = vector(one)
    assert env.snapshot() is None
    with pytest.raises(ValueError, match=r"is not one of|has no snapshots"):
        env.restore({})
    env.close()


def test_one_lane_without_is_enough() -> None:
    assert vector(CartPoleEnv, CartPoleEnv).snapshot() is not None
    assert vector(CartPoleEnv, More).snapshot() is None
    assert vector(More, CartPoleEnv).snapshot() is None


def test_a_snapshot_made_up_for_an_unknown_world_is_refused() -> None:
    known, unknown = vector(CartPoleEnv), vector(More)
    snapshot = dict(taken(known))
    snapshot["kind"] = {**snapshot["kind"], "lanes": ["More()"]}
    with pytest.raises(ValueError, match="More has no snapshots"):
        unknown.restore(snapshot)


def test_other_vector_environments_give_none() -> None:
    class Ours(SyncVectorEnv):
        """A subclass may keep more."""

    for envs in (Ours([CartPoleEnv]), gym.make_vec("CartPole-v1", 2)):
        env = GymVector(envs)
        assert env.snapshot() is None
        with pytest.raises(ValueError, match="has no snapshots"):
            env.restore(taken(vector(CartPoleEnv)))
        env.close()
    env = GymVector(AsyncVectorEnv([counter(0, 5)]))
    assert env.snapshot() is None
    env.close()


# What does not fit.


def dressed(game: str, **keys: Any) -> GymVector:
    return vector(lambda: gym.make(game, disable_env_checker=True, **keys))


OTHERS: list[Callable[[], GymVector]] = [
    lambda: gym_envs.make(GymOptions(game="CartPole-v1"), 1),
    lambda: gym_envs.make(GymOptions(game="CartPole-v1"), 3),
    lambda: gym_envs.make(GymOptions(game="CartPole-v1", time_limit=9), 1),
    lambda: gym_envs.make(GymOptions(game="CartPole-v0"), 1),
    lambda: gym_envs.make(GymOptions(game="CartPole-v0", time_limit=9), 1),
    lambda: gym_envs.make(GymOptions(game="Acrobot-v1"), 1),
    lambda: dressed("CartPole-v1", sutton_barto_reward=True),
    lambda: gym_envs.make(GymOptions(game="Pendulum-v1"), 1),
    lambda: dressed("Pendulum-v1", g=9.81),
    lambda: dressed("MountainCar-v0", goal_velocity=0),
    lambda: dressed("MountainCar-v0", goal_velocity=0.01),
    lambda: dressed("MountainCarContinuous-v0", goal_velocity=0),
    lambda: dressed("MountainCarContinuous-v0", goal_velocity=0.01),
    lambda: vector(CartPoleEnv),
    lambda: toy.make(ToyOptions(game="chain"), 1),
    lambda: toy.make(ToyOptions(game="chain", size=11), 1),
    lambda: toy.make(ToyOptions(game="counter"), 1),
    lambda: toy.make(ToyOptions(game="counter", episode_length=8), 1),
    lambda: toy.make(ToyOptions(game="counter", time_limit=5), 1),
    lambda: toy.make(ToyOptions(game="counter", time_limit=5, ending="truncate"), 1),
    lambda: toy.make(ToyOptions(game="counter", observation="pixels"), 1),
    lambda: counters(7, mode=AutoresetMode.SAME_STEP),
    lambda: counters(7, mode=AutoresetMode.NEXT_STEP),
]


def test_a_snapshot_of_another_kind_is_refused_and_nothing_changed() -> None:
    envs = [make() for make in OTHERS]
    for index, env in enumerate(envs):
        env.reset(list(range(env.lanes)))
        play(env, actions(env, index % 4, 1))
    before = [taken(env) for env in envs]
    for index, env in enumerate(envs):
        for other, snapshot in enumerate(before):
            if other != index:
                with pytest.raises(ValueError, match="a snapshot of"):
                    env.restore(snapshot)
        assert equal_trees(taken(env), before[index])
        env.restore(filed(before[index]))


@needs("minatar")
def test_a_game_of_minatar_refuses_another_s() -> None:
    chosen = [
        MinAtarOptions(game="breakout"),
        MinAtarOptions(game="freeway"),
        MinAtarOptions(game="breakout", sticky_actions=0.5),
        MinAtarOptions(game="breakout", difficulty_ramping=False),
        MinAtarOptions(game="breakout", full_action_space=False),
    ]
    envs = [minatar.make(options, 1) for options in chosen]
    for index, env in enumerate(envs):
        for other in envs[:index] + envs[index + 1 :]:
            with pytest.raises(ValueError, match="a snapshot of"):
                env.restore(taken(other))
    newer = minatar.MinAtar(chosen[0])
    newer._game.wind = 1
    with pytest.raises(ValueError, match="another version of MinAtar"):
        newer.restore(minatar.MinAtar(chosen[0]).snapshot())


# A stranger's own methods.


class Walk(gym.Env[Any, Any]):
    """Drifts at random, shows the same array again and again, and can be snapshotted."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            {"at": spaces.Box(-99, 99, (2,)), "in": spaces.Dict({"a/b": spaces.MultiBinary(3)})}
        )
        self.action_space = spaces.Discrete(2)
        self._at = np.zeros(2, np.float32)
        self.gives: Callable[[Tree], Any] = dict

    def _show(self) -> dict[str, Any]:
        return {"at": self._at, "in": {"a/b": (self._at[0] > np.arange(3)).astype(np.int8)}}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._at[:] = self.np_random.normal(size=2)
        return self._show(), {}

    def step(self, action: Any) -> Any:
        self._at += self.np_random.normal(size=2).astype(np.float32) + (int(action) - 0.4)
        return self._show(), float(self._at[1]), bool(abs(self._at[0]) > 3), False, {}

    def snapshot(self) -> Tree:
        return self.gives({"at": self._at})

    def restore(self, snapshot: Tree) -> None:
        self.np_random.normal()  # a restore may draw: its generator is put back after it
        self._at = snapshot["at"]


class Tired(gym.Wrapper[Any, Any, Any, Any]):
    """Ends each third episode's steps early, and says how it counts."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._steps = 0

    def step(self, action: Any) -> Any:
        self._steps += 1
        *rest, truncated, infos = self.env.step(action)
        return *rest, truncated or self._steps % 13 == 0, infos

    def snapshot(self) -> Tree:
        return {"steps": self._steps}

    def restore(self, snapshot: Tree) -> None:
        self._steps = snapshot["steps"]


@pytest.mark.parametrize("mode", MODES[::2])  # SAME_STEP keeps the array that a reset overwrites
@pytest.mark.parametrize("before", range(0, 40, 3))
def test_a_stranger_offers_methods(before: int, mode: AutoresetMode) -> None:
    def make(lanes: int) -> GymVector:
        return vector(*[lambda: TimeLimit(Tired(Walk()), 20)] * lanes, mode=mode)

    env, twin = started(make, 3, before, before), started(make, 3, 50, before // 2)
    twin.restore(filed(taken(env)))
    moves = actions(env, 150, before)
    told_first, ended = play(env, moves)
    assert play(twin, moves) == (told_first, ended)
    assert ended > 10
    if mode is AutoresetMode.DISABLED:
        shown: list[Columns] = [one.restart(np.array([1]), [8]) for one in (env, twin)]
        assert numbers(shown[0]) == numbers(shown[1])


def test_a_stranger_of_another_shape_is_refused() -> None:
    class Wide(Walk):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space["wide"] = spaces.Box(0, 1, (4,))

        def _show(self) -> dict[str, Any]:
            return {**super()._show(), "wide": np.zeros(4, np.float32)}

    Wide.__name__ = "Walk"
    walk, wide = vector(Walk), vector(Wide)
    with pytest.raises(ValueError, match="a snapshot of"):
        walk.restore(taken(wide))
    wide.restore(taken(wide))


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"bytes",
        {"": 1},
        {"a/b": 1},
        {1: 1},
        {"a": (1, 2)},
        {"a": np.float64(1)},
        {"a": [np.int64(1)]},
        {"a": np.array([None])},
        {"a": np.array(["x"])},
        {"a": {"b": {1, 2}}},
        {"a": [{"b": 1}]},
    ],
)
def test_an_answer_that_a_file_would_change_is_none(answer: Any) -> None:
    worlds = [Walk(), Walk()]
    env = vector(lambda: worlds[0], lambda: worlds[1])
    env.reset([1, 2])
    assert env.snapshot() is not None
    worlds[1].gives = lambda tree: answer
    assert env.snapshot() is None


def test_an_answer_may_be_any_mapping() -> None:
    world = Walk()
    world.gives = lambda tree: MappingProxyType({**tree, "more": MappingProxyType({})})
    env = vector(lambda: world)
    env.reset([1])
    snapshot = taken(env)
    assert equal_trees(filed(snapshot), snapshot)
    assert json.dumps(snapshot["lanes"]["0"]["generator"])


def test_equal_arrays_are_told_apart_by_the_tests_own_eyes() -> None:
    shown = [numbers({"a": array}) for array in (np.zeros(2), np.array([0.0, -0.0]), np.zeros(1))]
    assert all(one != two for one, two in pairwise(shown))
