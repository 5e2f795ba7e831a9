import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.checkpoint import Checkpoints, load
from core.errors import RunFailedError
from core.evaluate import Evaluation
from core.metrics import Episodes
from core.recorder import Pace, Recorder
from tests.harness import CHAIN, EMPTY, Run, equal_trees

STATUS = {
    "state", "pid", "step", "steps", "steps_per_second", "seconds_left", "last_return", "epsilon",
    "memory_fill", "memory_bytes", "memory_bytes_full", "private_bytes", "updates",
    "checkpoint_step",
}  # fmt: skip
"""What whoever looks at a run may rely on: the board reads exactly these."""


class Desk:
    """A recorder whose clock and scores the test moves."""

    def __init__(self, runs: Path, **keys: Any) -> None:
        self.run = Run(runs, CHAIN, **keys)
        self.recorder: Recorder = self.run.recorder()
        self.episodes = Episodes(1)

    def score(self, step: int, mean: float, cut: int = 0) -> None:
        """An evaluation at a step, with weights that name the step."""
        agent = self.run.parts.agent
        self.run.parts.clock.step = step
        with_step = {name: np.full_like(a, step) for name, a in agent.weights().items()}
        agent.load({**agent.state(), "weights": with_step})
        self.recorder.evaluated(Evaluation((mean - 1, mean + 1), (5, 5), cut))

    def best(self) -> dict[str, Any]:
        return load(self.run.folder.checkpoints / "best.safetensors")

    @property
    def falls(self) -> list[str]:
        return [line for line in self.run.display.lines if "fell" in line]


@pytest.fixture
def desk(tmp_path: Path):
    made = Desk(tmp_path)
    yield made
    made.recorder.close()


# Best and falls.


def test_the_best_weights_are_kept_whatever_comes_after(desk: Desk):
    for step, mean in ((10, 3.0), (20, 9.0), (30, 8.5), (40, 1.0), (50, 8.9)):
        desk.score(step, mean)
    assert desk.recorder.best_step == 20 and desk.best()["step"] == 20
    assert all((array == 20).all() for array in desk.best()["weights"].values())
    assert all((array == 50).all() for array in desk.run.parts.agent.weights().values())


def test_of_two_equal_scores_the_later_weights_are_best(desk: Desk):
    desk.score(10, 9.0)
    desk.score(20, 9.0)
    assert desk.recorder.best_step == 20 and desk.best()["step"] == 20


@pytest.mark.parametrize(
    ("scores", "said_at"),
    [
        ([100, 81], []),
        ([100, 80], [20]),
        ([100, 79, 50, 10], [20]),
        ([100, 79, 81, 79], [20, 40]),
        ([100, 79, 101, 81], [20]),
        ([100, 79, 101, 80], [20, 40]),
        ([-10, -11.9], []),
        ([-10, -12], [20]),
        ([10, 20, 30], []),
        ([1, 200, 150], [30]),
    ],
)
def test_a_fall_of_a_fifth_is_said_once_a_fall(desk: Desk, scores: list[float], said_at: list[int]):
    for number, score in enumerate(scores, 1):
        desk.score(10 * number, score)
    assert [int(line.split("at step ")[1].split(",")[0]) for line in desk.falls] == said_at
    assert all("the best weights are kept" in line for line in desk.falls)
    assert desk.run.log.count("evaluation fell") == len(said_at)


def test_a_fall_says_from_what_and_the_status_keeps_it(desk: Desk):
    desk.score(10, 100)
    desk.recorder.status("running", desk.episodes)
    desk.score(20, 40.5)
    assert desk.falls == [
        "evaluation fell to 40.5 at step 20, from 100 at step 10; the best weights are kept"
    ]
    desk.recorder.status("finished", desk.episodes)
    assert [status["fallen"] for status in desk.run.display.statuses] == [False, True]


def test_episodes_that_an_evaluation_cut_are_said(desk: Desk):
    desk.score(10, 5.0, cut=2)
    assert desk.run.display.lines == ["2 evaluation episodes were cut at 27000"]


# Checkpoints.


@pytest.mark.parametrize("keep", [1, 3])
def test_the_newest_checkpoints_are_kept_beside_the_best(tmp_path: Path, keep: int):
    desk = Desk(tmp_path, keep_last=keep)
    desk.score(5, 1.0)
    for step in (10, 20, 30, 40):
        desk.run.parts.clock.step = step
        desk.recorder.save()
    names = sorted(path.name for path in desk.run.folder.checkpoints.iterdir())
    kept = [f"step-{step:012d}.safetensors" for step in (10, 20, 30, 40)[-keep:]]
    assert names == ["best.safetensors", *kept]
    desk.recorder.close()


def test_a_checkpoint_is_the_agents_whole_state(desk: Desk):
    agent = desk.run.parts.agent
    desk.run.parts.clock.step = 30
    desk.recorder.save()
    saved = Checkpoints(desk.run.folder.checkpoints).load("last", pytest.fail)
    assert saved.pop("step") == 30
    assert equal_trees(saved, agent.state())


