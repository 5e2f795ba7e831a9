"""The training loop: one clock, and everything at its multiple."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.train import train
from tests.harness import CHAIN, COUNTER, EMPTY, Run, comparable, equal_trees, never


class Watched:
    """A run whose learning, evaluations, rows and checkpoints are noted with the clock."""

    def __init__(self, runs: Path, config: dict[str, Any], **keys: Any) -> None:
        self.run = Run(runs, config, **keys)
        self.learnt: list[int] = []
        self.filled: list[int] = []
        self.saved: list[int] = []
        self.logged: list[int] = []
        self.evaluated: list[int] = []
        self.recorder = self.run.recorder()
        self.wrap(self.run.parts.agent, "learn", self.learnt, self.filled)
        self.wrap(self.recorder, "save", self.saved)
        self.wrap(self.recorder, "log", self.logged)
        self.wrap(self.recorder, "evaluated", self.evaluated)

    def wrap(self, owner: object, name: str, steps: list[int], fill: list[int] | None = None):
        original, parts = getattr(owner, name), self.run.parts

        def noted(*arguments: Any) -> Any:
            steps.append(parts.clock.step)
            if fill is not None:
                fill.append(len(parts.memory))
            return original(*arguments)

        setattr(owner, name, noted)

    def go(self, stop: Callable[[], bool] = never) -> "Watched":
        train(self.run.parts, self.run.rollout(), self.run.options, self.recorder, stop)
        self.recorder.close()
        return self


def multiples(interval: int, first: int, last: int, lanes: int = 1) -> list[int]:
    """The clock's values in [first, last] at which a multiple was crossed, once a multiple."""
    found = []
    for step in range(lanes, last + lanes, lanes):
        if step >= first:
            found += [step] * (step // interval - (step - lanes) // interval)
    return found


# The ratio of updates to steps is exact.


@pytest.mark.parametrize("lanes", [1, 2, 3, 7, 12])
def test_updates_come_exactly_as_often_as_asked(tmp_path: Path, lanes: int):
    watched = Watched(
        tmp_path, COUNTER, num_envs=lanes, train_interval=5, updates=3, eval_freq=0, steps=300
    ).go()
    # the counter's episodes take 7 steps, so that each step is a unit at once
    ready = next(step for step in range(lanes, 400, lanes) if step >= 50)
    first = multiples(5, ready, 400, lanes)[0]
    end = -(-300 // lanes) * lanes
    expected = [step for step in multiples(5, first, end, lanes) for _ in range(3)]
    assert watched.learnt == expected
    assert watched.run.parts.agent.updates == len(expected)
    assert len(expected) / (end - first) == pytest.approx(3 / 5, abs=0.05)


@pytest.mark.parametrize(
    ("keys", "least"),
    [
        ({"learn_start": 50, "batch_size": 8}, 50),
        ({"learn_start": 10, "batch_size": 64}, 64),
        ({"learn_start": 0, "batch_size": 1}, 1),
    ],
)
def test_learning_starts_when_the_memory_holds_enough(
    tmp_path: Path, keys: dict[str, int], least: int
):
    watched = Watched(tmp_path, COUNTER, eval_freq=0, steps=150, **keys).go()
    assert watched.filled[0] == least and watched.learnt[0] == least
    assert watched.learnt == list(range(least, 151))


def test_learning_starts_in_a_memory_that_can_never_hold_so_many(tmp_path: Path):
    # 100 rows of episodes of 7 steps are 8 rows each: closing rows leave fewer than 95 units
    watched = Watched(
        tmp_path, COUNTER, memory_limit=100, learn_start=95, eval_freq=0, steps=300
    ).go()
    assert watched.filled[0] < 95
    assert watched.learnt[0] > 80 and watched.learnt == list(range(watched.learnt[0], 301))


def test_learning_does_not_stop_again(tmp_path: Path):
    # one lane's ring that is not full yet, then eviction: once begun it goes on
    watched = Watched(tmp_path, CHAIN, memory_limit=60, learn_start=40, batch_size=8, eval_freq=0)
    watched.go()
    first = watched.learnt[0]
    assert watched.learnt == list(range(first, 401))


# Intervals.


@pytest.mark.parametrize("lanes", [1, 4, 7])
def test_intervals_fire_on_crossing_multiples(tmp_path: Path, lanes: int):
    keys = {"eval_freq": 90, "log_freq": 50, "checkpoint_freq": 75, "steps": 400}
    watched = Watched(tmp_path, CHAIN, num_envs=lanes, **keys).go()
    end = -(-400 // lanes) * lanes
    assert watched.run.parts.clock.step == end
    assert watched.evaluated == multiples(90, 1, end, lanes)
    due = multiples(75, 1, end, lanes)
    assert watched.saved == (due if due[-1] == end else [*due, end])
    rows = multiples(50, 1, end, lanes)
    assert watched.logged == (rows if rows[-1] == end else [*rows, end])


def test_no_moment_has_two_rows(tmp_path: Path):
    # 7 lanes cross 350 at 350 and 400 at 406, the last step, which is no multiple of 50
    run = Watched(tmp_path, CHAIN, num_envs=7, log_freq=50).go().run
    steps = [int(row["step"]) for row in run.rows]
    assert steps[-1] == 406 and len(set(steps)) == len(steps)


def test_0_means_never(tmp_path: Path):
    watched = Watched(tmp_path, CHAIN, eval_freq=0, checkpoint_freq=0).go()
    assert watched.evaluated == [] and watched.saved == [400], "at the end, always"


@pytest.mark.parametrize("when", [0, 1, 77])
def test_it_stops_between_steps_when_told_to(tmp_path: Path, when: int):
    watched = Watched(tmp_path, CHAIN)
    clock = watched.run.parts.clock
    watched.go(stop=lambda: clock.step >= when)
    assert clock.step == when
    assert watched.logged == [*multiples(50, 1, when), *([when] if when else [])]


def test_an_evaluation_that_is_stopped_is_no_score(tmp_path: Path):
    watched = Watched(tmp_path, CHAIN, eval_freq=60)
    asked = []

    def stop() -> bool:  # true from within the first evaluation on
        asked.append(watched.run.parts.clock.step)
        return asked.count(60) > 1

    watched.go(stop)
    assert watched.evaluated == [] and watched.recorder.best_step is None


def test_evaluation_takes_no_training_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr("core.train.time.perf_counter", lambda: now[0])
    watched = Watched(tmp_path, CHAIN)
    asides: list[float] = []
    watched.recorder.pace.aside = asides.append
    original = watched.recorder.evaluated

    def slow(evaluation: Any) -> None:
        now[0] += 1000.0  # keeping the best weights is no evaluation
        original(evaluation)

    watched.recorder.evaluated = slow
    make = watched.run.parts.make_eval_env

    def slowly_made(lanes: int) -> Any:
        now[0] += 5.0
        return make(lanes)

    object.__setattr__(watched.run.parts, "make_eval_env", slowly_made)
    watched.go()
    assert asides == [5.0, 0.0, 0.0, 0.0]


# Sameness.


@pytest.mark.parametrize("keys", [{}, {"num_envs": 3, "n_step": 3, "window_length": 2}])
def test_the_same_row_and_seed_give_the_same_numbers(tmp_path: Path, keys: dict[str, int]):
    first, second, other = (Run(tmp_path, CHAIN, seed=seed, **keys).go() for seed in (4, 4, 5))
    assert len(first.rows) == 8
    assert comparable(first.rows) == comparable(second.rows)
    assert equal_trees(first.parts.agent.state(), second.parts.agent.state())
    assert equal_trees(first.parts.memory.state(), second.parts.memory.state())
    assert comparable(first.rows) != comparable(other.rows)
    moody = ("wall_seconds", "save_seconds", "steps_per_second", "peak_private_bytes")
    left, right = (
        {key: value for key, value in run.result.items() if key not in moody}
        for run in (first, second)
    )
    assert left == right


@pytest.mark.parametrize("row", [CHAIN, EMPTY], ids=["dqn", "empty"])
def test_evaluation_changes_no_training_number(tmp_path: Path, row: dict[str, Any]):
    # the empty agent draws while it is evaluated, so that a shared generator would show
    watched, alone, seldom = (
        Run(tmp_path, row, eval_freq=freq, eval_episodes=episodes).go()
        for freq, episodes in ((50, 3), (0, 3), (130, 7))
    )
    assert any(row["eval_return_mean"] for row in watched.rows)
    for other in (alone, seldom):
        left, right = (comparable(run.rows, "eval_return_mean") for run in (watched, other))
        assert left == right
    assert equal_trees(watched.parts.agent.state(), alone.parts.agent.state())
    assert equal_trees(watched.parts.memory.state(), alone.parts.memory.state())


def test_neither_rows_nor_checkpoints_change_a_training_number(tmp_path: Path):
    first = Run(tmp_path, CHAIN, log_freq=50, checkpoint_freq=10).go()
    second = Run(tmp_path, CHAIN, log_freq=400, checkpoint_freq=0).go()
    assert equal_trees(first.parts.agent.state(), second.parts.agent.state())
    since_the_row_before = "loss", "q_mean", "td_error_mean", "grad_norm", "eval_return_mean"
    last = comparable(first.rows, *since_the_row_before, "sample_age", "sample_distinct")
    assert last[-1].items() <= second.rows[-1].items()


def test_lanes_begin_apart(tmp_path: Path):
    row = {key: value for key, value in CHAIN.items() if key != "size"}
    run = Run(tmp_path, row, env_type="gym", game="CartPole-v1", num_envs=4)
    rollout = run.rollout()
    first = rollout._obs["obs"].copy()
    assert len(np.unique(first, axis=0)) == 4


def test_a_rollout_stores_every_step_once(tmp_path: Path):
    run = Run(tmp_path, COUNTER, num_envs=3, memory_limit=900)
    rollout = run.rollout()
    taken = sum(rollout.step(step) for step in range(100))
    memory = run.parts.memory
    assert taken == 300 == len(memory)
    memory.check()
    assert rollout.episodes.finished == 3 * (100 // 7)
    batch = memory.sample(3_000)
    moment, following = batch["obs"][:, 0], batch["next_obs"][:, 0]
    assert (following - moment == [0, 0, 1]).all()
    assert (batch["reward"] == following[:, 2]).all()
    assert ((batch["discount"] == 0) == (following[:, 2] == 7)).all()
    assert len({row.tobytes() for row in moment}) == 300
