"""The examples run as they stand; those for other libraries in the venvs of these."""

import subprocess

import pytest

from examples import plain_gymnasium
from tests.core.envs.optional import needs
from tests.harness import ROOT, environment, python


def test_the_plain_loop_remembers_every_step():
    stream = plain_gymnasium.main(steps=400)
    assert len(stream.memory) == 400
    stream.memory.check()


def test_the_page_shows_the_plain_loop_as_it_runs():
    body = (ROOT / "examples" / "plain_gymnasium.py").read_text().split('learn from."""\n')[1]
    shown = (ROOT / "docs" / "use-the-memory.md").read_text()
    lines = [line.strip() for line in body.split("    env.close()")[0].splitlines()]
    assert len(lines) <= 20
    assert all(line in shown for line in lines)


@needs("ale_py")
def test_dqn_on_atari_as_one_script():
    told = python(
        "import sys, torch\n"
        "torch.set_num_threads(1)\n"
        "from examples import cleanrl_dqn_atari\n"
        "sys.argv[1:] = '--steps 60 --learning_starts 40 --buffer_size 1000'.split()\n"
        "print(cleanrl_dqn_atari.main() >= 0)\n"
    )
    assert told.endswith("True\n")


@pytest.mark.soak
def test_stable_baselines3_on_pong():
    venv = ROOT / ".bench" / "venvs" / "sb3" / "bin" / "python"
    if not venv.exists():
        pytest.skip("needs the venv of sb3: make .bench/venvs/sb3/ready")
    done = subprocess.run(
        [venv, "-m", "examples.sb3_pong", "--steps", "200", "--buffer_size", "1000"],
        cwd=ROOT,
        env=environment() | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
