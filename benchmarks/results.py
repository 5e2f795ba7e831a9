"""Scores of rows over seeds, as docs/results.md has them; and what one row gains over another.

    python -m benchmarks.results table ROW --seeds 10 [--runs FOLDER] [--jobs 2]
    python -m benchmarks.results compare ROW OTHER --score 475 --seeds 5

A run that stands in FOLDER already, finished, of that row and seed, is not trained again.
`compare` prints the env steps until an evaluation reaches the score, and a bootstrap interval of
the difference of their means; a run that never does counts with its whole length.
"""

import argparse
import csv
import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
RESAMPLES = 10_000


def finished(runs: Path, row: str, seed: int) -> Path | None:
    """The folder of a finished run, if there is one."""
    for path in sorted(runs.glob(f"{row}-*-s{seed}*/result.json")):
        result = json.loads(path.read_text())
        if (result["row"], result["seed"], result["status"]) == (row, seed, "finished"):
            return path.parent
    return None


def train(runs: Path, row: str, seed: int) -> Path:
    """Trains a row with a seed unless it is there; gives its folder."""
    command = [sys.executable, "main.py", row, "--seed", str(seed), "--visdom", "off"]
    if finished(runs, row, seed) is None:
        subprocess.run(
            [*command, "--runs", str(runs)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
        )
    folder = finished(runs, row, seed)
    if folder is None:
        raise RuntimeError(f"{row} with seed {seed} left no finished run in {runs}")
    return folder


def train_all(runs: Path, row: str, seeds: Sequence[int], jobs: int) -> list[Path]:
    """Trains a row with every seed, so many at once; folders in the order of the seeds."""
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda seed: train(runs, row, seed), seeds))


def table(folders: Sequence[Path]) -> str:
    """A Markdown table of the runs."""
    lines = [
        "| seed | best (100 episodes) | at step | last (100 episodes) | steps | wall s | steps/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for folder in folders:
        result: dict[str, Any] = json.loads((folder / "result.json").read_text())
        lines.append(
            f"| {result['seed']} | {result['eval_return_mean']:.1f} "
            f"+- {result['eval_return_std']:.1f} | {result['best_step']:,} "
            f"| {result['last_eval_return_mean']:.1f} | {result['steps']:,} "
            f"| {result['wall_seconds']:.0f} | {result['steps_per_second']:,.0f} |"
        )
    return "\n".join(lines)


def steps_to(folder: Path, score: float) -> int:
    """Env steps until an evaluation of the run reached the score, or all its steps."""
    with (folder / "progress.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        if row["eval_return_mean"] and float(row["eval_return_mean"]) >= score:
            return int(row["step"])
    return int(rows[-1]["step"])


def interval(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """95 % bootstrap interval of mean(second) - mean(first), percentiles, seed 0."""
    rng = np.random.default_rng(0)
    draws = [
        rng.choice(second, len(second)).mean() - rng.choice(first, len(first)).mean()
        for _ in range(RESAMPLES)
    ]
    low, high = np.percentile(draws, [2.5, 97.5])
    return float(low), float(high)


def machine() -> str:
    """What ran, in a line."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    processor = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return f"{processor}, one maths thread, Python {platform.python_version()}, commit {commit}"


def main() -> int:
    """Trains what is missing and prints what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["table", "compare"])
    parser.add_argument("rows", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--score", type=float, default=475.0)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    seeds = range(1, options.seeds + 1)
    folders = {row: train_all(options.runs, row, seeds, options.jobs) for row in options.rows}
    print(machine())
    if options.what == "table":
        for row, found in folders.items():
            print(f"\n{row}\n\n{table(found)}")
        return 0
    counts = {
        row: np.array([steps_to(folder, options.score) for folder in found])
        for row, found in folders.items()
    }
    for row, steps in counts.items():
        print(f"{row}: steps to {options.score:g}: {steps.tolist()}, mean {steps.mean():,.0f}")
    first, second = (counts[row] for row in options.rows)
    low, high = interval(first, second)
    print(
        f"{options.rows[1]} less {options.rows[0]}: {second.mean() - first.mean():,.0f} steps, "
        f"95 % bootstrap interval [{low:,.0f}, {high:,.0f}]"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
