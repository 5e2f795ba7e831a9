"""Whole runs, killed at random moments and taken up again from the command line."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import SOAK
from tests.harness import cli, comparable, flags, only_folder, rows_of, start_cli

KILLS = 12 if SOAK else 2
KEYS: dict[str, dict[str, Any]] = {
    "dqn_cartpole": {"steps": 1_500, "eval_freq": 600, "learn_start": 200, "log_freq": 100,
                     "checkpoint_freq": 200},
    "acer_cartpole": {"steps": 3_000, "eval_freq": 1_400, "replay_start": 500, "log_freq": 200,
                      "checkpoint_freq": 400},
    "es_cartpole": {"steps": 3_000, "eval_freq": 1_400, "log_freq": 200, "checkpoint_freq": 400},
    "dqn_catch": {"steps": 2_000, "eval_freq": 900, "log_freq": 200, "checkpoint_freq": 400,
                  "game": "counter", "observation": "pixels", "size": 20},
}  # fmt: skip


def killed(row: str, runs: Path, rng: np.random.Generator, *command: str) -> None:
    """Starts a command and kills it once the run has saved, some moment later."""
    child = (
        start_cli(*command, "--visdom", "off")
        if command
        else start_cli(row, *flags(**KEYS[row], visdom="off", runs=runs))
    )
    deadline = time.monotonic() + 60
    while not list(runs.glob("*/checkpoints/step-*")) and child.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(rng.uniform(0, 1.5))
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("row", KEYS)
def test_a_killed_run_ends_as_if_it_had_not_been(tmp_path: Path, row: str) -> None:
    rng = np.random.default_rng(len(row))
    done = cli(row, *flags(**KEYS[row], visdom="off", runs=tmp_path / "whole"), timeout=300)
    assert done.returncode == 0, done.stderr
    runs = tmp_path / "parted"
    killed(row, runs, rng)
    folder = only_folder(runs)
    for _ in range(KILLS - 1):
        if not (folder / "result.json").exists():
            killed(row, runs, rng, "resume", str(folder))
    if not (folder / "result.json").exists():
        done = cli("resume", str(folder), "--visdom", "off", timeout=300)
        assert done.returncode == 0, done.stderr
    whole = only_folder(tmp_path / "whole")
    assert comparable(rows_of(folder / "progress.csv")) == comparable(
        rows_of(whole / "progress.csv")
    )
    one, two = (json.loads((x / "result.json").read_text()) for x in (whole, folder))
    for name in ("eval_return_mean", "last_eval_return_mean", "best_step", "updates", "steps"):
        assert one[name] == two[name], name


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("finished")
    keys = {**KEYS["dqn_cartpole"], "steps": 600, "eval_freq": 0}
    done = cli("dqn_cartpole", *flags(**keys, visdom="off", runs=runs))
    assert done.returncode == 0, done.stderr
    return only_folder(runs)


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
