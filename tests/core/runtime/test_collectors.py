"""A run with collectors is the run without, as far as it can be."""

from pathlib import Path
from typing import Any

import pytest

from tests.harness import CHAIN, Run, comparable

PARALLEL: dict[str, Any] = {"storage": "shared", "runtime": "parallel"}
LANES: dict[str, Any] = {"num_envs": 4, "train_interval": 8, "updates": 2, "steps": 600}


def run(runs: Path, **keys: Any) -> Run:
    return Run(runs, {**CHAIN, **LANES, "storage": "shared", **keys}).go()


def test_one_collector_in_lockstep_is_the_serial_run_to_the_bit(tmp_path: Path):
    serial = run(tmp_path / "serial")
    parallel = run(tmp_path / "parallel", runtime="parallel", lockstep=True)
    assert serial.result["steps"] == 600 and serial.result["updates"] > 100
    assert comparable(parallel.rows) == comparable(serial.rows)
    for name, array in serial.parts.agent.weights().items():
        assert (parallel.parts.agent.weights()[name] == array).all(), name
    assert parallel.result["infos"] == serial.result["infos"]


def test_collectors_in_lockstep_are_the_same_every_time(tmp_path: Path):
    keys = {"runtime": "parallel", "lockstep": True, "num_collectors": 2, "steps": 300}
    first, second = (run(tmp_path / name, **keys) for name in ("one", "two"))
    assert comparable(first.rows) == comparable(second.rows)
    assert first.result["policy_lag_max"] == 0  # all act with the newest weights


@pytest.mark.parametrize("lag", [1, 4])
def test_collectors_at_their_own_pace_keep_to_the_ratio_and_the_lag(tmp_path: Path, lag: int):
    done = run(tmp_path, runtime="parallel", num_collectors=2, max_policy_lag=lag)
    steps, updates = done.result["steps"], done.result["updates"]
    assert steps >= 600
    # two updates every eight steps from the step on at which the memory has 50: none left out
    begun = next(step for step in range(50, 80) if step % 8 == 0)
    assert abs(updates - 2 * (1 + (steps - begun) // 8)) <= 2 * LANES["updates"]
    # who is quicker is so far ahead of the slowest, before its step, with the newest weights then,
    # and again while that step is being made
    assert done.result["policy_lag_max"] <= 2 * (1 + 2 * (lag + 2) * 4 // 8)
    done.parts.memory.check()
    assert done.result["restarts"] == 0
    assert int(done.rows[-1]["episodes"]) > 10


def test_more_episodes_may_end_at_once_than_the_window_holds(tmp_path: Path):
    world = {
        "game": "counter",
        "size": 4,
        "episode_length": 7,
        "ending": "truncate",
        "steps": 2_000,
    }
    lanes = {"num_envs": 128, "memory_limit": 4_000, "eval_freq": 0, "lockstep": True}
    done = run(tmp_path, runtime="parallel", **world, **lanes)
    assert int(done.rows[-1]["episodes"]) == 2_048 // (128 * 7) * 128
    assert float(done.rows[-1]["length_mean"]) == 7


def test_a_run_with_collectors_goes_on_from_its_log(tmp_path: Path):
    from core.checkpoint import Checkpoints
    from core.runtime import serial

    first = run(tmp_path, runtime="parallel", num_collectors=2)
    rows = first.parts.memory.rows
    checkpoint = Checkpoints(first.folder.checkpoints).load("last", lambda line: None)
    again = Run.__new__(Run)
    again.settings = first.settings.__class__(
        **{**vars(first.settings), "run": first.options.model_copy(update={"steps": 900})}
    )
    from tests.harness import Quiet, never
    from utils.assemble import build

    parts = build(again.settings)
    display = Quiet()
    serial.run("row", parts, again.settings.run, first.folder, display, never, checkpoint)
    assert first.result["steps"] >= 900
    assert first.result["policy_lag_max"] <= 8  # a collector that is not there yet counts for none
    assert parts.memory.rows > 0 and rows > 0
    assert any("going on from step" in line for line in display.lines)
    assert any("the open episodes cannot go on" in line for line in display.lines)
    parts.memory.check()
