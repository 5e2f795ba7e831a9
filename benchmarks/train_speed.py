"""Env steps a second of whole training, ours and the peers', interleaved, one thread.

    make bench-setup                                   (once, for the peers)
    python -m benchmarks.train_speed [--quick] [--tasks NAME ...] [--json FILE]

Each run is a process of its own, of our row or of a peer with the same settings (printed), one
after the other, round by round; evaluation and board are off. Counted is from where learning has
begun, by processor time. Ratios are medians over the rounds of ours through theirs. The exit code
is 1 where a bar is missed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.run import HERE, installed, machine, python_of, reason

ROOT: Final = Path(__file__).parents[1]
MATHS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
ONE_THREAD: Final = dict.fromkeys(MATHS, "1")
SCRIPTS: Final = {"sb3": "sb3", "sbx": "sb3", "pfrl": "pfrl", "evotorch": "evotorch"}
"""The script of each peer, train_NAME.py."""


@dataclass(frozen=True)
class Task:
    """What is trained, for how long it is measured, and what ours has to reach against whom."""

    row: str
    game: str
    flags: Mapping[str, Any]
    """Keys of the row; a peer gets the same ones."""
    begin: int
    steps: int
    """Measured from env step `begin` on, so many."""
    bars: Mapping[str, float | None]
    """Least ratio against a peer, or against a `plain` loop; None: only told."""
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"ours": {}})
    """Keys of ours beside, by name; the bars are those of the first unless `barred` has others."""
    barred: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def settings(self, who: str, seed: int) -> dict[str, Any]:
        """What a run is told."""
        span = {"begin": self.begin, "end": self.begin + self.steps, "seed": seed}
        if who == "plain" or who in self.variants:
            own = {**self.flags, **self.variants.get(who, {})}
            kind = "plain" if who == "plain" else "ours"
            return {"who": kind, "row": self.row, "flags": own, **span}
        return {"peer": who, "game": self.game, **self.flags, **span}

    def runs(self) -> list[str]:
        """Who runs, in turn."""
        return [*self.variants, *(who for who in self.bars if who == "plain" or installed(who))]

    def pairs(self) -> Iterator[tuple[str, str, float | None]]:
        """Ours, against whom, and the bar."""
        for place, variant in enumerate(self.variants):
            own = self.barred.get(variant, {})
            for who in self.bars:
                yield variant, who, own.get(who, self.bars[who] if place == 0 else None)


DQN: Final = {"memory_limit": 100_000, "learn_start": 1_000, "target_model_update": 10,
              "eps_end": 0.04, "eps_decay": 1_000, "lr": 2.3e-3}  # fmt: skip
BFLOAT: Final = {"channels_last": True, "bfloat16": True}
TASKS: Final[Mapping[str, Task]] = {
    # rl-baselines3-zoo; from after the learning of step 1,280 on, whole rounds of 256 steps
    "cartpole_zoo": Task(
        "dqn_cartpole", "CartPole-v1",
        {**DQN, "hidden_sizes": [256, 256], "batch_size": 64, "train_interval": 256,
         "updates": 128},
        1_282, 256 * 24, {"sb3": 1.75, "sbx": None, "plain": None},
    ),
    "cartpole_every_step": Task(
        "dqn_cartpole", "CartPole-v1",
        {**DQN, "hidden_sizes": [128, 128], "batch_size": 128, "train_interval": 1, "updates": 1},
        1_282, 3_000, {"sb3": 2.3, "sbx": None, "plain": 1.4},
    ),
    # the memory is not filled first: what is measured begins at 2,000 steps
    "pong": Task(
        "dqn_pong", "ALE/Pong-v5",
        {"memory_limit": 20_000, "learn_start": 2_000, "batch_size": 32, "train_interval": 4,
         "updates": 1, "target_model_update": 1_000, "eps_end": 0.01, "eps_decay": 1_000,
         "lr": 1e-4},
        2_010, 400, {"sb3": 1.5},
        {"float32, channels_last": {"channels_last": True}, "float32": {},
         "bfloat16, channels_last": BFLOAT},
        {"bfloat16, channels_last": {"sb3": 2.0}},
    ),
    "minatar": Task(
        "dqn_minatar_breakout", "breakout",
        {"memory_limit": 100_000, "learn_start": 1_000, "batch_size": 32, "train_interval": 1,
         "updates": 1, "target_model_update": 1_000, "eps_end": 0.01, "eps_decay": 1_000,
         "lr": 2.5e-4,
         "hidden_sizes": [128]},
        1_100, 1_500, {"sb3": 1.4},
    ),
    "acer": Task(
        "acer_cartpole", "CartPole-v1",
        {"memory_limit": 5_000, "num_envs": 1, "trajectory_length": 20, "train_interval": 20,
         "batch_size": 1, "replay_ratio": 4.0, "replay_start": 400, "hidden_sizes": [64, 64]},
        1_000, 3_000, {"pfrl": 3.0},
        {"ours": {}, "8 envs": {"num_envs": 8, "train_interval": 160, "batch_size": 8}},
    ),
    "es": Task(
        "es_cartpole", "CartPole-v1",
        {"population": 40, "hidden_sizes": [32], "normalize_obs": False, "sigma": 0.1, "lr": 0.05,
         "num_envs": 40},
        2_000, 100_000, {"evotorch": 3.0, "plain": 0.9},
    ),
}  # fmt: skip


def command(task: Task, who: str, seed: int) -> list[str]:
    """What runs one of them."""
    told = json.dumps(task.settings(who, seed))
    if who == "plain" or who in task.variants:
        return [sys.executable, "-m", "benchmarks.train_ours", told]
    return [str(python_of(who)), str(HERE / f"train_{SCRIPTS[who]}.py"), told]


def measured(task: Task, who: str, seed: int) -> dict[str, Any]:
    """One run's figures; raises RuntimeError with what it said where it failed."""
    return told_by(command(task, who, seed), who)


