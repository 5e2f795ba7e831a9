"""A run that is stopped and taken up again is the run that was never stopped."""

import time
from pathlib import Path
from typing import Any

import pytest

from core.checkpoint import Checkpoints, load
from core.errors import UsageError
from core.memories.sequential import SequentialMemory
from core.memory_log import MemoryLog
from core.run_folder import RunFolder
from core.runtime.serial import run
from core.types import Array
from tests.harness import CHAIN, COUNTER, EMPTY, Run, comparable, equal_trees, rows_of
from utils.assemble import build
from utils.options import CONFIGS

SHORT: dict[str, Any] = {
    "visdom": "off", "eval_episodes": 2, "checkpoint_freq": 0, "checkpoint_seconds": 0,
}  # fmt: skip
ROWS: dict[str, dict[str, Any]] = {
    "chain": {**CHAIN, "steps": 600, "num_envs": 3},
    "counter": {**COUNTER, "observation": "pixels", "size": 20, "steps": 600, "window_length": 3,
                "model_type": "dqn-mlp", "ending": "truncate"},
    "disk": {**COUNTER, "observation": "pixels", "size": 20, "steps": 600, "storage": "disk"},
    "empty": {**EMPTY, "steps": 600, "num_envs": 2},
    "cartpole": {**CONFIGS["dqn_cartpole"], "steps": 1_200, "learn_start": 100, "eval_freq": 500,
                 "log_freq": 100},
    "acer": {**CONFIGS["acer_cartpole"], "steps": 2_000, "replay_start": 200, "eval_freq": 800,
             "log_freq": 200},
    "es": {**CONFIGS["es_cartpole"], "steps": 3_000, "eval_freq": 1_000, "log_freq": 300},
    "cem": {**CONFIGS["cem_cartpole"], "steps": 3_000, "eval_freq": 1_000, "log_freq": 300},
}  # fmt: skip


class Wall:
    """The clock on the wall as a test moves it, and the processor's as it is."""

    def __init__(self, seconds: list[float]) -> None:
        self.monotonic = lambda: seconds[0]
        self.perf_counter = time.perf_counter


class Until:
    """Says stop once the clock has reached a step."""

    def __init__(self, clock, step: int) -> None:
        self._clock, self._step = clock, step

    def __call__(self) -> bool:
        return self._clock.step >= self._step


def go_on(done: Run, stop_at: int | None = None) -> Run:
    """A run taken up from its folder, as a fresh process does."""
    other = Run.__new__(Run)
    other.settings, other.options = done.settings, done.options
    other.parts = build(done.settings, lambda: done.folder.replay)
    other.folder, other.display = RunFolder(done.folder.path), type(done.display)()
    checkpoint = Checkpoints(other.folder.checkpoints).load("last", other.display.say)
    stop = Until(other.parts.clock, stop_at) if stop_at else (lambda: False)
    run("row", other.parts, other.options, other.folder, other.display, stop, checkpoint)
    return other


def stopped(runs: Path, row: str, step: int, **keys: Any) -> Run:
    begun = Run(runs, {**ROWS[row], **SHORT}, **keys)
    return begun.go(Until(begun.parts.clock, step))


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("share", [0.13, 0.61])
def test_it_goes_on_identically(tmp_path: Path, row: str, share: float) -> None:
    whole = Run(tmp_path / "whole", {**ROWS[row], **SHORT}).go()
    at = int(ROWS[row]["steps"] * share)
    parted = go_on(stopped(tmp_path / "parted", row, at))
    assert parted.result["status"] == "finished"
    assert comparable(parted.rows) == comparable(whole.rows)
    for name in ("eval_return_mean", "last_eval_return_mean", "best_step", "updates"):
        assert parted.result[name] == whole.result[name], name
    one, two = (load(Checkpoints(x.folder.checkpoints).by_age()[0]) for x in (whole, parted))
    assert equal_trees(one["weights"], two["weights"])


def test_it_may_be_stopped_often(tmp_path: Path) -> None:
    whole = Run(tmp_path / "whole", {**ROWS["chain"], **SHORT}).go()
    parted = stopped(tmp_path / "parted", "chain", 40)
    for step in (41, 100, 250, 251, 599):
        parted = go_on(parted, step)
    assert comparable(go_on(parted).rows) == comparable(whole.rows)


