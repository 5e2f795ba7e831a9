"""The adapter: the same truth in every autoreset mode."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from gymnasium.wrappers import FlattenObservation

from core.envs.gym import make as make_gym
from core.envs.options import GymOptions
from core.envs.spaces import ActionScaler, action_space, needs_flattening, observation_specs
from core.envs.toy import Moment, decode
from core.envs.vector import GymVector
from core.errors import UsageError
from core.types import ArraySpec, ContinuousActions, DiscreteActions

from .worlds import MODES, Reusing, Scripted, counter, counters, vector

LENGTHS = (5, 7, 9)
F32 = np.dtype(np.float32)


def moments(obs: dict[str, np.ndarray]) -> list[Moment]:
    return [decode(one) for one in obs["obs"].copy()]


def walk(env: GymVector, calls: int) -> list[list[tuple]]:
    """Steps an env of counters; gives each lane's true steps, checking each as it comes."""
    at = moments(env.reset([1, 2, 3]))
    assert at == [Moment(lane, 0, 0) for lane in range(env.lanes)]
    stories: list[list[tuple]] = [[] for _ in at]
    for _ in range(calls):
        step = env.step(np.zeros(env.lanes, np.int64))
        reached, then = moments(step.next_obs), moments(step.obs)
        assert (step.ended == step.stepped & (step.terminated | step.truncated)).all()
        for lane, moment in enumerate(at):
            if step.stepped[lane]:
                assert reached[lane] == moment._replace(step=moment.step + 1)
                assert step.reward[lane] == reached[lane].step
                end = bool(step.terminated[lane]), bool(step.truncated[lane])
                assert any(end) == (reached[lane].step == LENGTHS[lane])
                stories[lane].append((reached[lane], step.reward[lane], end))
            else:
                assert step.started[lane]
            if step.started[lane]:
                assert then[lane] == Moment(lane, moment.episode + 1, 0)
            elif not step.ended[lane]:
                assert then[lane] == reached[lane]
            at[lane] = then[lane]
    env.close()
    return stories


@pytest.mark.parametrize("ending", ["terminate", "truncate"])
@pytest.mark.parametrize("observation", ["vector", "pixels"])
@pytest.mark.parametrize("mode", MODES)
def test_every_step_is_true_in_every_mode(
    mode: AutoresetMode, observation: str, ending: str
) -> None:
    env = counters(*LENGTHS, mode=mode, observation=observation, ending=ending)
    stories = walk(env, 60)
    for length, story in zip(LENGTHS, stories, strict=True):
        # a reset that costs a call of its own is one call in length + 1
        idle = 60 // (length + 1) if mode is AutoresetMode.NEXT_STEP else 0
        assert len(story) == 60 - idle
        ends = [end for moment, _, end in story if moment.step == length]
        assert set(ends) == {(ending == "terminate", ending == "truncate")}


def test_the_modes_tell_one_story() -> None:
    stories = [walk(counters(*LENGTHS, mode=mode), 80) for mode in MODES]
    for lane in range(3):
        shortest = min(len(story[lane]) for story in stories)
        assert shortest > 60
        first = stories[0][lane][:shortest]
        assert all(story[lane][:shortest] == first for story in stories[1:])


@pytest.mark.parametrize("mode", MODES)
def test_worker_processes_tell_the_same(mode: AutoresetMode) -> None:
    makers = [counter(lane, length) for lane, length in enumerate(LENGTHS)]
    env = GymVector(AsyncVectorEnv(makers, autoreset_mode=mode))
    assert walk(env, 25) == walk(counters(*LENGTHS, mode=mode), 25)


@pytest.mark.parametrize("mode", [AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP])
def test_an_env_that_reuses_its_array_loses_no_last_observation(mode: AutoresetMode) -> None:
    # SAME_STEP is left out: gymnasium itself keeps the array there that the reset then overwrites
    env = vector(lambda: Reusing(2), lambda: Reusing(3), mode=mode)
    at = env.reset([0, 0])["obs"].copy()
    for _ in range(20):
        step = env.step(np.zeros(2, np.int64))
        moved = step.stepped
        assert np.array_equal(step.next_obs["obs"][moved], at[moved] + np.array([0, 1]))
        assert np.array_equal(step.ended, moved & (step.next_obs["obs"][:, 1] == [2, 3]))
        begun = np.stack([at[:, 0] + 1, np.zeros(2)], 1)
        assert np.array_equal(step.obs["obs"][step.started], begun[step.started])
        at = step.obs["obs"].copy()
    env.close()


@pytest.mark.parametrize("mode", MODES)
def test_a_reset_in_the_middle_begins_anew(mode: AutoresetMode) -> None:
    env = counters(2, 3, mode=mode)
    env.reset([0, 1])
    env.step(np.zeros(2, np.int64))
    assert env.step(np.zeros(2, np.int64)).ended.tolist() == [True, False]
    assert [m.step for m in moments(env.reset([0, 1]))] == [0, 0]
    step = env.step(np.zeros(2, np.int64))
    assert step.stepped.all()
    assert [m.step for m in moments(step.next_obs)] == [1, 1]
    env.close()


