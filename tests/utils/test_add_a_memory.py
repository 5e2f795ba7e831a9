"""docs/add-a-memory.md is true: its file, put outside the tree, trains DQN on CartPole."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def example() -> str:
    page = (ROOT / "docs" / "add-a-memory.md").read_text()
    return re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1)


def test_the_page_shows_a_memory_in_under_40_lines():
    code = [line for line in example().splitlines() if line.strip()]
    assert len(code) < 40


def test_a_memory_from_outside_the_tree_trains_dqn_on_cartpole(tmp_path):
    (tmp_path / "my_memories.py").write_text(example())
    command = [
        sys.executable, "main.py", "dqn_cartpole", "--memory_type", "my_memories:RecentMemory",
        "--newest_share", "0.9", "--steps", "6000", "--eval_freq", "2000", "--visdom", "off",
        "--runs", str(tmp_path / "runs"),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(next((tmp_path / "runs").glob("*/result.json")).read_text())
    assert result["eval_return_mean"] > 100  # a random policy earns about 22
    config = json.loads(next((tmp_path / "runs").glob("*/config.json")).read_text())
    assert config["options"]["newest_share"] == 0.9


def test_a_typo_in_a_key_of_a_strangers_memory_is_named(tmp_path):
    (tmp_path / "my_memories.py").write_text(example())
    command = [sys.executable, "main.py", "dqn_cartpole", "--memory_type",
               "my_memories:RecentMemory", "--newest_shar", "0.9"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "did you mean 'newest_share'" in done.stderr
