"""What a run says of what its agent sees."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core import view as views
from core.rollout import Rollout
from core.view import NAME, View, Viewer, newest_picture, read, write
from tests.harness import CHAIN, EMPTY, Run, comparable, parts_of

CATCH: dict[str, Any] = {
    **{key: value for key, value in CHAIN.items() if key != "hidden_sizes"},
    "game": "catch",
    "size": 8,
    "model_type": "dqn-cnn",
    "window_length": 3,
}
ACER: dict[str, Any] = {
    key: value for key, value in CHAIN.items() if key not in ("target_model_update", "eps_decay")
} | {"agent_type": "acer", "model_type": "acer-mlp", "memory_type": "episodic"}


def steps_of(config: dict[str, Any], steps: int, **keys: Any):
    """A rollout that has made some steps, and its agent."""
    parts = parts_of({**config, **keys})
    actor = parts.agent.actor(parts.env.lanes, np.random.default_rng(0))
    rollout = Rollout(parts.env, actor, parts.memory.writer())
    rollout.begin(list(range(parts.env.lanes)))
    for _ in range(steps):
        rollout.step(0)
    return rollout, parts


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_the_stack_is_what_was_acted_on_and_padding_is_counted(steps: int):
    rollout, parts = steps_of(CATCH, steps)
    view = rollout.view()
    assert view is not None
    assert view.frames is not None
    assert view.frames.shape == (3, 8, 4)
    balls = [np.flatnonzero(frame[:-1].any(axis=1)).tolist() for frame in view.frames]
    newest = steps - 1  # the ball's row when the last action was chosen
    assert balls == [[max(newest - back, 0)] for back in (2, 1, 0)]
    assert view.padding == max(2 - newest, 0)
    parts.env.close()


C51: dict[str, Any] = {"distribution": "c51", "v_min": -2.0, "v_max": 2.0, "noisy": True}


@pytest.mark.parametrize("keys", [{}, C51], ids=["plain", "c51"])
def test_the_values_are_those_that_choose_the_greedy_action(keys: dict[str, Any]):
    rollout, parts = steps_of(CATCH, 5, **keys)
    view = rollout.view()
    assert view is not None
    assert view.frames is not None
    assert view.values.shape == (3,)
    assert view.meaning == "Q"
    actor = parts.agent.actor(1, np.random.default_rng(1))
    for at, frame in enumerate(view.frames):  # another actor that sees the same greedily
        first = np.array([at == 0])
        actions, _ = actor.act({"obs": frame[None]}, first, 0, explore=False)
    assert int(actions[0]) == int(view.values.argmax())
    parts.env.close()


def test_the_action_is_the_one_that_was_taken_in_the_first_lane():
    taken = []
    rollout, parts = steps_of(CATCH, 1, num_envs=3)
    act = rollout._actor.act

    def watched(*arguments: Any, **keys: Any):
        actions, extras = act(*arguments, **keys)
        taken.append(int(actions[0]))
        return actions, extras

    rollout._actor.act = watched
    for _ in range(20):
        rollout.step(0)
        view = rollout.view()
        assert view is not None
        assert view.action == taken[-1]
    assert len(set(taken)) == 3
    parts.env.close()


def test_a_policy_tells_its_probabilities():
    rollout, parts = steps_of(ACER, 4)
    view = rollout.view()
    assert view is not None
    assert view.meaning == "probability"
    assert view.frames is None
    assert view.values.sum() == pytest.approx(1)
    assert view.action in (0, 1)
    parts.env.close()


def test_who_values_nothing_shows_nothing():
    rollout, parts = steps_of(EMPTY, 4)
    assert rollout.view() is None
    parts.env.close()


def test_before_the_first_step_there_is_nothing_to_see():
    rollout, parts = steps_of(CHAIN, 0)
    assert rollout.view() is None
    parts.env.close()


def test_looking_changes_no_number_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(views, "SECONDS", 0.0)
    monkeypatch.setattr(views, "DUTY", 0)
    keys: dict[str, Any] = {**CATCH, "noisy": True, "steps": 300, "log_freq": 10}
    seen = Run(tmp_path / "seen", keys).go()
    monkeypatch.setattr(Viewer, "__call__", lambda *arguments, **keys: None)
    unseen = Run(tmp_path / "unseen", keys).go()
    assert comparable(seen.rows) == comparable(unseen.rows)
    found = read(seen.folder.live / NAME)
    assert found is not None
    assert found[0] == 300
    assert not (unseen.folder.live / NAME).exists()


def test_the_last_view_of_a_run_is_of_its_last_step(tmp_path: Path):
    run = Run(tmp_path, CHAIN).go()
    found = read(run.folder.live / NAME)
    assert found is not None
    step, view = found
    assert step == 400
    assert view.values.shape == (2,)
    assert [path for path in run.folder.live.iterdir() if path.suffix == ".tmp"] == []


def test_a_view_is_asked_for_once_a_second_and_for_a_share_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    now, asked, took = [100.0], [], [0.0]
    monkeypatch.setattr(views.time, "perf_counter", lambda: now[0])
    viewer = Viewer(tmp_path)

    class Slow:
        def view(self) -> None:
            asked.append(now[0])
            now[0] += took[0]

    viewer(1, Slow())
    viewer(2, Slow())
    assert asked == [100.0]
    now[0], took[0] = 101.0, 0.01
    viewer(3, Slow())
    assert asked == [100.0, 101.0]
    now[0], took[0] = 101.0 + 0.01 * views.DUTY, 0.0
    viewer(4, Slow())
    assert asked == [100.0, 101.0]
    viewer(5, Slow(), last=True)
    now[0] += 0.5
    viewer(6, Slow())
    assert len(asked) == 3
    viewer(7, object(), last=True)


@pytest.mark.parametrize("frames", [None, np.arange(24, dtype=np.uint8).reshape(2, 3, 4)])
def test_a_view_is_read_as_it_was_written(tmp_path: Path, frames: np.ndarray | None):
    view = View(frames, 1, np.array([1.5, -2.0], np.float32), "Q", 1)
    write(tmp_path / NAME, 77, view)
    found = read(tmp_path / NAME)
    assert found is not None
    step, told = found
    assert (step, told.padding, told.meaning, told.action) == (77, 1, "Q", 1)
    assert np.array_equal(told.values, view.values)
    assert (told.frames is None) == (frames is None)
    if frames is not None:
        assert np.array_equal(told.frames, frames)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_what_is_no_view_is_none(tmp_path: Path):
    assert read(tmp_path / NAME) is None
    (tmp_path / NAME).write_bytes(b"half")
    assert read(tmp_path / NAME) is None


def test_the_picture_is_the_first_column_that_is_one():
    stacks = {
        "obs.a": np.zeros((2, 3, 5)),
        "obs.b": np.zeros((2, 3, 1, 5)),
        "obs.c": np.arange(2 * 3 * 4 * 4).reshape(2, 3, 4, 4),
    }
    found = newest_picture(stacks)
    assert found is not None
    assert np.array_equal(found, stacks["obs.c"][0])
    assert newest_picture({"obs": np.zeros((2, 3))}) is None
