"""Time until training earns a score, ours and Stable-Baselines3's, by turns, one thread.

    make bench-setup                                   (once, for the peer)
    python -m benchmarks.time_to_score [--races lunarlander breakout] [--seeds 5] [--json FILE]

Both have the same network and settings (printed), no evaluation and no board, and each seed is a
race of its own: from the beginning of training, all of it counted, until the newest returns of
training have a mean of the goal. The ratio is the median of processor times of ours through that of
theirs; whoever does not get there by the limit counts with the time to it, and is named. The exit
code is 1 where a bar is missed.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.run import HERE, machine, python_of
from benchmarks.train_speed import told_by

MOST: Final = 0.75
"""Of their time."""


@dataclass(frozen=True)
class Contest:
    """What is trained, and what has to be earned."""

    row: str
    game: str
    goal: float
    """Mean of the newest `window` returns."""
    window: int
    limit: int
    """Env steps after which a run is given up."""
    flags: Mapping[str, Any]
    """Keys of the row; the peer gets the same ones."""
    plain: Mapping[str, Any] = field(default_factory=dict)
    """Keys that take out of the row what the peer has not."""

    def settings(self, who: str, seed: int) -> dict[str, Any]:
        """What a run is told."""
        race = {"goal": self.goal, "window": self.window, "end": self.limit, "seed": seed}
        if who == "ours":
            return {"who": who, "row": self.row, "flags": {**self.flags, **self.plain}, **race}
        return {"peer": who, "game": self.game, **self.flags, **race}


CONTESTS: Final[Mapping[str, Contest]] = {
    # rl-baselines3-zoo, hyperparams/dqn.yml: the same network and settings on both sides
    "lunarlander": Contest(
        "dqn_lunarlander", "LunarLander-v3", 100.0, 50, 150_000,
        {"memory_limit": 50_000, "learn_start": 128, "batch_size": 128, "train_interval": 4,
         "updates": 4, "target_model_update": 250, "eps_end": 0.1, "eps_decay": 12_000,
         "lr": 6.3e-4, "hidden_sizes": [256, 256]},
        {"sampler": "uniform", "double": False, "dueling": "off", "streams": "shared",
         "layer_norm": False},
    ),
    # Revisiting Rainbow's settings
    "breakout": Contest(
        "dqn_minatar_breakout", "breakout", 6.0, 100, 400_000,
        {"memory_limit": 100_000, "learn_start": 1_000, "batch_size": 32, "train_interval": 4,
         "updates": 1, "target_model_update": 1_000, "eps_end": 0.01, "eps_decay": 100_000,
         "lr": 2.5e-4, "hidden_sizes": [128]},
    ),
}  # fmt: skip


def command(contest: Contest, who: str, seed: int) -> list[str]:
    """What runs one of them."""
    told = json.dumps(contest.settings(who, seed))
    if who == "ours":
        return [sys.executable, "-m", "benchmarks.train_ours", told]
    return [str(python_of(who)), str(HERE / "train_sb3.py"), told]


def race(name: str, contest: Contest, seeds: int) -> dict[str, list[dict[str, Any]]]:
    """Every seed of both, by turns."""
    found: dict[str, list[dict[str, Any]]] = {"ours": [], "sb3": []}
    for seed in range(1, seeds + 1):
        for who, figures in found.items():
            one = told_by(command(contest, who, seed), who)
            figures.append(one)
            end = "" if one["reached"] else " (not reached)"
            print(f"{name}, seed {seed}: {who} {one['score']} at step {one['steps']:,}{end}, "
                  f"{one['cpu_seconds']} s", flush=True)  # fmt: skip
    return found


def result(name: str, found: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """The ratio beside its bar."""
    times = {who: [one["cpu_seconds"] for one in figures] for who, figures in found.items()}
    steps = {who: [one["steps"] for one in figures] for who, figures in found.items()}
    reached = {who: sum(one["reached"] for one in figures) for who, figures in found.items()}
    ratio = statistics.median(times["ours"]) / statistics.median(times["sb3"])
    row = {"name": name, "value": ratio, "target": MOST, "bound": "<=", "ok": ratio <= MOST}
    return row | {"cpu_seconds": times, "steps": steps, "reached": reached}


def main(argv: Sequence[str] | None = None) -> int:
    """Races, prints, and writes what was asked for."""
    parser = argparse.ArgumentParser(description="time until training earns a score")
    parser.add_argument("--races", nargs="+", choices=list(CONTESTS), default=list(CONTESTS))
    parser.add_argument("--seeds", type=int, default=5, help="1 to so many")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args(argv)
    print(f"{machine()}; one thread each; seeds 1 to {options.seeds}")
    rows = []
    for name in options.races:
        contest = CONTESTS[name]
        print(f"{name}: a mean of {contest.goal} over {contest.window} episodes, by step "
              f"{contest.limit:,}; {json.dumps(contest.flags)}", flush=True)  # fmt: skip
        rows.append(result(name, race(name, contest, options.seeds)))
    for row in rows:
        missed = "" if row["ok"] else "  MISSED"
        print(f"{row['name']}: ours / sb3 {row['value']:.2f} (<= {MOST}){missed}; reached "
              f"{row['reached']}")  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
