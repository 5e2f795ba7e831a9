"""Whole runs, killed at random moments and taken up again from the command line."""

import itertools
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import SOAK
from tests.harness import cli, comparable, flags, only_folder, rows_of, start_cli

KILLS = 13 if SOAK else 2
"""Of each row, more than 50 of all rows in a soak."""

KEYS: dict[str, dict[str, Any]] = {
    "dqn_cartpole": {"steps": 1_500, "eval_freq": 600, "learn_start": 200, "log_freq": 100,
                     "checkpoint_freq": 230},
    "dqn_cartpole_prioritized": {"steps": 1_500, "eval_freq": 600, "learn_start": 200,
                                 "log_freq": 100, "checkpoint_freq": 230},
    "acer_cartpole": {"steps": 3_000, "eval_freq": 1_400, "replay_start": 500, "log_freq": 200,
                      "checkpoint_freq": 450},
    "es_cartpole": {"steps": 3_000, "eval_freq": 1_400, "log_freq": 200, "checkpoint_freq": 450},
    "dqn_catch": {"steps": 2_000, "eval_freq": 900, "log_freq": 200, "checkpoint_freq": 450,
                  "game": "counter", "observation": "pixels", "size": 20},
}  # fmt: skip


def saved_once(runs: Path, child: subprocess.Popen[str]) -> bool:
    """Whether a new run has anything to go on from."""
    return any(runs.glob("*/checkpoints/step-*"))


def goes_on(runs: Path, child: subprocess.Popen[str]) -> bool:
    """Whether that process has taken the run up: its status says so before its first step."""
    status = only_folder(runs) / "live" / "status.json"
    return json.loads(status.read_text())["pid"] == child.pid


def killed(row: str, runs: Path, rng: np.random.Generator) -> None:
    """Begins a run, or takes it up, and kills it some moment later."""
    new = not runs.exists()
    command = [row, *flags(**KEYS[row], runs=runs)] if new else ["resume", str(only_folder(runs))]
    child = start_cli(*command, "--visdom", "off")
    under_way = saved_once if new else goes_on
    if new or rng.random() < 0.8:  # the others are killed while they start
        deadline = time.monotonic() + 60
        while not under_way(runs, child) and child.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
    time.sleep(rng.uniform(0, 1.5))
    child.kill()
    child.communicate()


def finish(runs: Path) -> dict[str, Any]:
    """Takes a run up for the last time, if it is not at its end, and gives its result."""
    folder = only_folder(runs)
    if not (folder / "result.json").exists():
        done = cli("resume", str(folder), "--visdom", "off", timeout=300)
        assert (done.returncode, done.stderr) == (0, "")
    return json.loads((folder / "result.json").read_text())


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("row", KEYS)
def test_a_killed_run_ends_as_if_it_had_not_been(tmp_path: Path, row: str) -> None:
    rng = np.random.default_rng(len(row))
    done = cli(row, *flags(**KEYS[row], visdom="off", runs=tmp_path / "whole"), timeout=300)
    assert done.returncode == 0, done.stderr
    whole = only_folder(tmp_path / "whole")
    wanted = json.loads((whole / "result.json").read_text())
    kills = 0
    for number in itertools.count():
        if kills == KILLS:
            break
        runs = tmp_path / f"parted-{number}"
        while kills < KILLS and not list(runs.glob("*/result.json")):
            killed(row, runs, rng)
            kills += 1
        found = finish(runs)
        assert comparable(rows_of(only_folder(runs) / "progress.csv")) == comparable(
            rows_of(whole / "progress.csv")
        )
        for name in ("eval_return_mean", "last_eval_return_mean", "best_step", "updates", "steps"):
            assert found[name] == wanted[name], name


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("finished")
    keys = {**KEYS["dqn_cartpole"], "steps": 600, "eval_freq": 0}
    done = cli("dqn_cartpole", *flags(**keys, visdom="off", runs=runs))
    assert done.returncode == 0, done.stderr
    return only_folder(runs)


def test_a_run_that_was_killed_in_its_report_is_finished(finished: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / finished.name))
    (folder / "result.json").unlink()
    found = finish(tmp_path)
    wanted = json.loads((finished / "result.json").read_text())
    for name in ("status", "steps", "eval_return_mean", "best_step", "updates"):
        assert found[name] == wanted[name], name
    one, two = (comparable(rows_of(x / "progress.csv")) for x in (folder, finished))
    assert one == two


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--steps", "600"], "is at step 600 of 600: set --steps to go further"),
        (["--steps", "900", "--lr", "0.1"], "'lr' of a run that goes on cannot change"),
        (["--steps", "900", "--num_envs", "2"], "'num_envs' of a run that goes on cannot change"),
        (["--stepz", "900"], "unknown key 'stepz'"),
    ],
)
def test_what_a_run_cannot_go_on_with_is_one_line(
    finished: Path, words: list[str], said: str
) -> None:
    done = cli("resume", str(finished), *words)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_a_finished_run_goes_further(finished: Path) -> None:
    done = cli("resume", str(finished), "--steps", "800", "--visdom", "off")
    assert done.returncode == 0, done.stderr
    assert "going on from step 600" in done.stdout
    assert int(rows_of(finished / "progress.csv")[-1]["step"]) == 800
    assert json.loads((finished / "config.json").read_text())["options"]["steps"] == 800
