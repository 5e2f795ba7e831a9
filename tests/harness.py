"""Small runs for tests: a row in, a finished run folder or the loop's parts out."""

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.recorder import Recorder
from core.rollout import Rollout
from core.run_folder import run_folder
from core.runtime.serial import run
from core.train import Parts
from utils.assemble import build
from utils.settings import Settings, resolve

torch.set_num_threads(1)

ROOT = Path(__file__).parents[1]
CHAIN: dict[str, Any] = {
    "agent_type": "dqn",
    "env_type": "toy",
    "game": "chain",
    "size": 5,
    "model_type": "dqn-mlp",
    "memory_type": "sequential",
    "memory_limit": 500,
    "hidden_sizes": (16,),
    "steps": 400,
    "learn_start": 50,
    "batch_size": 8,
    "eval_freq": 100,
    "eval_episodes": 3,
    "log_freq": 50,
    "checkpoint_freq": 100,
    "target_model_update": 20,
    "eps_decay": 200,
    "visdom": "off",
}
"""A row that runs in a fraction of a second."""
EMPTY: dict[str, Any] = {
    **{
        key: value
        for key, value in CHAIN.items()
        if key not in ("hidden_sizes", "target_model_update", "eps_decay")
    },
    "agent_type": "empty",
    "model_type": "none",
}
"""The same for the agent that acts at random."""
COUNTER: dict[str, Any] = {**CHAIN, "game": "counter", "size": 10, "lr": 1e-4}
"""The same in a world whose observations name their moment."""


class Quiet:
    """A display that keeps what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.statuses: list[Mapping[str, Any]] = []

    def update(self, status: Mapping[str, Any]) -> None:
        self.statuses.append(status)

    def say(self, line: str) -> None:
        self.lines.append(line)


def never() -> bool:
    return False


def settings_of(config: Mapping[str, Any], row: str = "row", **keys: Any) -> Settings:
    """A resolved row with some keys changed."""
    return resolve(row, {**config, **keys}, {})


def parts_of(config: Mapping[str, Any], **keys: Any) -> Parts:
    """A built row."""
    return build(settings_of(config, **keys))


class Run:
    """A run in this process, from a row to its folder."""

    def __init__(self, runs: Path, config: Mapping[str, Any], **keys: Any) -> None:
        self.settings = settings_of(config, **keys)
        self.options = self.settings.run
        with run_folder(None, runs, "row", self.options.seed) as place:
            self.parts = build(self.settings, lambda: place().replay)
            self.folder = place()
        self.folder.write_config("row", self.settings.flat())
        self.display = Quiet()

    def go(self, stop=never) -> "Run":
        """Runs it to its end."""
        run("row", self.parts, self.options, self.folder, self.display, stop)
        return self

    def recorder(self) -> Recorder:
        """A recorder of this run, for tests of the loop alone."""
        parts = self.parts
        return Recorder(
            self.folder, self.options, parts.agent, parts.memory, parts.clock, self.display
        )

    def rollout(self) -> Rollout:
        """A rollout of this run that has begun, for tests of the loop alone."""
        parts, seeds = self.parts, self.parts.seeds
        actor = parts.agent.actor(parts.env.lanes, seeds.generator("explore"))
        rollout = Rollout(parts.env, actor, parts.memory.writer())
        rollout.begin(seeds.integers("env", parts.env.lanes))
        return rollout

    @property
    def result(self) -> dict[str, Any]:
        return json.loads((self.folder.path / "result.json").read_text())

    @property
    def status(self) -> dict[str, Any]:
        return json.loads((self.folder.live / "status.json").read_text())

    @property
    def log(self) -> str:
        return (self.folder.path / "log.txt").read_text()

    @property
    def rows(self) -> list[dict[str, str]]:
        return rows_of(self.folder.progress)


def rows_of(progress: Path) -> list[dict[str, str]]:
    """The rows of a progress.csv, as they stand there."""
    with progress.open(newline="") as file:
        return list(csv.DictReader(file))


def comparable(rows: list[dict[str, str]], *less: str) -> list[dict[str, str]]:
    """Rows without what depends on the machine's mood."""
    moody = ("_seconds", "_per_second", "private_bytes")
    return [
        {name: cell for name, cell in row.items() if not name.endswith(moody) and name not in less}
        for row in rows
    ]


def environment() -> dict[str, str]:
    """For a child process: this one's, with one maths thread, warnings as errors."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def cli(*arguments: str, timeout: float = 60, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """`python main.py ...` in a process of its own."""
    return subprocess.run(
        [sys.executable, "main.py", *arguments],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def start_cli(*arguments: str) -> subprocess.Popen[str]:
    """The same, not waited for."""
    return subprocess.Popen(
        [sys.executable, "main.py", *arguments],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def python(code: str, timeout: float = 60) -> str:
    """Runs code in a fresh interpreter; gives what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_until(condition, seconds: float = 30.0) -> None:
    """Waits for a condition; raises where it does not come true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def flags(**keys: Any) -> list[str]:
    """Keys as flags."""
    return [word for key, value in keys.items() for word in (f"--{key}", str(value))]


def only_folder(runs: Path) -> Path:
    """The one run under a folder."""
    (folder,) = runs.iterdir()
    return folder


def equal_trees(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Whether two trees of state are the same, arrays bit for bit."""
    if left.keys() != right.keys():
        return False
    for key, value in left.items():
        other = right[key]
        if isinstance(value, Mapping):
            same = equal_trees(value, other)
        elif isinstance(value, np.ndarray):
            same = value.dtype == other.dtype and value.tobytes() == other.tobytes()
        else:
            same = value == other
        if not same:
            return False
    return True