def told_by(words: Sequence[str], who: str) -> dict[str, Any]:
    """The line of JSON of a command; raises RuntimeError with what it said where it failed."""
    done = subprocess.run(
        words, cwd=ROOT, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise RuntimeError(f"{who}: {reason(done.stderr)}")
    found: dict[str, Any] = json.loads(lines[-1])
    if found["threads"] != 1:
        raise RuntimeError(f"{who} ran with {found['threads']} threads")
    return found


def measure(name: str, task: Task, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Every run of a task, `rounds` times in turn."""
    found: dict[str, list[dict[str, Any]]] = {who: [] for who in task.runs()}
    for number in range(rounds):
        for who, figures in found.items():
            figures.append(measured(task, who, 1 + number))
            told = f"{name}, round {number + 1}: {who} {figures[-1]['rate']:,.0f}"
            print(told, file=sys.stderr, flush=True)
    return found


def rows_of(name: str, task: Task, found: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Any]:
    """Rates, and ratios beside their bars."""
    rows: list[dict[str, Any]] = []
    for who, figures in found.items():
        rates = [one["rate"] for one in figures]
        title = f"{name}: {who}, env steps/s"
        spread = f"{min(rates):,.0f} to {max(rates):,.0f}"
        version = figures[0]["version"]
        rows.append(
            row(title, statistics.median(rates), None) | {"spread": spread, "version": version}
        )
    for ours, theirs, bar in task.pairs():
        if theirs in found:
            pairs = zip(found[ours], found[theirs], strict=True)
            ratio = statistics.median(one["rate"] / other["rate"] for one, other in pairs)
            rows.append(row(f"{name}: {ours} / {theirs}", ratio, bar))
        else:
            print(f"{name}: no {theirs}: make bench-setup", file=sys.stderr)
    return rows


def row(name: str, value: float, bar: float | None) -> dict[str, Any]:
    """A figure beside its bar, as it is written down."""
    own = {"name": name, "value": value, "target": bar, "bound": ">=" if bar else ""}
    return own | {"ok": bar is None or value >= bar}


def line(one: Mapping[str, Any]) -> str:
    """A row of the table."""
    value = f"{one['value']:,.0f}" if "spread" in one else f"{one['value']:.2f}"
    bar = f">= {one['target']}" if one["target"] else "-"
    missed = "" if one["ok"] else "  MISSED"
    return f"{one['name']:<58}{value:>10}{bar:>10}  {one.get('spread', '')}{missed}"


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints, and writes what was asked for."""
    parser = argparse.ArgumentParser(description="how fast training goes")
    parser.add_argument("--quick", action="store_true", help="three rounds in place of five")
    parser.add_argument("--rounds", type=int, help="so many")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args(argv)
    rounds = options.rounds or (3 if options.quick else 5)
    print(f"{machine()}; one thread each; {rounds} rounds; seeds 1 to {rounds}")
    rows = []
    for name in options.tasks:
        task = TASKS[name]
        print(f"{name}: {task.row}, {json.dumps(task.flags)}, steps {task.begin:,} to "
              f"{task.begin + task.steps:,}", flush=True)  # fmt: skip
        rows += rows_of(name, task, measure(name, task, rounds))
    print(*map(line, rows), sep="\n")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(one["ok"] for one in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
