"""What saving a memory costs, and how soon it is there again: by tier, of a million transitions.

    python -m benchmarks.recordings                    (once)
    python -m benchmarks.saving [--game seaquest] [--count 1000000] [--folder FOLDER]

Prints, of each tier that is saved: the first commit, one after a hundredth is new, opening it in
another process, loading it there, and a first batch. Bytes are of the files; seconds of the clock.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from benchmarks.fill import (
    Tape,
    blocks,
    context_of,
    forecast,
    in_ram,
    options_of,
    preview_of,
    warm_up,
    write,
)  # fmt: skip
from benchmarks.recordings import DEFAULT as RECORDINGS
from benchmarks.recordings import Recording
from core.memories.sequential import SequentialMemory
from core.memory_log import MemoryLog
from core.memory_watch import private_bytes

TIERS: Final = ("heap", "disk")
PART: Final = 100


def timed(work: Callable[[], Any]) -> float:
    """Seconds that it takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def made(game: str, storage: str, count: int, folder: Path) -> tuple[SequentialMemory, Recording]:
    """A memory of the default codec, as a run with that game has it."""
    recording = Recording.load(RECORDINGS / game)
    options = options_of({"storage": storage}, count)
    context = forecast(options, context_of(recording, 1), preview_of(game))
    return SequentialMemory(options, replace(context, folder=folder)), recording


def on_disk(folder: Path) -> int:
    """Bytes of a folder's segments and manifest, and of frames that lie there."""
    return sum(path.stat().st_blocks * 512 for path in folder.iterdir())


def save(game: str, storage: str, count: int, folder: Path) -> dict[str, float]:
    """Fills a memory beyond its rows, and commits it twice."""
    memory, recording = made(game, storage, count, folder)
    recording = in_ram(recording)
    warm_up(recording, {})
    writer, tape = memory.writer(), Tape(recording, 1)
    writer.start(tape.begin())
    for steps in blocks(count + count // PART):
        write(writer, tape.take(steps))
    log = MemoryLog(memory, folder)
    private = private_bytes()
    first = timed(log.commit)
    grown, size = private_bytes() - private, on_disk(folder)
    for steps in blocks(count // PART):
        write(writer, tape.take(steps))
    again = timed(log.commit)
    more = sum(path.stat().st_size for path in folder.glob("segment-*"))
    log.close()
    return {
        "commit_s": first, "commit_mb": size / 1e6, "private_mb": grown / 1e6,
        "again_s": again, "segments_mb": more / 1e6,
    }  # fmt: skip


def load(game: str, storage: str, count: int, folder: Path) -> dict[str, float]:
    """Opens, loads and samples what `save` left."""
    warm_up(in_ram(Recording.load(RECORDINGS / "pong")), {})
    begun = time.perf_counter()
    memory, _ = made(game, storage, count, folder)
    log = MemoryLog(memory, folder)
    opened = time.perf_counter() - begun
    loaded = timed(lambda: log.load(print))
    sampled = timed(lambda: memory.sample(32))
    checked = timed(memory.check)
    log.close()
    return {"made_s": opened, "load_s": loaded, "sample_s": sampled, "check_s": checked}


def main() -> None:
    """Each figure comes of a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--game", default="seaquest")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--part", nargs=2)
    told = parser.parse_args()
    if told.part:
        work, storage = told.part
        part = {"save": save, "load": load}[work]
        print(json.dumps(part(told.game, storage, told.count, told.folder)))
        return
    for storage in TIERS:
        with tempfile.TemporaryDirectory(dir=told.folder) as folder:
            for work in ("save", "load"):
                command = [sys.executable, "-m", "benchmarks.saving", "--part", work, storage]
                command += ["--game", told.game, "--count", str(told.count), "--folder", folder]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                figures = json.loads(done.stdout.splitlines()[-1])
                said = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
                print(f"{storage:5} {work}: {said}", flush=True)


if __name__ == "__main__":
    main()
