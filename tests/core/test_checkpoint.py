"""Checkpoints: what comes back, what is refused, and what a kill leaves."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.checkpoint import (
    HEADER,
    SUFFIX,
    BrokenCheckpointError,
    Checkpoints,
    check_finite,
    flatten,
    load,
    save,
    unflatten,
)
from core.errors import RunFailedError
from core.seeding import SeedTree, generator_state

from ..conftest import examples

ROOT = Path(__file__).resolve().parents[2]


def assert_equal(found, wanted) -> None:
    """Two trees, to the bit."""
    assert type(found) is type(wanted)
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            assert_equal(found[key], value)
    elif isinstance(wanted, np.ndarray):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert found.tobytes() == wanted.tobytes()
    else:
        assert found == wanted


TREE = {
    "agent": {
        "weights": {"layer.0.weight": np.arange(6, dtype=np.float32).reshape(2, 3) / 7},
        "count": np.array(3, np.int64),
        "updates": 17,
        "empty": {},
        "deep": {"er": {"est": {}}},
    },
    "memory": {
        "rng": generator_state(SeedTree(1).generator("sampler")),
        "ring": {
            "records": np.arange(40, dtype=np.uint8).reshape(4, 10),
            "flags": np.array([True, False]),
            "nothing": np.zeros((0, 3)),
            "transposed": np.arange(6.0).reshape(2, 3).T,
            "every_other": np.arange(10)[::2],
            "frames": {},
        },
    },
    "step": 2**60,
    "rate": 0.1,
    "name": "käse/\n",
    "none": None,
    "list": [1, [2.5, "x"], None, True],
}


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    path = tmp_path / f"one{SUFFIX}"
    save(path, TREE)
    assert_equal(load(path), TREE)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("tree", [{}, {"a": {}}, {"a": 1}, {"a": np.zeros(0)}, {"a": np.array(1)}])
def test_small_trees_too(tmp_path: Path, tree) -> None:
    save(tmp_path / "x", tree)
    assert_equal(load(tmp_path / "x"), tree)


NAMES = st.text("ab.:_é ", min_size=1, max_size=4)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**130), 2**130),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=3),
    st.builds(
        lambda shape, dtype: np.arange(np.prod(shape), dtype=float).astype(dtype).reshape(shape),
        st.lists(st.integers(0, 3), max_size=3),
        st.sampled_from(["u1", "i4", "i8", "f4", "f8", "?"]),
    ),
)
TREES = st.recursive(
    st.dictionaries(NAMES, LEAVES, max_size=3),
    lambda below: st.dictionaries(NAMES, st.one_of(LEAVES, below), max_size=3),
    max_leaves=12,
)


@examples(60)
@given(TREES)
def test_any_tree_is_the_same_after_flattening(tree) -> None:
    arrays, plain = flatten(tree)
    assert_equal(unflatten({**arrays, **json.loads(json.dumps(plain))}), tree)


@pytest.mark.parametrize("name", ["", "a/b", "/"])
def test_names_that_would_come_back_as_something_else_are_refused(tmp_path: Path, name) -> None:
    with pytest.raises(ValueError, match="cannot be saved"):
        save(tmp_path / "x", {"deep": {name: 1}})
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_plain_data_is_refused_and_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "x"
    save(path, {"a": 1})
    with pytest.raises(TypeError):
        save(path, {"a": object()})
    assert load(path) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_cut_anywhere_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "cut"
    save(path, {"a": np.arange(9.0), "b": {"c": 5}})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(BrokenCheckpointError, match="cut is"):
            load(path)


def test_any_bit_that_flipped_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "flipped"
    tree = {"a": np.arange(3, dtype=np.float32), "b": {"step": 500, "c": np.array([1], np.uint16)}}
    save(path, tree)
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            broken = bytearray(whole)
            broken[place] ^= 1 << bit
            path.write_bytes(broken)
            with pytest.raises(BrokenCheckpointError, match="flipped "):
                load(path)


def test_a_file_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    for number, metadata in enumerate([None, {"a": "b"}, {HEADER: "{}"}]):
        path = tmp_path / f"other{number}"
        save_file({"x": np.zeros(2)}, path, metadata=metadata)
        with pytest.raises(BrokenCheckpointError, match=f"other{number} is no whole checkpoint"):
            load(path)
    with pytest.raises(BrokenCheckpointError, match="absent is no whole checkpoint"):
        load(tmp_path / "absent")


def test_another_format_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "later"
    monkeypatch.setattr("core.checkpoint.FORMAT", 9)
    save(path, {"a": 1})
    monkeypatch.undo()
    with pytest.raises(BrokenCheckpointError, match="later has format 9, not 1"):
        load(path)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_what_is_not_finite_is_not_saved(tmp_path: Path, wrong: float, dtype: str) -> None:
    checkpoints = Checkpoints(tmp_path)
    good = {"agent": {"weights": {"bias": np.zeros(3, dtype), "count": np.arange(3)}}}
    check_finite(good, 7)
    checkpoints.save_last(good, 7)
    checkpoints.save_best(good, 7)
    before = sorted(tmp_path.iterdir())
    bad = {"agent": {"weights": {"bias": np.array([0, wrong, 0], dtype)}}}
    for write in (checkpoints.save_last, checkpoints.save_best):
        with pytest.raises(RunFailedError, match="'agent/weights/bias' is not finite at step 8"):
            write(bad, 8)
    assert sorted(tmp_path.iterdir()) == before


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_few_are_kept_beside_the_best(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "deep" / "er", keep=2)
    checkpoints.save_best({"step": 9}, 9)
    for step in (9, 10, 100, 1000):
        checkpoints.save_last({"step": step}, step)
    assert names(checkpoints.folder) == [
        "best.safetensors", "step-000000000100.safetensors", "step-000000001000.safetensors",
    ]  # fmt: skip
    said: list[str] = []
    assert checkpoints.load("last", said.append) == {"step": 1000}
    assert checkpoints.load("best", said.append) == {"step": 9}
    assert not said
    checkpoints.save_best({"step": 12}, 12)
    assert checkpoints.load("best", said.append) == {"step": 12}


def test_a_broken_one_is_named_and_passed_over(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step in (1, 2, 3):
        checkpoints.save_last({"step": step}, step)
    checkpoints.save_best({"step": 2}, 2)
    newest, older, _ = checkpoints.by_age()
    newest.write_bytes(newest.read_bytes()[:-3])
    older.write_bytes(b"")
    said: list[str] = []
    assert checkpoints.load("last", said.append) == {"step": 1}
    assert [newest.name in said[0], older.name in said[1], len(said)] == [True, True, 2]
    (tmp_path / f"best{SUFFIX}").write_bytes(b"gone")
    said.clear()
    assert checkpoints.load("best", said.append) == {"step": 1}
    assert "best" in said[0]


def test_where_nothing_is_whole_it_is_said(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for which in ("best", "last"):
        with pytest.raises(BrokenCheckpointError, match="holds no whole checkpoint"):
            checkpoints.load(which, lambda _: None)


@pytest.mark.parametrize("keep", [1, 2])
def test_a_run_that_went_back_does_not_lose_what_it_saves(tmp_path: Path, keep: int) -> None:
    checkpoints = Checkpoints(tmp_path, keep)
    for step in (10, 20, 30):
        checkpoints.save_last({"step": step}, step)
    for path in checkpoints.by_age():
        if "30" in path.name:
            path.write_bytes(b"broken")
    # resumed from 20 (or anew): the broken 30 must not push out what is saved now
    for step in (22, 24, 26):
        checkpoints.save_last({"step": step}, step)
        assert checkpoints.load("last", lambda _: None) == {"step": step}
    assert len(checkpoints.by_age()) == keep


def test_what_a_killed_save_left_is_cleared_away(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    (tmp_path / ".step-000000000007.safetensors.999.tmp").write_bytes(b"half")
    checkpoints.save_last({"step": 8}, 8)
    assert names(tmp_path) == ["step-000000000008.safetensors"]


def test_a_file_is_on_the_disk_before_it_takes_the_name(tmp_path: Path, monkeypatch) -> None:
    told = []
    sync, replace = os.fsync, Path.replace

    def watched_sync(handle: int) -> None:
        told.append(("sync", str(Path(f"/proc/self/fd/{handle}").readlink())))
        sync(handle)

    def watched_replace(self: Path, target: Path) -> Path:
        told.append(("rename", str(self)))
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", watched_sync)
    monkeypatch.setattr(Path, "replace", watched_replace)
    handles = len(list(Path("/proc/self/fd").iterdir()))
    save(tmp_path / "x", {"a": np.zeros(3)})
    temporary = told[0][1]
    assert told == [("sync", temporary), ("rename", temporary), ("sync", str(tmp_path))]
    assert Path(temporary).name.startswith(".x.")
    assert len(list(Path("/proc/self/fd").iterdir())) == handles


def test_a_save_that_failed_half_way_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    def no_space(arrays, path: Path, metadata) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    save(tmp_path / "x", {"a": 1})
    monkeypatch.setattr("core.checkpoint.save_file", no_space)
    with pytest.raises(OSError, match="No space"):
        save(tmp_path / "x", {"a": 2})
    assert names(tmp_path) == ["x"]
    assert load(tmp_path / "x") == {"a": 1}


def test_two_are_kept_unless_told_otherwise(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in range(5):
        checkpoints.save_last({"step": step}, step)
    assert len(checkpoints.by_age()) == 2


SAVING = """
import sys, numpy as np
from pathlib import Path
from core.checkpoint import Checkpoints
checkpoints = Checkpoints(Path(sys.argv[1]))
step = int(sys.argv[2])
while True:
    step += 1
    big = np.full(300_000, step, np.int64)
    checkpoints.save_last({"step": step, "big": big}, step)
    checkpoints.save_best({"step": step, "big": big}, step)
    print(step, flush=True)
"""


def kill_while_saving(folder: Path, delays: list[float]) -> list[tuple[int, int]]:
    """Kills a child that saves in a loop; gives the step it had said, and the step that loads."""
    found, step = [], 0
    for delay in delays:
        child = subprocess.Popen(
            [sys.executable, "-c", SAVING, str(folder), str(step)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        told = [child.stdout.readline()]
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        told += child.stdout.read().split()
        child.wait()
        child.stdout.close()
        for which in ("last", "best"):
            said: list[str] = []
            tree = Checkpoints(folder).load(which, said.append)
            assert not said
            assert (tree["big"] == tree["step"]).all()
            found.append((int(told[-1]), tree["step"]))
        step = found[-1][1]
    return found


def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    delays = np.random.default_rng(0).uniform(0, 0.03, 2).tolist()
    for said, loaded in kill_while_saving(tmp_path, delays):
        assert loaded >= said
