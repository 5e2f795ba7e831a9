"""Collectors that fail, hang or are killed: one cause, a code that is not 0, nothing left."""

import gc
import json
import os
import re
import signal
import subprocess
import time
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.errors import RunFailedError
from tests.harness import EMPTY, Run, cli, flags, start_cli, wait_until

SOON = 20.0
"""Seconds: what a run takes to notice, with the time to start its processes on a busy machine."""
ROW: dict[str, Any] = {
    **EMPTY,
    "env_type": "gym",
    "memory_limit": 2_000,
    "storage": "shared",
    "runtime": "parallel",
    "num_envs": 2,
    "num_collectors": 2,
    "steps": 100_000_000,
    "eval_freq": 0,
    "checkpoint_freq": 0,
    "log_freq": 1_000,
}
del ROW["size"]


def world(name: str) -> str:
    return f"tests.faults.worlds:{name}-v0"


def processes() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def fails(runs: Path, name: str, **keys: Any) -> tuple[str, Run, float]:
    """A run that fails; gives what its error says, itself, and the seconds that it took."""
    run = Run(runs, {**ROW, "game": world(name)}, **keys)
    resource_tracker.ensure_running()  # Python's own, one a process, which ends with it
    files, before = open_files(), processes()
    begun = time.monotonic()
    with pytest.raises(RunFailedError) as raised:
        run.go()
    seconds = time.monotonic() - begun
    said = str(raised.value)
    del raised  # its traceback holds what the run held
    gc.collect()
    assert processes() == before, "processes are left"
    assert open_files() == files, "descriptors are left"
    assert run.result["status"] == run.status["state"] == "failed"
    return said, run, seconds


@pytest.mark.parametrize(("name", "steps"), [("RaisesFirst", 0), ("RaisesLate", 1_900)])
def test_an_error_of_a_collector_is_the_runs_own(tmp_path: Path, name: str, steps: int):
    error, run, seconds = fails(tmp_path, name)
    assert re.fullmatch(r"collector [01] failed: ZeroDivisionError: the world fell apart", error)
    assert "Traceback" in run.log and 'raise ZeroDivisionError("the world' in run.log
    assert run.result["steps"] >= steps
    assert seconds < SOON


def test_an_environment_that_cannot_be_built_there_is_one_line(tmp_path: Path):
    error, _, seconds = fails(tmp_path, "Unbuilt")
    assert "ZeroDivisionError: the world was never made" in error
    assert seconds < SOON


def test_a_step_that_hangs_is_ended_and_named(tmp_path: Path):
    error, _, seconds = fails(tmp_path, "Hangs", env_timeout=1)
    assert "a step takes more than 1 s (env_timeout)" in error
    assert seconds < SOON


def test_a_step_that_hangs_while_all_are_to_stand_still_is_ended_too(tmp_path: Path):
    said, _, seconds = fails(tmp_path, "Hangs", env_timeout=1, checkpoint_freq=1)
    assert "a step takes more than 1 s (env_timeout)" in said
    assert seconds < SOON


def test_building_for_longer_than_a_step_may_take_is_no_fault(tmp_path: Path):
    keys = {"num_envs": 1, "num_collectors": 1, "env_timeout": 1, "steps": 60}
    run = Run(tmp_path, {**ROW, "game": world("SlowlyBuilt")}, **keys).go()
    assert run.result["status"] == "finished"


def test_a_killed_collector_is_noticed(tmp_path: Path):
    error, _, seconds = fails(tmp_path, "Dies")
    assert "killed by signal 9" in error
    assert seconds < SOON


def test_restarts_carry_a_run_to_its_end_and_its_memory_stays_whole(tmp_path: Path):
    keys = {"num_envs": 1, "num_collectors": 1, "max_restarts": 3, "steps": 500, "log_freq": 100}
    run = Run(tmp_path, {**ROW, "game": world("Dies")}, **keys).go()
    assert run.result["status"] == "finished"
    assert run.result["restarts"] == 3
    # the step that kills is written by nobody: each life has one less
    assert 500 <= run.result["steps"] <= 502
    run.parts.memory.check()
    told = [line for line in run.display.lines if line.startswith("collector 0 failed (killed by")]
    assert len(told) == 3


def test_one_restart_too_few_is_a_failure(tmp_path: Path):
    keys = {"num_envs": 1, "num_collectors": 1, "max_restarts": 1, "steps": 500}
    _, run, _ = fails(tmp_path, "Dies", **keys)
    assert run.result["restarts"] == 1


CARTPOLE = {
    "runtime": "parallel",
    "storage": "shared",
    "num_envs": 2,
    "num_collectors": 2,
    "steps": 100_000_000,
    "eval_freq": 0,
    "checkpoint_freq": 500,
    "learn_start": 100,
    "train_interval": 16,
    "updates": 2,
    "visdom": "off",
}


@pytest.fixture(name="running")
def _running(tmp_path: Path):
    """A run that would not end by itself, some hundred steps in, and its collectors."""
    child = start_cli("dqn_cartpole", *flags(**CARTPOLE, runs=tmp_path))
    try:
        wait_until(lambda: any(tmp_path.glob("*/checkpoints/step-*.safetensors")), 60)
        collectors = [
            process
            for process in psutil.Process(child.pid).children()
            if "spawn_main" in " ".join(process.cmdline())
        ]
        assert len(collectors) == 2
        yield child, collectors
    finally:
        child.kill()
        child.communicate()


def gone(processes: list[psutil.Process], seconds: float) -> bool:
    return not psutil.wait_procs(processes, timeout=seconds)[1]


def finish(child: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, error = child.communicate(timeout=30)
    return child.returncode, out, error


def test_a_killed_learner_takes_its_collectors_along(running):
    child, collectors = running
    child.kill()
    child.wait()
    assert gone(collectors, 2.0)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [((signal.SIGINT,), 130), ((signal.SIGINT, signal.SIGINT), 130), ((signal.SIGTERM,), 143)],
)
def test_a_stopped_run_ends_in_order(
    running, tmp_path: Path, numbers: tuple[signal.Signals, ...], expected: int
):
    child, collectors = running
    for number in numbers:
        os.killpg(child.pid, number)  # as a terminal does, or a service: all of its processes
        time.sleep(0.05)
    code, _, error = finish(child)
    assert (code, error) == (expected, "")
    assert gone(collectors, 2.0)
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "result.json").read_text())["status"] == "interrupted"


def test_a_killed_collector_ends_the_run(running):
    child, collectors = running
    begun = time.monotonic()
    collectors[1].kill()
    code, _, error = finish(child)
    assert time.monotonic() - begun < SOON
    assert code != 0
    assert error.count("\n") == 1
    assert "failed: killed by signal 9" in error
    assert gone(collectors, 2.0)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"num_envs": 8, "num_collectors": 3}, "num_collectors that divides num_envs 8"),
        ({"storage": "heap"}, "set --storage shared"),
        ({"runtime": "serial"}, "with runtime parallel alone"),
    ],
)
def test_what_cannot_work_is_one_line(tmp_path: Path, keys: dict[str, Any], said: str):
    done = cli("dqn_cartpole", *flags(**{**CARTPOLE, **keys}, runs=tmp_path))
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
