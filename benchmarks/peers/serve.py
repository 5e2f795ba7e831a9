"""A full memory that is read whenever it is told to, the same way for every peer and for us.

A `sample_*.py` beside this file is run by the Python of its peer's own venv, so this file asks for
the standard library and numpy only. It fills its memory as its one argument says (JSON: "what",
"mode", "count", "folder", "length", "loops"), checks once what it reads, and prints

    {"ready": true, "version", "loops": [those that work], "failed": {those that do not: why}}

From then on it answers each line {"loop", "seconds"} of its input, and ends where that ends:

    {"loop", "units", "cpu", "wall"}

so many units in so many seconds of the processor, of all threads of the process together, and so
many by the clock. A loop is named "KIND SIZE", as "uniform 32": batches of so many units.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

WARM = 4  # a part of the time so small goes to warming up, and is not counted
CHECKED = 32  # units
ENOUGH = 0.9  # of the units whose successor has to be right: some peers err where episodes end
ALPHA, BETA = 0.6, 0.4  # of prioritized sampling, for all
VECTOR, ACTIONS = 17, 6  # floats of an observation, and of an action
EPISODES, LENGTH = 20, 1_000  # of the vectors that are played over and over

Work = Callable[[], Any]
Pair = tuple[np.ndarray, np.ndarray]


class Reads(NamedTuple):
    """How a full memory is read."""

    works: Mapping[str, Callable[[int], Work]]
    """By kind of loop, what makes the work of a batch of such a size."""
    look: Callable[[int], Pair]
    """Observations and successors of a batch, `[B, W, ...]` each, W frames, the newest last."""
    length: int = 1
    """Steps of a unit: what is counted are steps."""


def settings() -> dict[str, Any]:
    """What this process was told to fill."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    return given


def vectors() -> dict[str, np.ndarray]:
    """A recording of vectors, by column; every other episode is cut, the others terminate."""
    rng = np.random.default_rng(0)
    rows = EPISODES * (LENGTH + 1)
    place = np.arange(rows) % (LENGTH + 1)
    last = (place == LENGTH - 1) & (np.arange(rows) // (LENGTH + 1) % 2 == 0)
    return {
        "frames": rng.normal(size=(rows, VECTOR)).astype(np.float32),
        "action": rng.uniform(-1, 1, (rows, ACTIONS)).astype(np.float32),
        "reward": rng.normal(size=rows).astype(np.float32),
        "terminated": last,
        "closing": place == LENGTH,
    }


def blocks(recording: Any, count: int, size: int = 1_000) -> Iterator[dict[str, np.ndarray]]:
    """Transitions of a recording, over and over, `count` in all, so many at once."""
    rows = np.flatnonzero(~recording.closing)
    for begin in range(0, count, size):
        at = rows[np.arange(begin, min(begin + size, count)) % len(rows)]
        yield {
            "obs": recording.frames[at],
            "action": recording.action[at],
            "reward": recording.reward[at],
            "next_obs": recording.frames[at + 1],
            "terminated": recording.terminated[at],
            "over": recording.closing[at + 1],
        }


def errors(size: int) -> np.ndarray:
    """What a learner tells of a batch, the same for all: sizes of errors, none of them 0."""
    return np.abs(np.random.default_rng(2).normal(size=size)).astype(np.float32) + 0.01


def check(recording: Any, pair: Pair) -> None:
    """Raises unless those are units of the recording.

    The newest frame of each observation has to be recorded; the one before it in the stack, and
    the newest of the successor, have to stand beside it, but for the few where peers err.
    """
    frames, (obs, next_obs) = recording.frames, pair
    for array in pair:
        if array.dtype != frames.dtype or array.shape[2:] != frames.shape[1:]:
            raise RuntimeError(
                f"units are {array.dtype} {array.shape}, not {frames.dtype} {frames.shape[1:]}"
            )
    known: dict[int, list[int]] = {}
    for row in np.flatnonzero(~recording.closing).tolist():
        known.setdefault(hash(frames[row].tobytes()), []).append(row)
    found = [
        [row for row in known.get(hash(one.tobytes()), []) if np.array_equal(frames[row], one)]
        for one in obs[:, -1]
    ]
    if not all(found):
        raise RuntimeError("the memory gives observations that were never written")
    right = sum(
        any(stands(recording, row, *unit) for row in rows)
        for rows, unit in zip(found, zip(obs, next_obs, strict=True), strict=True)
    )
    if right < ENOUGH * len(obs):
        raise RuntimeError(f"only {right} of {len(obs)} units are as they were written")


def stands(recording: Any, row: int, obs: np.ndarray, next_obs: np.ndarray) -> bool:
    """Whether a unit is that of a row, as far as the frames beside its newest show."""
    frames, closing = recording.frames, recording.closing
    first = row == 0 or closing[row - 1]
    before = len(obs) == 1 or first or np.array_equal(frames[row - 1], obs[-2])
    return bool(before and np.array_equal(frames[row + 1], next_obs[-1]))


def measured(work: Work, seconds: float) -> tuple[int, float, float]:
    """Calls, and seconds by processor and by clock, of about so much processor time.

    How many calls that is is found first, so that nothing is asked between those that count.
    """
    begun, calls = time.process_time(), 0
    while time.process_time() - begun < seconds / WARM or not calls:
        work()
        calls += 1
    calls *= WARM - 1
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(calls):
        work()
    return calls, time.process_time() - cpu, time.perf_counter() - wall


def made(names: list[str], reads: Reads) -> tuple[dict[str, tuple[Work, int]], dict[str, str]]:
    """The loops with the units of a call, each tried once, and why others failed."""
    loops, failed = {}, {}
    for name in names:
        kind, size = name.split()
        try:
            work = reads.works[kind](int(size))
            work()
        except Exception as error:  # whatever a library raises is told, and the others go on
            failed[name] = f"{type(error).__name__}: {error}"[:300]
            continue
        loops[name] = work, int(size) * reads.length
    return loops, failed


def serve(package: str, recording: Any, reads: Reads, given: Mapping[str, Any]) -> None:
    """Checks a memory, says that it is ready, and measures what is asked for."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    check(recording, reads.look(CHECKED))
    loops, failed = made(given["loops"], reads)
    known = {"version": version(package) if package else "", "loops": list(loops)}
    print(json.dumps({"ready": True, **known, "failed": failed}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        work, units = loops[asked["loop"]]
        calls, cpu, wall = measured(work, asked["seconds"])
        found = {"loop": asked["loop"], "units": calls * units, "cpu": cpu, "wall": wall}
        print(json.dumps(found), flush=True)
