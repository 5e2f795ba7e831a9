"""Reports of users about saving and resuming, each kept from coming back. Named after their ids."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from core.checkpoint import SUFFIX, Checkpoints
from tests.core.test_checkpoint import kill_while_saving


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