@pytest.mark.parametrize("mode", MODES)
def test_each_lane_is_seeded_by_its_own_number(mode: AutoresetMode) -> None:
    space = spaces.Box(0, 1, (2,))
    worlds = [Scripted(space), Scripted(space)]
    env = vector(lambda: worlds[0], lambda: worlds[1], mode=mode)
    env.reset([11, 22])
    assert [world.seeds for world in worlds] == [[11], [22]]
    env.close()


def test_lanes_can_be_begun_anew_while_the_others_go_on() -> None:
    worlds = [Scripted(spaces.Box(0, 1, (2,)), length=9) for _ in range(3)]
    env = vector(*[lambda world=world: world for world in worlds])
    env.reset([1, 2, 3])
    env.step(np.zeros(3, np.int64))
    obs = env.restart(np.array([2, 0]), [33, 11])
    assert [world.seeds for world in worlds] == [[1, 11], [2], [3, 33]]
    assert [world.at for world in worlds] == [0, 1, 0]
    for lane, world in enumerate(worlds):
        assert np.array_equal(obs["obs"][lane], world.shown[-1])
    assert env.step(np.zeros(3, np.int64)).stepped.all()
    assert [world.at for world in worlds] == [1, 2, 1]
    env.close()
    assert all(world.closed for world in worlds)


@pytest.mark.parametrize("mode", MODES[1:])
def test_an_env_that_resets_by_itself_cannot_be_begun_anew(mode: AutoresetMode) -> None:
    env = counters(2, 3, mode=mode)
    env.reset([0, 1])
    with pytest.raises(UsageError, match="resets by itself"):
        env.restart(np.array([0]), [5])
    env.close()


@pytest.mark.parametrize("mode", MODES)
def test_numeric_infos_are_the_step_s(mode: AutoresetMode) -> None:
    env = vector(
        lambda: Scripted(spaces.Box(0, 1, (2,)), length=2),
        lambda: Scripted(spaces.Box(0, 1, (2,)), length=3),
        mode=mode,
    )
    env.reset([0, 1])
    seen = []
    for _ in range(3):
        step = env.step(np.zeros(2, np.int64))
        assert set(step.infos) == {"at", "half", "even", "narrow"}
        for name, values in step.infos.items():
            assert values.dtype == np.float64, name
            assert (np.isfinite(values) == step.stepped).all(), name
        assert np.array_equal(step.infos["half"], step.infos["at"] / 2, equal_nan=True)
        assert np.array_equal(step.infos["narrow"], step.infos["at"], equal_nan=True)
        seen.append([None if np.isnan(x) else x for x in step.infos["at"].tolist()])
    third = None if mode is AutoresetMode.NEXT_STEP else 1
    assert seen == [[1, 1], [2, 2], [third, 3]]
    env.close()


def test_where_no_lane_tells_a_number_there_is_none() -> None:
    env = counters(3, 3, mode=AutoresetMode.NEXT_STEP)
    env.reset([0, 1])
    for _ in range(3):
        assert set(env.step(np.zeros(2, np.int64)).infos) == {"step"}
    assert dict(env.step(np.zeros(2, np.int64)).infos) == {}
    env.close()


DICT = spaces.Dict(
    {
        "image": spaces.Box(0, 255, (4, 4), np.uint8),
        "body": spaces.Dict({"arm": spaces.Box(-1, 1, (2,)), "on": spaces.MultiBinary(3)}),
    }
)


@pytest.mark.parametrize("mode", MODES)
def test_dict_observations_become_flat_columns(mode: AutoresetMode) -> None:
    world = Scripted(DICT, length=2)
    env = vector(lambda: world, lambda: Scripted(DICT, length=3), mode=mode)
    assert dict(env.spec.observations) == {
        "obs.image": ArraySpec((4, 4), np.dtype(np.uint8)),
        "obs.body.arm": ArraySpec((2,), F32),
        "obs.body.on": ArraySpec((3,), np.dtype(np.int8)),
    }
    obs = env.reset([5, 6])
    assert set(obs) == set(env.spec.observations)
    shown = 0
    for _ in range(6):
        step = env.step(np.zeros(2, np.int64))
        if step.stepped[0]:
            shown += 1
            true = world.shown[shown]
            assert np.array_equal(step.next_obs["obs.image"][0], true["image"])
            assert np.array_equal(step.next_obs["obs.body.arm"][0], true["body"]["arm"])
        if step.started[0]:
            shown += 1
            assert np.array_equal(step.obs["obs.body.on"][0], world.shown[shown]["body"]["on"])
    env.close()


