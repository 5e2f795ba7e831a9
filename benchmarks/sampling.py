"""How fast a full memory is read, by codec and batch, and beside what numpy can do at most.

    python -m benchmarks.recordings                    (once)
    python -m benchmarks.sampling [--game seaquest] [--rounds 7] [--json FILE]

Rates are units a second of the processor's time, the median of interleaved rounds, of one process
with one thread: pictures of a game (stacks of four, single steps) by codec and tier, windows of an
EpisodicMemory, and vectors of 17 numbers drawn alike and by priority, with their errors told.
`take` is what numpy needs to copy the same rows of raw frames, and nothing else.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.fill import (
    Tape,
    blocks,
    context_of,
    filled,
    forecast,
    in_ram,
    options_of,
    preview_of,
    write,
)
from benchmarks.recordings import DEFAULT as RECORDINGS
from benchmarks.recordings import Recording
from core.memories.episodic import EpisodicMemory, EpisodicOptions
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.types import ArraySpec, ContinuousActions, EnvSpec

Work = Callable[[], Any]
ROWS: Final = {"raw": 200_000, "lz4": 500_000, "zstd": 500_000}
VECTORS: Final = 1_000_000
FLOATS, ACTIONS, LANES, WINDOW = 17, 6, 8, 20
SECONDS: Final = 0.3
"""Seconds of a round, about."""


def rate(work: Work, units: int) -> Callable[[], float]:
    """Measures units a second of processor time, for about `SECONDS` each time it is called."""
    begun, calls = time.process_time(), 0
    while time.process_time() - begun < SECONDS / 3:
        work()
        calls += 1
    calls *= 3

    def measured() -> float:
        begun = time.process_time()
        for _ in range(calls):
            work()
        return units * calls / (time.process_time() - begun)

    return measured


def pictures(game: str, codec: str, storage: str, folder: Path) -> SequentialMemory:
    """A full memory of a game."""
    recording = in_ram(Recording.load(RECORDINGS / game))
    options = options_of({"frame_codec": codec, "storage": storage}, ROWS[codec])
    context = forecast(options, context_of(recording, 1), preview_of(game))
    return filled(recording, options, replace(context, folder=folder), beyond=ROWS[codec] // 10)


def windows(game: str, codec: str) -> EpisodicMemory:
    """A full memory of trajectories."""
    recording = in_ram(Recording.load(RECORDINGS / game))
    shared = SharedOptions(window_length=4, num_envs=LANES, trajectory_length=WINDOW)
    options = EpisodicOptions(frame_codec=codec, memory_limit=ROWS[codec])  # type: ignore[arg-type]
    memory = EpisodicMemory(options, replace(context_of(recording, LANES), shared=shared))
    writer, tape = memory.writer(), Tape(recording, LANES)
    writer.start(tape.begin())
    for count in blocks(ROWS[codec] // LANES + 1_000):
        write(writer, tape.take(count))
    return memory


def vectors(sampler: str) -> SequentialMemory:
    """A full memory of vectors."""
    env = EnvSpec(
        {"obs": ArraySpec((FLOATS,), np.dtype(np.float32))},
        ContinuousActions((-1.0,) * ACTIONS, (1.0,) * ACTIONS),
    )
    options = SequentialOptions(memory_limit=VECTORS, sampler=sampler)  # type: ignore[arg-type]
    context = MemoryContext(env, SharedOptions(num_envs=LANES), np.random.default_rng(0))
    memory, rng = SequentialMemory(options, context), np.random.default_rng(1)
    writer, no, yes = memory.writer(), np.zeros(LANES, np.bool_), np.ones(LANES, np.bool_)
    obs = rng.normal(size=(LANES, FLOATS)).astype(np.float32)
    action, reward = np.zeros((LANES, ACTIONS), np.float32), np.ones(LANES, np.float32)
    writer.start({"obs": obs})
    for step in range(1, VECTORS // LANES + 1_000):
        over = yes if step % 1_000 == 0 else no
        writer.append(action, reward, no, over, {"obs": obs})
        if over is yes:
            writer.start({"obs": obs})
    return memory


def told(memory: SequentialMemory, size: int) -> Work:
    """A batch, and the errors of it."""
    errors = np.random.default_rng(2).normal(size=size).astype(np.float32)
    return lambda: memory.feedback(memory.sample(size)["id"], errors)


def takes(memory: SequentialMemory, size: int) -> Work:
    """What numpy does at least for a batch of raw pictures: copies five rows of each unit."""
    frames = memory.ring._frames["obs"]
    starts = np.random.default_rng(3).integers(0, len(frames) - 5, (64, size, 1))
    turns = iter(range(1 << 60))
    return lambda: frames.take(starts[next(turns) % 64] + np.arange(5), axis=0, mode="clip")


def everything(game: str, folder: Path) -> Iterator[tuple[str, Mapping[str, Callable[[], float]]]]:
    """Groups of figures that are measured in turns."""
    for codec, storage in (("raw", "heap"), ("lz4", "heap"), ("zstd", "heap"), ("lz4", "disk")):
        memory = pictures(game, codec, storage, folder / f"{codec}-{storage}")
        found = {}
        for size in (32, 256):
            found[str(size)] = rate(partial(memory.sample, size), size)
            if codec == "raw":
                found[f"take {size}"] = rate(takes(memory, size), size)
        yield f"{game} {codec} {storage}", found
    for codec in ("raw", "lz4"):
        steps = rate(partial(windows(game, codec).sample, 16), 16 * WINDOW)
        yield f"{game} {codec} windows [{WINDOW}, 16]", {"steps": steps}
    yield (
        "vectors of 17",
        {
            "uniform 256": rate(partial(vectors("uniform").sample, 256), 256),
            "prioritized 256, errors told": rate(told(vectors("prioritized"), 256), 256),
        },
    )


def main() -> None:
    """Prints a line a figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--game", default="seaquest")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    told_of = parser.parse_args()
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for group, rates in everything(told_of.game, Path(folder)):
            rounds = [{name: it() for name, it in rates.items()} for _ in range(told_of.rounds)]
            for name in rates:
                each = [found[name] for found in rounds]
                figures[f"{group}, {name}"] = statistics.median(each)
                print(
                    f"{group}, {name}: {statistics.median(each):,.0f}/s "
                    f"({min(each):,.0f} to {max(each):,.0f})",
                    flush=True,
                )
    if told_of.json:
        told_of.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
