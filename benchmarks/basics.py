"""The basic costs: append, sample, act, update, and whole training, on one thread.

    python -m benchmarks.basics [--quick] [--json FILE]

Figures are medians of interleaved rounds. There are no targets yet: the rows say `-`.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.run_folder import RunFolder
from core.runtime.serial import run
from core.types import ArraySpec, DiscreteActions, EnvSpec
from utils.assemble import build
from utils.settings import find_row, resolve


class Silence:
    """A display that shows nothing."""

    def update(self, status: Any) -> None:
        """Nothing."""

    def say(self, line: str) -> None:
        """Nothing."""


def filled(spec: ArraySpec, lanes: int, window: int, rows: int) -> tuple[SequentialMemory, Any]:
    """A memory filled twice over with episodes of 200 steps, and a call that appends a step."""
    env = EnvSpec({"obs": spec}, DiscreteActions(6))
    shared = SharedOptions(num_envs=lanes, window_length=window)
    context = MemoryContext(env, shared, np.random.default_rng(0))
    memory = SequentialMemory(SequentialOptions(memory_limit=rows), context)
    writer = memory.writer()
    rng = np.random.default_rng(1)
    shape = (64, lanes, *spec.shape)
    frames = rng.integers(0, 256, shape).astype(spec.dtype)
    action, reward = np.zeros(lanes, np.int64), np.ones(lanes)
    never, always = np.zeros(lanes, np.bool_), np.ones(lanes, np.bool_)
    count = 0

    def append() -> None:
        nonlocal count
        count += 1
        over = count % 200 == 0
        obs = {"obs": frames[count % 64]}
        writer.append(action, reward, always if over else never, never, obs)
        if over:
            writer.start(obs)

    writer.start({"obs": frames[0]})
    for _ in range(2 * rows // lanes):
        append()
    return memory, append


def rate(call: Callable[[], Any], seconds: float) -> float:
    """Calls a second over about so many seconds."""
    begun, calls = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        for _ in range(20):
            call()
        calls += 20
    return calls / (time.perf_counter() - begun)


def memory_rows(seconds: float, rounds: int) -> list[dict[str, Any]]:
    """Append and sample of frames and of vectors, a ring that is full."""
    frame = ArraySpec((84, 84), np.dtype(np.uint8))
    vector = ArraySpec((17,), np.dtype(np.float32))
    frames, append_frames = filled(frame, 8, 4, 20_000)
    vectors, append_vectors = filled(vector, 8, 1, 100_000)
    calls: dict[str, tuple[Callable[[], Any], int]] = {
        "append 84x84, 8 lanes, steps/s": (append_frames, 8),
        "append 17 floats, 8 lanes, steps/s": (append_vectors, 8),
        "sample 84x84x4 batch 32, transitions/s": (lambda: frames.sample(32), 32),
        "sample 17 floats batch 256, transitions/s": (lambda: vectors.sample(256), 256),
    }
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, (call, units) in calls.items():
            found[name].append(units * rate(call, seconds))
    bytes_row = frames.bytes_full / frames.capacity
    rows = [{"name": name, "value": statistics.median(rates)} for name, rates in found.items()]
    return [*rows, {"name": "84x84 frames, bytes a row", "value": bytes_row}]


def training_rows(steps: int, rounds: int) -> list[dict[str, Any]]:
    """Steps a second of whole rows, evaluation and board off."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for row in ("dqn_cartpole", "acer_cartpole", "es_cartpole"):
            flags = {"steps": str(steps), "eval_freq": "0", "visdom": "off"}
            settings = resolve(row, find_row(row), flags)
            with tempfile.TemporaryDirectory() as runs:
                folder = RunFolder.create(Path(runs), row, settings.run.seed)
                run(row, build(settings), settings.run, folder, Silence(), lambda: False)
                result = json.loads((folder.path / "result.json").read_text())
            found.setdefault(row, []).append(result["steps_per_second"])
    return [
        {"name": f"train {row}, env steps/s", "value": statistics.median(rates)}
        for row, rates in found.items()
    ]


def main() -> int:
    """Measures, prints, and writes what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    seconds, rounds, steps = (0.3, 3, 12_000) if options.quick else (1.0, 5, 20_000)
    rows = memory_rows(seconds, rounds) + training_rows(steps, rounds)
    for row in rows:
        row |= {"target": None, "ok": True}
        print(f"{row['name']:<46}{row['value']:>14,.0f}   target -")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
