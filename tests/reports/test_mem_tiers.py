"""Reports of users about memories that are shared or on disk, each kept from coming back.

The reports' CounterPixel-v0 is the toy counter with pixels.
"""

import errno
import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

import main
from core.limits import Usable
from core.rollout import Rollout
from core.storage.log import Log
from tests.conftest import SOAK
from tests.harness import CHAIN, cli, flags, only_folder
from tests.live.worlds import World, at_work, reading, write, writing
from utils.options import CONFIGS

MB = 10**6
A_STEP = 84 * 84 + 16
PIXELS: dict[str, Any] = {
    **CHAIN, "game": "counter", "observation": "pixels", "size": 84, "frame_codec": "raw",
    "memory_limit": 2_000, "steps": 3_000, "learn_start": 200, "train_interval": 50,
    "eval_freq": 0, "log_freq": 500, "checkpoint_freq": 400,
}  # fmt: skip


@pytest.fixture(autouse=True)
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONFIGS, "pixels", PIXELS)
    monkeypatch.setattr("core.report.EPISODES", 2)


@pytest.fixture
def no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails the test where a run takes a step."""

    def step(*_: Any) -> int:
        pytest.fail("a step was taken")

    monkeypatch.setattr(Rollout, "step", step)
    monkeypatch.setattr(Rollout, "begin", step)


# MEM-10: each loader kept a copy of the replay of its own.


def tree_bytes(size: int) -> int:
    """PSS of a learner, a collector and a reader with a shared memory of that size, full."""
    rows = size // A_STEP
    world = World(side=84, codec="raw", rows=rows)
    memory = world.memory()
    written = write(memory.writer(), world, 0, rows + 200, lambda: False)
    work = [(writing, (memory.writer(), world, written)), (reading, (memory, world, 256))]
    with at_work(work) as children:
        for _ in range(3 * rows // 256):  # every page is touched
            memory.sample(256, columns=["obs"])
        pids = [os.getpid(), *(process.pid for process in children.processes)]
        taken = sum(psutil.Process(pid).memory_full_info().pss for pid in pids)
        children.stopped()
    return taken


@pytest.mark.timeout(300)
def test_mem_10_all_processes_read_one_ring() -> None:
    # pass: sum of PSS over the process tree <= same run with an empty store + 1.1 x 200 MB
    store = (200 if SOAK else 80) * MB
    empty = tree_bytes(2 * MB)
    full = tree_bytes(store)
    assert full <= empty + 1.1 * store
    assert full >= empty + 0.8 * store, "it is there, and counted"


# MEM-12: a memory on disk was larger than the disk, and the run was killed late.


class Free(NamedTuple):
    total: int
    used: int
    free: int


def test_mem_12_more_than_the_disk_has_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    no_step: None,
) -> None:
    # pass (a): refusal before step 1
    monkeypatch.setattr(
        "utils.planning.shutil.disk_usage", lambda path: Free(10**12, 10**12, 100 * MB)
    )
    keys = flags(storage="disk", memory_limit=500 * MB // A_STEP, runs=tmp_path / "runs")
    assert main.run(["pixels", *keys]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert re.search(r"memory_limit with storage disk takes up to 6\d\d\.\d MB in the run's", error)
    assert "100.0 MB are free there; set --runs FOLDER on a larger disk" in error
    assert not (tmp_path / "runs").exists()


def test_mem_12_what_the_disk_does_not_give_after_all_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none_left(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("core.storage.disk.os.posix_fallocate", none_left)
    assert main.run(["pixels", *flags(storage="disk", runs=tmp_path)]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert "has no room for" in error and "No space left on device" in error
    assert list(tmp_path.iterdir()) == [], "no run was begun"


@pytest.mark.parametrize("storage", ["heap", "disk"])
def test_mem_12_a_disk_that_fills_up_ends_the_run_and_keeps_its_checkpoint(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    storage: str,
) -> None:
    # pass (b): exit != 0, message, checkpoint loads, no SIGBUS
    append, appended = Log.append, 0

    def until_full(self: Log, key: Any, *parts: Any) -> None:
        nonlocal appended
        appended += key.rows * (key.column == 0)
        if appended > 1_000:
            with self._failing():
                raise OSError(errno.ENOSPC, "No space left on device")
        append(self, key, *parts)

    monkeypatch.setattr(Log, "append", until_full)
    assert main.run(["pixels", *flags(storage=storage, runs=tmp_path)]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "takes no more: [Errno 28] No space left on device; the commit before stays" in error
    monkeypatch.undo()
    monkeypatch.setitem(CONFIGS, "pixels", PIXELS)
    monkeypatch.setattr("core.report.EPISODES", 2)
    folder = only_folder(tmp_path)
    assert json.loads((folder / "result.json").read_text())["status"] == "failed"
    assert main.run(["resume", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "going on from step 800" in out
    assert "not saved" not in out, "with the memory"
    assert json.loads((folder / "result.json").read_text())["status"] == "finished"


# RUN-09: shared memory was short, and a worker died of a bus error.


def test_run_09_too_little_shared_memory_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    no_step: None,
) -> None:
    # pass: named refusal before step 1; no SIGBUS
    monkeypatch.setattr("utils.planning.usable_memory", lambda: Usable(64 * MB, "free memory"))
    keys = flags(storage="shared", memory_limit=200 * MB // A_STEP, runs=tmp_path / "runs")
    assert main.run(["pixels", *keys]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert "memory_limit takes up to 200.0 MB when full" in error
    assert "taken at once as shared memory" in error
    assert re.search(r"--storage disk \(2\d\d\.\d MB of it\)", error), "raw, as was asked"
    assert not (tmp_path / "runs").exists()


def test_run_09_what_the_system_does_not_give_after_all_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def few() -> Usable:
        return Usable(5 * MB, "free memory")

    monkeypatch.setattr("core.storage.shared.usable_memory", few)
    assert main.run(["pixels", *flags(storage="shared", runs=tmp_path)]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert "storage shared takes 14.1 MB at once, and 5.0 MB are usable" in error
    assert list(tmp_path.iterdir()) == [], "no run was begun"


def test_run_09_the_size_of_dev_shm_does_not_matter(tmp_path: Path) -> None:
    before = set(Path("/dev/shm").iterdir())
    world = World(side=84, codec="raw", rows=20 * MB // A_STEP)
    memory = world.memory()
    write(memory.writer(), world, 0, 100, lambda: False)
    assert set(Path("/dev/shm").iterdir()) == before, "nothing there could be left behind"


# And what all this is for: a memory larger than the process may become.


@pytest.mark.timeout(900)
def test_a_memory_three_times_the_cap_trains_within_the_cap(tmp_path: Path) -> None:
    cap, side = 420 * MB, 84 if SOAK else 200
    rows = 3 * cap // side**2 + 1
    keys = flags(
        game="counter", observation="pixels", size=side, frame_codec="raw", storage="disk",
        memory_limit=rows, memory_cap="420MB", steps=rows + 2_000, learn_start=1_000,
        train_interval=rows // 80, num_envs=8, eval_freq=0, log_freq=2_000, checkpoint_freq=8_000,
        model_type="dqn-mlp", hidden_sizes="16", runs=tmp_path, visdom="off",
    )  # fmt: skip
    done = cli("dqn_catch", *keys, timeout=800)
    assert done.returncode == 0, done.stderr
    result = json.loads((only_folder(tmp_path) / "result.json").read_text())
    assert result["memory_rows"] * side**2 >= 3 * cap * 0.999
    assert result["updates"] > 50
    assert result["peak_private_bytes"] <= cap
