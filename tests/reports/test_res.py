"""Reports of users about what is saved, each kept from coming back. Named after their ids.

How much saving takes is in test_res_size.py, and how runs are taken up again in test_res_resume.py;
the reports' CounterPixel-v0 is the toy counter with pixels.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import main
from core.checkpoint import SUFFIX, Checkpoints, load
from core.storage.log import Log
from tests.core.test_checkpoint import kill_while_saving
from tests.harness import COUNTER, Run, flags, only_folder
from utils.options import CONFIGS

PIXELS: dict[str, Any] = {
    **COUNTER, "observation": "pixels", "size": 84, "frame_codec": "raw", "train_interval": 50,
    "eval_freq": 0, "checkpoint_seconds": 0, "log_freq": 1_000,
}  # fmt: skip


@pytest.fixture(autouse=True)
def short_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.report.EPISODES", 2)


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


# RES-04: each checkpoint held the whole replay, and snapshots grew to gigabytes.

CAPACITY = 5_000


# two commits are kept: once the memory is full, an interval between checkpoints beside it
@pytest.mark.parametrize(("steps", "freq"), [(CAPACITY, CAPACITY // 5), (8_000, CAPACITY // 10)])
def test_res_04_the_replay_is_on_disk_once(tmp_path: Path, steps: int, freq: int) -> None:
    # pass: run folder <= 1.3 x one replay + k x weights
    keys = {"memory_limit": CAPACITY, "steps": steps, "checkpoint_freq": freq, "keep_last": 2}
    run = Run(tmp_path, PIXELS, **keys).go()
    replay = run.result["memory_bytes"]
    assert replay > CAPACITY * 84 * 84
    assert len(Checkpoints(run.folder.checkpoints).by_age()) == 2
    tree = load(Checkpoints(run.folder.checkpoints).by_age()[0])
    weights = sum(array.nbytes for array in tree["weights"].values())
    assert weights < replay / 50, "what is measured is the replay"
    assert bytes_of(run.folder.path) <= 1.3 * replay + 2 * weights


def test_res_04_the_disk_takes_no_more_than_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # right: replay on disk is written once and updated
    keys = {"memory_limit": 1_000, "steps": 4_000, "checkpoint_freq": 1_000}
    monkeypatch.setitem(CONFIGS, "pixels", {**PIXELS, **keys})
    assert main.run(["plan", "pixels", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["tiers"]["disk"]
    drop, found = Log._drop_segments, []
    monkeypatch.setattr(
        Log, "_drop_segments", lambda self: [found.append(bytes_of(self.folder)), drop(self)]
    )
    Run(tmp_path, PIXELS, **keys).go()
    assert len(found) == 4
    assert 1_000 * 84 * 84 < max(found) <= said


# RES-07: a kill while saving left a broken file, and the last good one was gone.


def test_res_07_a_kill_while_saving_loses_nothing(tmp_path: Path) -> None:
    delays = np.random.default_rng(1).uniform(0, 0.05, 10).tolist()
    found = kill_while_saving(tmp_path, delays)
    assert len(found) == 20
    assert all(loaded >= said for said, loaded in found)
    # a kill between writing the newest and letting the oldest go leaves three
    newest, older, *_ = Checkpoints(tmp_path).by_age()
    newest.write_bytes(newest.read_bytes()[:1000])
    said: list[str] = []
    tree = Checkpoints(tmp_path).load("last", said.append)
    assert f"{tree['step']}" in older.name
    assert len(said) == 1
    assert newest.name in said[0]


# RES-08: checkpoints no longer loaded once the safe loader was the default.

FRESH = """
import sys
from safetensors.numpy import load_file
arrays = load_file(sys.argv[1])
ours = [name for name in sys.modules if name.split(".")[0] in ("core", "agents", "models", "torch")]
assert not ours and "pickle" not in open(sys.argv[1], "rb").read(4096).decode("latin-1")
print({name: array.tolist() for name, array in sorted(arrays.items())})
"""


def test_res_08_a_checkpoint_needs_no_class_of_ours(tmp_path: Path) -> None:
    weights = {"layer.weight": np.arange(4.0).reshape(2, 2), "layer.bias": np.zeros(2)}
    Checkpoints(tmp_path).save_best({"agent": {"weights": weights, "updates": 3}}, 1)
    done = subprocess.run(
        [sys.executable, "-I", "-c", FRESH, str(tmp_path / f"best{SUFFIX}")],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(
        {
            "agent/weights/layer.bias": [0.0, 0.0],
            "agent/weights/layer.weight": [[0.0, 1.0], [2.0, 3.0]],
        }
    )


KINDS = {
    ".safetensors": None, ".sqlite": b"SQLite format 3\0", ".bin": b"RGNE", ".json": b"{",
    ".csv": b"step,", ".png": b"\x89PNG", ".txt": b"20",
}  # fmt: skip
"""Files of a run, and how they begin; a safetensors file with the length of a header, and `{`."""


def test_res_08_a_run_holds_no_pickle(tmp_path: Path) -> None:
    keys = {"steps": 400, "learn_start": 100, "eval_freq": 200, "visdom": "off", "runs": tmp_path}
    assert main.run(["dqn_cartpole", *flags(**keys)]) == 0
    paths = [path for path in only_folder(tmp_path).rglob("*") if path.is_file()]
    assert {path.suffix for path in paths} == set(KINDS)
    for path in paths:
        head = path.read_bytes()[:16]
        assert not head.startswith((b"\x80", b"PK")), f"{path.name} is a pickle, or a zip of one"
        begins = KINDS[path.suffix]
        assert head[8:9] == b"{" if begins is None else head.startswith(begins), path.name
