"""A run without training: fills a run's folder as training would, at any speed.

As a program it plays the whole process of training, board and status line included:

    python -m tests.utils.fake_run FOLDER --steps 5000 --seconds 3 --visdom connect …
"""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from core.run_folder import FIRST_COLUMNS
from core.view import NAME, View, write
from utils.board import BoardOptions, start
from utils.status_line import StatusLine

COLUMNS = (*FIRST_COLUMNS, "td_error_mean", "grad_norm")
MEMORY_LIMIT = 10_000
ROW_BYTES = 45


class FakeRun:
    """A run's folder and the hand that writes in it."""

    def __init__(self, folder: Path, steps: int = 5000) -> None:
        self.folder = folder
        self.steps = steps
        (folder / "live").mkdir(parents=True, exist_ok=True)
        options = {"agent_type": "dqn", "game": "CartPole-v1", "memory_limit": MEMORY_LIMIT}
        self._write("config.json", {"row": "dqn_cartpole", "options": {**options, "steps": steps}})
        self._write("versions.json", {"python": "3.11.7", "torch": "2.13.0"})
        self.progress = folder / "progress.csv"
        self.progress.write_text(",".join(COLUMNS) + "\n", encoding="ascii")

    def row(self, step: int, **values: float) -> None:
        """Append a row: what a run that learns might say at this step, or the given values."""
        self.rows([{**plausible(step, self.steps), **values}])

    def rows(self, rows: list[dict[str, float]]) -> None:
        """Append rows with one write, as whole lines."""
        lines = (",".join(_cell(row.get(name)) for name in COLUMNS) for row in rows)
        with self.progress.open("a", encoding="ascii") as file:
            file.write("".join(f"{line}\n" for line in lines))

    def status(self, step: int, state: str = "running", **values: Any) -> dict[str, Any]:
        """Write live/status.json and return what it says."""
        now = plausible(step, self.steps)
        status = {
            "state": state,
            "pid": os.getpid(),
            "step": step,
            "steps": self.steps,
            "steps_per_second": 2000.0,
            "seconds_left": (self.steps - step) / 2000.0,
            "last_return": now["return_mean"],
            "epsilon": now["epsilon"],
            "memory_fill": now["memory_len"] / MEMORY_LIMIT,
            "memory_bytes": int(now["memory_bytes"]),
            "memory_bytes_full": MEMORY_LIMIT * ROW_BYTES,
            "private_bytes": int(now["private_bytes"]),
            "updates": int(now["updates"]),
            "checkpoint_step": step // 1000 * 1000,
            **values,
        }
        self._write("live/status.json", status)
        return status

    def view(self, step: int, action: int = 1, padding: int = 0, **values: Any) -> View:
        """Write what an agent on pictures of 12 x 10 saw, and its values of three actions."""
        frames = np.arange(4 * 12 * 10, dtype=np.uint8).reshape(4, 12, 10)
        told = {"frames": frames, "values": np.array([0.5, 2.0, -1.0], np.float32), **values}
        view = View(padding=padding, meaning=told.pop("meaning", "Q"), action=action, **told)
        write(self.folder / "live" / NAME, step, view)
        return view

    def actions(self, *names: str) -> None:
        """Write what the actions are called."""
        self._write("live/actions.json", {"names": names})

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        path = self.folder / name
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(content), encoding="utf-8")
        fresh.replace(path)


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def plausible(step: int, steps: int) -> dict[str, float]:
    """Numbers of a run that learns, smooth but for a wobble; evaluation at every tenth row."""
    share = step / steps
    wobble = math.sin(step / 37) * math.cos(step / 211)
    learnt = 1 / (1 + math.exp(9 * (0.45 - share)))
    reward = 20 + 440 * learnt + 35 * wobble * (0.3 + learnt)
    held = min(step, MEMORY_LIMIT)
    row = {
        "step": step,
        "episodes": step // 60,
        "wall_seconds": step / 2000 + 1e-3 * wobble,
        "steps_per_second": 2000 + 150 * wobble,
        "return_mean": reward,
        "length_mean": reward,
        "loss": 0.4 * math.exp(-2 * share) + 0.05 * abs(wobble),
        "q_mean": 85 * learnt + 4 * wobble,
        "epsilon": max(0.05, 1 - 1.9 * share),
        "updates": max(0, step - 1000),
        "memory_len": held,
        "memory_bytes": held * ROW_BYTES,
        "private_bytes": 2.4e8 + held * ROW_BYTES,
        "sample_age": held / 2 + 9 * wobble,
        "sample_distinct": 0.99 - 0.001 * abs(wobble),
        "never_drawn": 0.2 * math.exp(-2 * share),
        "memory_return_mean": 0.9 * reward,
        "td_error_mean": 0.9 * math.exp(-1.5 * share) + 0.1 * abs(wobble),
        "grad_norm": 1.0,
    }
    if step % (steps // 20 or 1) == 0:
        row["eval_return_mean"] = 20 + 460 * learnt
    return row


def main() -> None:
    """Play a run: rows and status at an even pace, what the board says, and the status line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--visdom", default="connect")
    parser.add_argument("--visdom_port", type=int, default=8097)
    args = parser.parse_args()
    run = FakeRun(args.folder, args.steps)
    options = BoardOptions(visdom=args.visdom, visdom_port=args.visdom_port)
    line = StatusLine(sys.stderr)
    run.status(0)
    board = start(run.folder, options)
    state = "interrupted"
    step = 0
    try:
        for index in range(1, args.rows + 1):
            step = args.steps * index // args.rows
            run.row(step)
            line.update(run.status(step))
            for news in board.news() if board else ():
                line.say(news)
            time.sleep(args.seconds / args.rows)
        state = "finished"
    except KeyboardInterrupt:
        pass
    run.status(step, state)
    if board:
        board.close()
        for news in board.news():
            line.say(news)
    line.close()
    print(f"{state} at step {step}", flush=True)


if __name__ == "__main__":
    main()
