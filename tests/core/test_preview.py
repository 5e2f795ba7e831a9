"""A little random play: what it counts, which frames it keeps, and when it ends."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from core.envs.options import ToyOptions
from core.envs.toy import decode, make
from core.envs.vector import GymVector
from core.preview import STEPS, Preview, preview
from core.seeding import SeedTree
from tests.core.envs.worlds import MODES, Scripted, counters, vector

PICTURE = spaces.Box(0, 255, (4, 5), np.uint8)


class Breaking(Scripted):
    """Raises at its step `at_step`; 0 is its reset."""

    def __init__(self, at_step: int) -> None:
        super().__init__(PICTURE, length=4)
        self._left = at_step

    def reset(self, **more: Any) -> Any:
        if self._left == 0:
            raise ZeroDivisionError("the world fell apart")
        return super().reset(**more)

    def step(self, action: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            raise ZeroDivisionError("the world fell apart")
        return super().step(action)


def counter(mode: AutoresetMode = AutoresetMode.DISABLED, length: int = 7) -> GymVector:
    return counters(length, mode=mode, observation="pixels", size=4)


def catch(seed: int) -> Preview:
    env = make(ToyOptions(game="catch", size=10), 1)
    return preview(env, SeedTree(seed), ["obs"])


def look(world: Scripted, *columns: str) -> Preview:
    return preview(vector(lambda: world), SeedTree(1), columns)


@pytest.mark.parametrize("mode", MODES)
def test_steps_and_ended_episodes_are_counted(mode: AutoresetMode) -> None:
    seen = preview(counter(mode), SeedTree(1), ["obs"])
    assert (seen.steps, seen.ended, seen.ended_steps) == (1_024, 146, 1_022)
    assert seen.episode_steps == 7


@pytest.mark.parametrize("mode", MODES)
def test_frames_are_every_observation_once_and_in_order(mode: AutoresetMode) -> None:
    frames = preview(counter(mode), SeedTree(1), ["obs"]).frames["obs"]
    moments = [(episode, step) for episode in range(147) for step in range(8)]
    # 146 episodes of 8 observations, and two steps of the next
    assert [decode(frame)[1:] for frame in frames] == moments[: 146 * 8 + 3]


def test_an_episode_that_does_not_end_has_no_length() -> None:
    seen = preview(counter(length=0), SeedTree(1), ["obs"])
    assert (seen.steps, seen.ended, seen.episode_steps) == (1_024, 0, None)


def test_the_same_seed_sees_the_same_frames_and_another_others() -> None:
    one, same, other = catch(3), catch(3), catch(4)
    assert np.array_equal(one.frames["obs"], same.frames["obs"])
    assert (one.steps, one.ended) == (same.steps, same.ended)
    assert not np.array_equal(one.frames["obs"], other.frames["obs"])


def test_an_action_is_held_for_four_steps_on_average() -> None:
    world = Scripted(PICTURE, spaces.Discrete(1_000))
    look(world, "obs")
    changes = np.count_nonzero(np.diff(np.ravel(world.actions)))
    assert 4 - 0.6 < STEPS / changes < 4 + 0.6


def test_continuous_actions_fill_their_range() -> None:
    world = Scripted(PICTURE, spaces.Box(-1, 1, (2,), np.float32))
    look(world, "obs")
    actions = np.array(world.actions)
    assert actions.shape == (STEPS, 2)
    assert -1 <= actions.min() < -0.9 and 0.9 < actions.max() <= 1


@pytest.mark.parametrize("at_step", [1, 2, 10])
def test_a_world_that_breaks_gives_what_was_seen(at_step: int) -> None:
    world = Breaking(at_step)
    seen = look(world, "obs")
    assert seen.steps == at_step - 1
    assert (seen.ended, seen.ended_steps) == (seen.steps // 4, seen.steps // 4 * 4)
    assert np.array_equal(seen.frames["obs"], world.shown)


def test_a_world_that_breaks_at_once_gives_nothing() -> None:
    assert look(Breaking(0), "obs") == Preview(0, 0, 0, {})


def test_large_pictures_are_fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.preview.MOST_BYTES", 50 * 20 + 19)
    assert look(Scripted(PICTURE, length=100), "obs").frames["obs"].shape == (51, 4, 5)


def test_columns_share_the_bytes_and_only_those_asked_for_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("core.preview.MOST_BYTES", 50 * (20 + 4 * 6))
    parts = dict.fromkeys(("a", "b"), PICTURE) | {"c": spaces.Box(0, 1, (6,), np.float32)}
    seen = look(Scripted(spaces.Dict(parts)), "obs.a", "obs.c")
    assert seen.steps == 50
    assert seen.frames.keys() == {"obs.a", "obs.c"}


def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock takes a tenth of a second."""
    times = iter(range(1_000_000))
    clock = SimpleNamespace(monotonic=lambda: next(times) / 10)
    monkeypatch.setattr("core.preview.time", clock)


def test_without_columns_it_takes_so_many_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    ticking(monkeypatch)
    for seconds, steps in ((0.75, 7), (5.05, 50)):
        monkeypatch.setattr("core.preview.SECONDS", seconds)
        assert look(Scripted(PICTURE)) == Preview(steps, steps // 3, steps // 3 * 3, {})


def test_without_columns_it_ends_with_its_steps_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.preview.SECONDS", 1_000)
    assert look(Scripted(PICTURE)).steps == STEPS


def test_with_columns_the_clock_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ticking(monkeypatch)
    monkeypatch.setattr("core.preview.SECONDS", 0)
    assert look(Scripted(PICTURE), "obs").steps == STEPS
