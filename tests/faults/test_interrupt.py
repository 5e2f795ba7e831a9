"""Ctrl-C: the weights and the result so far; a second one cannot damage them."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from core.checkpoint import Checkpoints
from tests.harness import flags, rows_of, start_cli, wait_until
from utils import curves

KEYS = {
    "steps": 100_000_000,
    "eval_freq": 0,
    "checkpoint_freq": 500,
    "log_freq": 100,
    "learn_start": 100,
    "train_interval": 16,
    "updates": 2,
    "visdom": "off",
}


@pytest.fixture
def run(tmp_path: Path):
    """A run that would not end by itself, some hundred steps in."""
    child = start_cli("dqn_cartpole", *flags(**KEYS, runs=tmp_path))
    try:
        wait_until(lambda: any(tmp_path.glob("*/checkpoints/step-*.safetensors")), 60)
        yield child
    finally:
        child.kill()
        child.communicate()


def check_what_is_left(runs: Path, said: str) -> None:
    """Asserts that the folder is whole and says how far the run came."""
    (folder,) = runs.iterdir()
    result = json.loads((folder / "result.json").read_text())
    status = json.loads((folder / "live" / "status.json").read_text())
    assert result["status"] == status["state"] == "interrupted"
    step = result["steps"]
    assert step >= 500
    told: list[str] = []
    saved = Checkpoints(folder / "checkpoints").load("last", told.append)
    assert saved["step"] == step and told == [], "the weights of the last step, whole"
    assert len(saved["weights"]) == 6
    assert status["checkpoint_step"] == step
    progress = rows_of(folder / "progress.csv")
    assert int(progress[-1]["step"]) == step
    assert curves.read(folder / "progress.csv")["step"][-1] == step
    assert (folder / "curves.png").read_bytes()[-8:-4] == b"IEND"
    assert not list(folder.rglob(".*")), "nothing half written is left"
    assert f"interrupted at step {step:,}" in said
    assert result["eval_return_mean"] is None


def finish(child: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, error = child.communicate(timeout=60)
    return child.returncode, out, error


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_a_signal_ends_a_run_in_order(run, tmp_path: Path, number: int, code: int):
    run.send_signal(number)
    returned, out, error = finish(run)
    assert (returned, error) == (code, "")
    check_what_is_left(tmp_path, out)


@pytest.mark.parametrize("seconds", [0.02, 0.3])
def test_a_second_interrupt_damages_nothing(run, tmp_path: Path, seconds: float):
    run.send_signal(signal.SIGINT)
    time.sleep(seconds)
    run.send_signal(signal.SIGINT)
    returned, out, error = finish(run)
    assert (returned, error) == (130, "")
    check_what_is_left(tmp_path, out)


def test_a_hail_of_interrupts_damages_nothing(run, tmp_path: Path):
    for _ in range(400):  # until it has ended, the interpreter's own end included
        if run.poll() is not None:
            break
        run.send_signal(signal.SIGINT)
        time.sleep(0.005)
    returned, out, error = finish(run)
    assert (returned, error) == (130, "")
    check_what_is_left(tmp_path, out)


def test_an_interrupt_while_it_starts_is_one_line(tmp_path: Path):
    child = start_cli("dqn_cartpole", *flags(**KEYS, runs=tmp_path))
    # torch is mapped and being imported, the run has no folder yet
    wait_until(lambda: "libtorch" in Path(f"/proc/{child.pid}/maps").read_text())
    child.send_signal(signal.SIGINT)
    returned, out, error = finish(child)
    assert returned == 130
    if not any(tmp_path.iterdir()):
        assert out == "" and error == "engram: interrupted\n"