def test_stopped_within_an_evaluation_it_looks_again(tmp_path: Path) -> None:
    whole = Run(tmp_path / "whole", {**ROWS["chain"], **SHORT}).go()
    parted = stopped(tmp_path / "parted", "chain", 100)  # an evaluation comes with that step
    assert parted.rows[-1]["eval_return_mean"] == "" != whole.rows[1]["eval_return_mean"]
    assert comparable(go_on(parted).rows) == comparable(whole.rows)


def test_without_the_memory_it_is_filled_anew_and_says_so(tmp_path: Path) -> None:
    first = stopped(tmp_path, "chain", 300, checkpoint_memory=False)
    assert not first.folder.replay.exists()
    second = go_on(first)
    assert any("filled anew" in line for line in second.display.lines)
    assert second.result["status"] == "finished"
    updates = [int(row["updates"]) for row in second.rows]
    assert updates[5] <= updates[6] < updates[-1]


def test_weights_alone_are_no_run(tmp_path: Path) -> None:
    first = stopped(tmp_path, "chain", 300)
    tree = dict(load(Checkpoints(first.folder.checkpoints).by_age()[0]))
    del tree["run"]
    checkpoints = Checkpoints(first.folder.checkpoints)
    checkpoints.save_last(tree, 300)
    with pytest.raises(UsageError, match="no run to go on from"):
        go_on(first)


def test_a_commit_beyond_the_checkpoint_is_passed_over(tmp_path: Path) -> None:
    """Killed after the memory was committed, and before the checkpoint was written."""
    whole = Run(tmp_path / "whole", {**ROWS["chain"], **SHORT}).go()
    first = stopped(tmp_path / "parted", "chain", 200)
    kept = Checkpoints(first.folder.checkpoints).by_age()[0].read_bytes()
    second = go_on(first, 300)
    for path in Checkpoints(second.folder.checkpoints).by_age():
        path.unlink()
    (first.folder.checkpoints / "step-000000000200.safetensors").write_bytes(kept)
    assert comparable(go_on(second).rows) == comparable(whole.rows)
    assert rows_of(first.folder.progress) == second.rows


def test_learning_that_began_goes_on_in_a_memory_that_holds_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where bytes are bounded, a lane's oldest rows may go, many at once, before it is full."""
    monkeypatch.setattr(SequentialMemory, "ready", lambda self, units: 100 <= self.rows < 200)
    keys = {"memory_limit": 1_000, "num_envs": 1}
    whole = Run(tmp_path / "whole", {**ROWS["chain"], **SHORT, **keys}).go()
    parted = go_on(stopped(tmp_path / "parted", "chain", 300, **keys))
    assert comparable(parted.rows) == comparable(whole.rows)
    assert int(whole.rows[-1]["updates"]) > 400


def test_a_checkpoint_comes_by_the_clock_on_the_wall_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Run(tmp_path, {**CHAIN, "checkpoint_freq": 0, "checkpoint_seconds": 3, "steps": 100})
    step = made.parts.env.step
    seconds, saved = [0.0], []

    def slow(actions: Array, *rest: Any) -> Any:
        seconds[0] += 0.125
        return step(actions, *rest)

    save = Checkpoints.save_last
    monkeypatch.setattr(made.parts.env, "step", slow)
    monkeypatch.setattr("core.recorder.time", Wall(seconds))
    monkeypatch.setattr(
        Checkpoints, "save_last", lambda self, tree, at: [saved.append(at), save(self, tree, at)]
    )
    made.go()
    assert saved == [24, 48, 72, 96, 100]


def test_a_memory_on_disk_is_saved_before_its_spare_blocks_are_used_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.storage.layout.LEAST_BLOCK", 700)
    monkeypatch.setattr("core.storage.layout.PAGE", 64)
    keys: dict[str, Any] = {
        "steps": 2_000, "memory_limit": 300, "checkpoint_freq": 1_000, "checkpoint_seconds": 0,
        "eval_freq": 0, "chunk_frames": 4, "learn_start": 100, "train_interval": 100,
    }  # fmt: skip
    made = Run(tmp_path, ROWS["disk"], **keys)
    commits: list[int] = []
    commit = MemoryLog.commit

    def counted(self: MemoryLog, extra: Any) -> None:
        commits.append(extra["step"])
        commit(self, extra)

    monkeypatch.setattr(MemoryLog, "commit", counted)
    made.go()
    assert made.result["status"] == "finished"
    assert commits[0] == 1_000, "nothing is held before there is a commit"
    assert 4 < len(commits) < 60
    assert made.result["memory_rows"] == 300
