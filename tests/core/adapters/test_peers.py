"""The adapters in the venvs of the libraries that they are for; `make bench-setup` makes those."""

import subprocess

import pytest

from tests.harness import ROOT, environment

HERE = ROOT / "tests" / "core" / "adapters"


def run_in(peer: str, *arguments: str, timeout: float = 100) -> None:
    """Runs `peer_<peer>.py` in that venv."""
    python = ROOT / ".bench" / "venvs" / peer / "bin" / "python"
    if not python.exists():
        pytest.skip(f"needs the venv of {peer}: make .bench/venvs/{peer}/ready")
    done = subprocess.run(
        [python, HERE / f"peer_{peer}.py", *arguments],
        env=environment() | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.stdout.endswith("ok\n"), done.stdout + done.stderr[-2_000:]


def test_sb3s_dqn_loses_the_same_to_the_bit_with_its_own_buffer_and_with_ours():
    run_in("sb3", "60")


@pytest.mark.soak
def test_the_first_thousand_losses_are_the_same_to_the_bit():
    run_in("sb3", "1000", timeout=600)


@pytest.mark.soak
def test_tianshous_collector_and_dqn_use_it():
    run_in("tianshou")


def test_torchrl_gets_its_tensordicts_back():
    run_in("torchrl")
