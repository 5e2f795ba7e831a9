"""Registered environments: what is made of an id, what is refused, what is said."""

import json
import os
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import WrapperSpec

from core.envs.display import draw_without_display
from core.envs.gym import make
from core.envs.options import NO_LIMIT, GymOptions
from core.envs.snapshots import _layers
from core.errors import UsageError
from tests.harness import python

from .optional import needs
from .test_frames import Reel

ALE = needs("ale_py")
ME = "tests.core.envs.test_gym"


class Shown(Reel):
    """A reel that opens a window where it is told to."""

    metadata = {"render_fps": 50, "render_modes": ["human"]}  # noqa: RUF012
    windows = 0

    def __init__(self, render_mode: str | None = None, frame_skip: int = 1, **more: Any) -> None:
        super().__init__(**more)
        self.render_mode = render_mode
        Shown.windows += render_mode == "human"
        self.frame_skip = frame_skip


for name, more in {
    "Reel": {"max_episode_steps": 10},
    "Window": {"kwargs": {"render_mode": "human"}},
    "Skipping": {"kwargs": {"frame_skip": 4}},
    "Wrapped": {
        "additional_wrappers": (
            WrapperSpec(
                "MaxAndSkipObservation", "gymnasium.wrappers:MaxAndSkipObservation", {"skip": 4}
            ),
        )
    },
}.items():
    gym.register(f"{name}-v0", f"{ME}:Shown", **more)


def layers(game: str, **keys: Any) -> list[str]:
    env = make(GymOptions(game=game, **keys), 1)
    (one,) = env._envs.envs
    found = [type(layer).__name__ for layer in _layers(one)]
    env.close()
    return found


def test_without_keys_nothing_stands_between() -> None:
    assert layers("CartPole-v1") == ["TimeLimit", "OrderEnforcing", "CartPoleEnv"]
    assert layers("CartPole-v1", time_limit=9) == ["TimeLimit", "OrderEnforcing", "CartPoleEnv"]
    assert layers("FrozenLake-v1")[0] == "FlattenObservation"
    assert make(GymOptions(game="CartPole-v1"), 1).about == ""


def lengths(game: str, **keys: Any) -> list[tuple[int, int]]:
    """Steps, and frames, of two episodes."""
    env = make(GymOptions(game=game, **keys), 1)
    env.reset([1])
    found, steps = [], 0
    while len(found) < 2:
        step = env.step(np.zeros(1, np.int64))
        steps += 1
        if step.ended[0]:
            assert step.truncated[0]
            found.append((steps, int(step.infos["at"][0])))
            steps = 0
    env.close()
    return found


def test_a_limit_of_ours_counts_steps_and_the_game_s_own_counts_frames() -> None:
    assert lengths(f"{ME}:Reel-v0") == [(10, 10)] * 2
    assert lengths(f"{ME}:Reel-v0", frame_skip=4) == [(3, 10)] * 2
    assert lengths(f"{ME}:Reel-v0", frame_skip=4, time_limit=5) == [(5, 20)] * 2
    assert lengths(f"{ME}:Reel-v0", time_limit=12) == [(12, 12)] * 2


def test_an_episode_without_a_limit_has_one_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert NO_LIMIT == 27_000
    assert layers("Window-v0") == ["TimeLimit", "OrderEnforcing", "Shown"]
    monkeypatch.setattr("core.envs.gym.NO_LIMIT", 7)
    assert lengths("Window-v0", frame_skip=3) == [(7, 21)] * 2
    env = make(GymOptions(game="Window-v0", frame_skip=3), 1)
    assert "time_limit 0 (7, without its own), " in env.about
    env.close()


def test_what_was_decided_is_one_line() -> None:
    env = make(GymOptions(game=f"{ME}:Reel-v0", frame_skip=4, crop=(4, 0, 0, 0)), 1)
    assert env.about == (
        f"{ME}:Reel-v0: time_limit 0 (its own 10 frames), actions own, crop (4, 0, 0, 0), "
        "greyscale off, resize 0, frame_skip 4, max_pool false, noop_max 0; "
        "obs is a picture [12, 16, 3] of uint8, HWC"
    )
    assert env.spec.step_seconds == 4 / 50
    env.close()