@pytest.mark.parametrize(
    ("space", "flat"),
    [
        (spaces.Box(0, 1, (3,)), False),
        (spaces.MultiBinary(3), False),
        (DICT, False),
        (spaces.Discrete(4), True),
        (spaces.MultiDiscrete([2, 3]), True),
        (spaces.Tuple([spaces.Box(0, 1, (3,)), spaces.Discrete(2)]), True),
        (spaces.Dict({"a": spaces.Box(0, 1, (3,)), "b": spaces.Discrete(2)}), True),
    ],
)
def test_parts_that_are_no_arrays_are_flattened(space: spaces.Space, flat: bool) -> None:
    assert needs_flattening(space) is flat
    if flat:
        env = FlattenObservation(Scripted(space))
        size = spaces.flatdim(space)
        assert observation_specs(env.observation_space)["obs"].shape == (size,)
        assert env.reset(seed=1)[0].shape == (size,)


def test_a_discrete_observation_is_one_of_n() -> None:
    env = make_gym(GymOptions(game="FrozenLake-v1"), 2)
    assert env.spec.observations["obs"].shape == (16,)
    obs = env.reset([1, 2])["obs"]
    assert obs.tolist() == [[1] + [0] * 15] * 2
    env.close()


@pytest.mark.parametrize(
    "space", [spaces.Sequence(spaces.Box(0, 1, (2,))), spaces.Dict({"a": spaces.Text(3)})]
)
def test_observations_without_a_shape_are_refused(space: spaces.Space) -> None:
    assert needs_flattening(space)
    with pytest.raises(UsageError, match="have no fixed shape"):
        observation_specs(space)


def test_an_env_without_fixed_observations_is_refused_by_name() -> None:
    space = spaces.Sequence(spaces.Box(0, 1, (2,)), stack=False)
    gym.register("Loose-v0", lambda: Scripted(space))
    try:
        with pytest.raises(UsageError, match="'Loose-v0' cannot be used: its observations"):
            make_gym(GymOptions(game="Loose-v0"), 1)
    finally:
        del gym.registry["Loose-v0"]


@pytest.mark.parametrize(
    ("space", "actions"),
    [
        (spaces.Discrete(3), DiscreteActions(3)),
        (spaces.Discrete(4, start=-1), DiscreteActions(4)),
        (spaces.Box(np.array([-2, 0]), np.array([2, 1]), dtype=np.float32),
         ContinuousActions((-2.0, 0.0), (2.0, 1.0))),
    ],
)  # fmt: skip
def test_actions_of_a_space(space: spaces.Space, actions) -> None:
    assert action_space(space) == actions


@pytest.mark.parametrize(
    ("space", "says"),
    [
        (spaces.Box(-np.inf, np.inf, (2,)), "have no bounds; wrap it in RescaleAction"),
        (spaces.Box(0, np.inf, (1,)), "have no bounds"),
        (spaces.Box(0, 1, (2, 2)), "neither Discrete nor a Box of one axis"),
        (spaces.MultiDiscrete([2, 2]), "neither Discrete nor a Box of one axis"),
        (spaces.Dict({"a": spaces.Discrete(2)}), "neither Discrete nor a Box of one axis"),
    ],
)
def test_actions_that_no_agent_takes_are_refused(space: spaces.Space, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        vector(lambda: Scripted(spaces.Box(0, 1, (2,)), space))


def test_continuous_actions_are_scaled_to_the_bounds() -> None:
    space = spaces.Box(np.array([-2, 10]), np.array([2, 20]), dtype=np.float32)
    world = Scripted(spaces.Box(0, 1, (1,)), space, length=99)
    env = vector(lambda: world)
    env.reset([0])
    asked = [(-1, -1), (1, 1), (0, 0), (0.5, -0.5), (-7, 7)]
    for action in asked:
        env.step(np.array([action], np.float32))
    got = [action.tolist() for action in world.actions]
    assert got == [[-2, 10], [2, 20], [0, 15], [1, 12.5], [-2, 20]]
    assert all(action.dtype == np.float32 for action in world.actions)
    env.close()


def test_scaled_actions_never_leave_the_space() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        low = rng.normal(size=3) * 10.0 ** rng.integers(-3, 4)
        space = spaces.Box(
            low.astype(F32), (low + np.abs(rng.normal(size=3))).astype(F32), dtype=np.float32
        )
        scale = ActionScaler(space)
        for action in (np.full(3, -1, F32), np.full(3, 1, F32), rng.uniform(-1, 1, 3).astype(F32)):
            assert space.contains(scale(action))


def test_indices_begin_where_the_space_does() -> None:
    world = Scripted(spaces.Box(0, 1, (1,)), spaces.Discrete(4, start=-1), length=99)
    env = vector(lambda: world)
    env.reset([0])
    for action in range(4):
        env.step(np.array([action]))
    assert [int(action) for action in world.actions] == [-1, 0, 1, 2]
    env.close()
