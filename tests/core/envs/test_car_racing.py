"""CarRacing drawn quickly is CarRacing, bit for bit."""

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import WrapperSpec

from core.envs.frames import Frames
from core.envs.gym import make
from core.envs.options import GymOptions
from core.envs.snapshots import _layers
from core.types import ContinuousActions, DiscreteActions

from .optional import BOX2D

pytestmark = BOX2D
DRIVES = np.array([0, 1, 2, 3, 3, 3, 4])


def pair(**keys: Any) -> tuple[Any, Any]:
    from gymnasium.envs.box2d.car_racing import CarRacing

    from core.envs.car_racing import QuickCarRacing

    return CarRacing(**keys), QuickCarRacing(**keys)


@pytest.mark.parametrize(("seed", "randomize", "frames"), [(0, False, 90), (1, True, 40)])
def test_every_frame_is_gymnasium_s(seed: int, randomize: bool, frames: int) -> None:
    theirs, ours = pair(continuous=False, domain_randomize=randomize)
    rng = np.random.default_rng(seed)
    assert np.array_equal(theirs.reset(seed=seed)[0], ours.reset(seed=seed)[0])
    for at in range(frames):
        action = int(rng.choice(DRIVES))
        one, two = theirs.step(action), ours.step(action)
        assert np.array_equal(one[0], two[0]), at
        assert one[1:] == two[1:]
    assert two[0].std() > 10
    theirs.reset(seed=seed + 1)
    assert not np.array_equal(ours.reset(seed=seed + 1)[0], one[0])
    assert np.array_equal(theirs.step(0)[0], ours.step(0)[0])


@pytest.mark.parametrize("place", [(330, 0), (0, -330), (300, 300), (-325, 20), (-302, 10)])
def test_so_it_is_at_the_end_of_the_world(place: tuple[float, float]) -> None:
    theirs, ours = pair(continuous=False)
    for env in (theirs, ours):
        env.reset(seed=3)
        env.t = 1.0
        for body in (env.car.hull, *env.car.wheels):
            body.position = place
    one, two = theirs.step(0), ours.step(0)
    assert np.array_equal(one[0], two[0])
    assert one[1:] == two[1:]


def test_a_frame_is_drawn_later_as_it_would_have_been() -> None:
    theirs, ours = pair(continuous=True)
    theirs.reset(seed=2)
    ours.drawing = False
    assert ours.reset(seed=2)[0] is None
    gas = np.array([0.1, 1.0, 0.0], np.float32)
    for at in range(24):
        wanted, *rest = theirs.step(gas)
        obs, *same = ours.step(gas)
        assert obs is None
        assert same == rest
        if at % 4 == 3:
            assert np.array_equal(ours.draw(), wanted)
    for env in (theirs, ours):  # the score in the corner is that of before the step's own cost
        env.reward = 99.55
        env.step(gas)
    assert f"{ours.reward:.0f}" != f"{ours.reward + 0.1:.0f}"
    assert np.array_equal(ours.draw(), theirs.state)
    ours.drawing = True
    assert np.array_equal(ours.step(gas)[0], theirs.step(gas)[0])


def test_what_is_rendered_stays_gymnasium_s() -> None:
    theirs, ours = pair(continuous=False, render_mode="rgb_array")
    for env in (theirs, ours):
        env.reset(seed=1)
        env.step(3)
    assert np.array_equal(theirs.render(), ours.render())
    assert np.array_equal(theirs.step(1)[0], ours.step(1)[0])


def test_an_id_with_wrappers_of_its_own_stays_gymnasium_s(monkeypatch: pytest.MonkeyPatch) -> None:
    reshape = WrapperSpec(
        "ReshapeObservation", "gymnasium.wrappers:ReshapeObservation", {"shape": (96, 288)}
    )
    spec = replace(gym.spec("CarRacing-v3"), id="Reshaped-v0", additional_wrappers=(reshape,))
    monkeypatch.setitem(gym.registry, "Reshaped-v0", spec)
    env = make(GymOptions(game="Reshaped-v0", frame_skip=2, actions="discrete"), 1)
    (one,) = env._envs.envs
    assert [type(layer).__name__ for layer in _layers(one)][-1] == "CarRacing"
    assert env.reset([1])["obs"].shape == (1, 96, 288)
    assert env.step(np.array([1])).next_obs["obs"].std() > 10
    env.close()


def test_it_stands_behind_the_id_with_its_limit() -> None:
    env = make(GymOptions(game="CarRacing-v3", actions="discrete", frame_skip=4, noop_max=50), 1)
    (one,) = env._envs.envs
    assert [type(layer).__name__ for layer in _layers(one)] == [
        "Frames", "TimeLimit", "OrderEnforcing", "QuickCarRacing",
    ]  # fmt: skip
    assert "time_limit 0 (its own 1,000 frames)" in env.about
    env.reset([1])
    lengths, steps = [], 0
    while len(lengths) < 1:
        steps += 1
        step = env.step(np.array([0]))  # it stands still
        if step.ended[0]:
            lengths.append((steps, bool(step.truncated[0])))
    # 1 to 50 idle frames, then what is left of 1,000
    assert lengths[0][1] and 238 <= lengths[0][0] <= 250
    assert step.next_obs["obs"].std() > 10
    env.close()


@pytest.mark.parametrize(
    ("game", "discrete", "own"), [("CarRacing-v3", 5, False), ("LunarLander-v3", 4, True)]
)
def test_a_game_with_both_kinds_has_the_one_asked_for(game: str, discrete: int, own: bool) -> None:
    for actions, is_discrete in (("discrete", True), ("continuous", False), ("own", own)):
        env = make(GymOptions(game=game, actions=actions), 1)
        kind = DiscreteActions if is_discrete else ContinuousActions
        assert isinstance(env.spec.actions, kind)
        assert not is_discrete or env.spec.actions == DiscreteActions(discrete)
        assert (f"actions {actions}" in env.about) == (actions != "own")
        (one,) = env._envs.envs
        assert not any(isinstance(layer, Frames) for layer in _layers(one))
        env.close()
