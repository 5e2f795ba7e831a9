"""A number that is not finite ends the run, named with its step; what was saved stays finite."""

import json
from pathlib import Path

import numpy as np
import pytest

import main
from core.checkpoint import RUN, Checkpoints, flatten
from tests.faults.worlds import WHEN
from tests.harness import cli, flags, only_folder
from utils.options import CONFIGS

ROW = {
    "agent_type": "dqn",
    "env_type": "gym",
    "model_type": "dqn-mlp",
    "memory_type": "sequential",
    "memory_limit": 1_000,
    "hidden_sizes": (16,),
    "steps": 600,
    "learn_start": 20,
    "eval_freq": 40,
    "eval_episodes": 2,
    "checkpoint_freq": 50,
    "log_freq": 20,
    "batch_size": 64,
    "train_interval": 1,
    "updates": 1,
    "visdom": "off",
}


def flat_flags(**keys: object) -> list[str]:
    words = {**ROW, **keys, "hidden_sizes": "16"}
    return flags(**words)


def check_what_is_left(folder: Path) -> int:
    """Asserts that the run failed in order; gives the step of its newest checkpoint."""
    result = json.loads((folder / "result.json").read_text(), parse_constant=pytest.fail)
    status = json.loads((folder / "live" / "status.json").read_text(), parse_constant=pytest.fail)
    assert result["status"] == status["state"] == "failed"
    saved = Checkpoints(folder / "checkpoints")
    for which in ("last", "best"):
        arrays = flatten(saved.load(which, pytest.fail))[0]
        # what a run goes on from may be the world's own number, saved before it was drawn
        learnt = [array for name, array in arrays.items() if not name.startswith(f"{RUN}/")]
        assert len(learnt) >= 8 and all(np.isfinite(array).all() for array in learnt)
    assert (folder / "curves.png").is_file() and (folder / "progress.csv").is_file()
    return int(saved.load("last", pytest.fail)["step"])


@pytest.mark.parametrize(
    ("world", "columns"),
    [
        ("NanReward", {"reward"}),
        ("InfiniteReward", {"reward"}),
        ("NanObservation", {"obs", "next_obs"}),
    ],
)
def test_a_world_that_gives_no_number_is_named_with_the_step(
    world: str,
    columns: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setitem(CONFIGS, "faulty", {**ROW, "game": f"tests.faults.worlds:{world}-v0"})
    assert main.run(["faulty", "--runs", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    before, column, _ = error.split("'")
    assert before == "engram: " and column in columns
    step = int(error.rstrip().rpartition(" ")[2])
    assert error.rstrip().endswith(f" of the batch is not finite at step {step}")
    # 64 of some 150 units are drawn each step: it comes up within a few
    assert WHEN <= step <= WHEN + 30
    newest = check_what_is_left(only_folder(tmp_path))
    assert newest == step // 50 * 50 if step % 50 else newest in (step, step - 50)


def test_the_shell_sees_exit_code_1_and_one_line(tmp_path: Path):
    done = cli(
        "dqn_cartpole",
        *flat_flags(game="tests.faults.worlds:NanReward-v0", runs=tmp_path),
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("engram: 'reward' of the batch is not finite at step ")
    assert check_what_is_left(only_folder(tmp_path)) in (100, 150)


def test_a_world_that_raises_fails_the_run_and_keeps_its_traceback(tmp_path: Path):
    done = cli(
        "dqn_cartpole",
        *flat_flags(game="tests.faults.worlds:Raises-v0", runs=tmp_path),
    )
    # that is the world's bug and not the user's input: its author needs the traceback
    assert done.returncode == 1
    assert "ZeroDivisionError: the world fell apart" in done.stderr
    folder = only_folder(tmp_path)
    result = json.loads((folder / "result.json").read_text())
    assert result["error"] == "ZeroDivisionError: the world fell apart"
    assert result["steps"] == WHEN - 1
    assert check_what_is_left(folder) == 100


def test_the_same_world_without_its_fault_finishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(CONFIGS, "sound", {**ROW, "game": "tests.faults.worlds:Sound-v0"})
    assert main.run(["sound", "--runs", str(tmp_path)]) == 0
    result = json.loads((only_folder(tmp_path) / "result.json").read_text())
    assert result["status"] == "finished" and result["updates"] > 500