@pytest.mark.parametrize(
    ("game", "what"),
    [("Skipping-v0", "frame_skip 4"), ("Wrapped-v0", "MaxAndSkipObservation")],
)
def test_an_id_that_skips_frames_is_not_made_to_skip_them_again(game: str, what: str) -> None:
    says = f"'{game}' skips frames itself \\({what}\\), and frame_skip 2 would skip them again"
    with pytest.raises(UsageError, match=says):
        make(GymOptions(game=game, frame_skip=2), 1)
    make(GymOptions(game=game, crop=(1, 0, 0, 0)), 1).close()


def test_the_steps_of_a_simulation_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shown.__init__, "__defaults__", (None, 5))
    env = make(GymOptions(game="Reel-v0", frame_skip=2), 1)
    assert "frame_skip 2 (each of 5 steps of its simulation), " in env.about
    env.close()


@pytest.mark.parametrize("game", ["CartPole-v1", "Reel-v0"])
@pytest.mark.parametrize("actions", ["discrete", "continuous"])
def test_a_game_with_one_kind_of_actions_has_no_choice(game: str, actions: str) -> None:
    with pytest.raises(UsageError, match=f"'{game}' has one kind of actions alone"):
        make(GymOptions(game=game, actions=actions), 1)


def test_no_window_opens() -> None:
    env = make(GymOptions(game="Window-v0"), 1)
    (one,) = env._envs.envs
    assert one.unwrapped.render_mode is None
    assert Shown.windows == 0
    env.close()


@pytest.mark.parametrize(
    ("given", "driver"),
    [
        ({}, "dummy"),
        ({"DISPLAY": ":0"}, None),
        ({"WAYLAND_DISPLAY": "wayland-0"}, None),
        ({"SDL_VIDEODRIVER": "x11"}, "x11"),
        ({"DISPLAY": ""}, "dummy"),
    ],
)
def test_a_driver_that_draws_nowhere_is_taken_where_there_is_no_display(
    given: dict[str, str], driver: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", "darwin")
    draw_without_display()
    assert os.environ.get("SDL_VIDEODRIVER") == given.get("SDL_VIDEODRIVER")
    monkeypatch.setattr(sys, "platform", "linux")
    draw_without_display()
    assert os.environ.get("SDL_VIDEODRIVER") == driver


@ALE
def test_a_game_of_ale_is_sent_to_its_family_whoever_imported_it() -> None:
    code = (
        "import json, sys\n"
        "from core.envs.gym import make\n"
        "from core.envs.options import NO_LIMIT, GymOptions\n"
        "from core.errors import UsageError\n"
        "said = []\n"
        "for game in ('Pong-v4', 'PongNoFrameskip-v4', 'Pong-v4', 'Pnog-v4'):\n"
        "    try:\n"
        "        make(GymOptions(game=game), 1)\n"
        "    except UsageError as error:\n"
        "        said.append(str(error))\n"
        "print(json.dumps(said))\n"
    )
    pong, no_skip, again, misspelt = json.loads(python(code))
    assert pong == again == "'Pong-v4' is a game of Atari: set --env_type atari"
    assert no_skip == "'PongNoFrameskip-v4' is a game of Atari: set --env_type atari"
    assert misspelt == "gymnasium knows no game 'Pnog-v4'; did you mean 'Pong-v4'?"


@pytest.mark.parametrize(
    ("space", "warned"),
    [
        (spaces.Box(0, 255, (8, 8, 3), np.float32), "float32 up to 255, which no network scales"),
        (spaces.Box(0, 1, (8, 8), np.uint8), "uint8 up to 1, which networks divide by 255"),
        (spaces.Box(0, 1, (8, 8, 3), np.float32), None),
        (spaces.Box(-np.inf, np.inf, (8, 8, 3), np.float32), None),
        (spaces.Box(0, 255, (8, 8, 3), np.uint8), None),
        (spaces.Box(0, 1, (8, 8), np.bool_), None),
        (spaces.Box(0, 255, (8,), np.float32), None),
        (spaces.Box(0, 1, (8,), np.uint8), None),
        (spaces.Box(0, 255, (4, 8, 8, 3), np.float32), None),
    ],
)
def test_pictures_that_are_scaled_twice_or_never_are_named(space: Any, warned: Any) -> None:
    from .worlds import Scripted, vector

    about = vector(lambda: Scripted(space)).about
    assert ("warning" in about) == (warned is not None)
    if warned:
        assert f"warning: obs holds {warned}; observe " in about