def test_weights_that_are_not_finite_are_never_saved(desk: Desk):
    desk.score(10, 5.0)
    desk.recorder.save()
    agent = desk.run.parts.agent
    state = agent.state()
    name = next(iter(state["weights"]))
    state["weights"][name][0] = math.nan
    agent.load(state)
    desk.run.parts.clock.step = 20
    with pytest.raises(RunFailedError, match=f"'weights/{name}' is not finite at step 20"):
        desk.recorder.save()
    with pytest.raises(RunFailedError, match="is not finite at step 20"):
        desk.recorder.evaluated(Evaluation((9.0,), (5,), 0))
    assert desk.best()["step"] == 10
    assert Checkpoints(desk.run.folder.checkpoints).load("last", pytest.fail)["step"] == 10


# Status.


def test_the_status_holds_what_the_board_relies_on(desk: Desk):
    desk.run.parts.clock.step = 100
    desk.episodes.returns.append(4.5)
    desk.recorder.save()
    desk.recorder.status("running", desk.episodes)
    status = desk.run.status
    assert status == dict(desk.run.display.statuses[-1])
    assert set(status) >= STATUS
    expected = {
        "state": "running", "pid": os.getpid(), "step": 100, "steps": 400, "last_return": 4.5,
        "epsilon": desk.run.parts.agent.exploration(100), "updates": 0, "checkpoint_step": 100,
        "memory_fill": 0.0,
    }  # fmt: skip
    assert {key: status[key] for key in expected} == expected
    assert status["memory_bytes_full"] == desk.run.parts.memory.bytes_full > status["memory_bytes"]
    assert status["seconds_left"] == pytest.approx(300 / status["steps_per_second"])
    assert 2**20 < status["private_bytes"] < 2**36


def test_a_status_of_a_run_that_has_not_begun_knows_no_time_left(desk: Desk):
    desk.recorder.status("running", desk.episodes)
    assert desk.run.status["seconds_left"] is None and desk.run.status["last_return"] is None


def test_the_status_comes_twice_a_second_at_most_and_at_the_end_always(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    now = [1_000.0]
    monkeypatch.setattr("core.recorder.time.monotonic", lambda: now[0])
    for _ in range(100):
        desk.recorder.status("running", desk.episodes)
        now[0] += 0.0625
    assert len(desk.run.display.statuses) == 13
    desk.recorder.status("finished", desk.episodes)
    assert desk.run.display.statuses[-1]["state"] == "finished"


def test_a_number_that_is_not_finite_leaves_valid_json(desk: Desk):
    desk.episodes.returns.append(math.nan)
    desk.recorder.status("running", desk.episodes)
    assert desk.run.status["last_return"] is None


# Rows.


def test_a_row_holds_the_means_since_the_row_before(desk: Desk):
    desk.episodes.returns.extend([1.0, 2.0])
    desk.episodes.lengths.extend([4, 8])
    desk.episodes.finished = 2
    for loss in (1.0, 3.0):
        desk.recorder.meter.add({"loss": loss, "q_mean": 0.5, "grad_norm": 2.0})
    desk.score(10, 7.0)
    desk.recorder.log(desk.episodes)
    desk.run.parts.clock.step = 20
    desk.recorder.log(desk.episodes)
    first, second = desk.run.rows
    told = {"step": "10", "episodes": "2", "return_mean": "1.5", "length_mean": "6", "loss": "2",
            "q_mean": "0.5", "grad_norm": "2", "td_error_mean": "", "eval_return_mean": "7",
            "epsilon": "1"}  # fmt: skip
    assert {key: first[key] for key in told} == told
    # what came once stands once
    assert [second[key] for key in ("loss", "eval_return_mean", "return_mean")] == ["", "", "1.5"]
    assert int(first["private_bytes"]) > 2**20
    assert desk.recorder.watch.peak >= int(first["private_bytes"])


# Pace.


def test_the_pace_is_of_training_alone(monkeypatch: pytest.MonkeyPatch):
    now = [50.0]
    monkeypatch.setattr("core.recorder.time.perf_counter", lambda: now[0])
    pace = Pace()
    now[0] += 10
    pace.aside(6.0)
    assert pace.wall == 10 and pace.mean(100) == 25 and pace.lap(100) == 25
    now[0] += 2
    assert pace.lap(300) == 100 and pace.mean(300) == 50


def test_it_says_once_that_bytes_run_out_before_rows(tmp_path: Path) -> None:
    noisy = {key: value for key, value in EMPTY.items() if key != "size"}
    noisy |= {"env_type": "gym", "game": "tests.core.noise:Noise-v0", "memory_limit": 2_000}
    run = Run(tmp_path, noisy, memory_bytes=3_000_000)
    recorder, rollout = run.recorder(), run.rollout()
    for step in range(1, 901):
        run.parts.clock.step += rollout.step(step)
        if step % 100 == 0:
            recorder.log(rollout.episodes)
    recorder.close()
    told = [line for line in run.display.lines if "reached its bytes" in line]
    assert len(told) == 1
    held = int(re.search(r"it holds (\d+) of 2,000 rows", told[0])[1])
    assert 100 < held < 800
    assert abs(run.parts.memory.rows - held) < 100
