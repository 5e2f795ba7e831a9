"""Fills a SequentialMemory with a recording, and says what it takes: one figure a process.

    python -m benchmarks.fill bytes --game pong --options '{"frame_codec": "lz4"}' --count 1000000
    python -m benchmarks.fill private --game carracing --count 100000
    python -m benchmarks.fill append --game seaquest --count 40000 --rounds 9

Each is run by `benchmarks.memory` in a process of its own, so that nothing that came before is
counted, and prints one line of JSON. Recordings are played over and over; see `Tape`.
"""

import argparse
import ctypes
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.recordings import Recording
from core.episodes.rows import LANE_SHIFT
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext, Plan, Writer
from core.memory_watch import private_bytes
from core.options import SharedOptions
from core.types import Array, ArraySpec, Columns, ContinuousActions, DiscreteActions, EnvSpec

WINDOW: Final = 4
"""Frames that an observation stacks."""
BLOCK: Final = 64
"""Steps that are gathered before they are written."""
WARM_CHUNKS: Final = 300
"""Chunks of the memory that is filled and dropped first: enough for a dictionary to be learnt."""
BEYOND: Final = 10
"""A part of it so small is written to a memory that is full, so that it lets old rows go."""
NO_LANE: Final = np.zeros(0, np.int64)
PREVIEW_ROWS: Final = 1_024
CHECKED: Final = 256
"""Transitions of a measured memory that are compared with the recording."""
PREVIEWS: Final = {"breakout": "breakout_random"}
"""Recordings of random play, by those of play that is not; a run is forecast by random play."""


class Step(NamedTuple):
    """What a writer is told of a step of all lanes `[L]`, and of the episodes that follow."""

    action: Array
    reward: Array
    terminated: Array
    truncated: Array
    next_obs: Array
    over: Array
    """Lanes whose episode ends; they start another."""
    first: Array
    """The first frames of those."""


class Tape:
    """A recording in lanes: each begins at another step of it, and plays it over and over.

    Lane 0 begins at its first row.
    """

    def __init__(self, recording: Recording, lanes: int) -> None:
        self._recording = recording
        self._rows = np.flatnonzero(~np.asarray(recording.closing))
        self._at = np.arange(lanes) * len(self._rows) // lanes

    def begin(self) -> Columns:
        """The first frames of the lanes."""
        return {"obs": self._recording.frames[self._rows[self._at]]}

    def take(self, count: int) -> list[Step]:
        """The next `count` steps of every lane."""
        tape, each = self._recording, self._at + np.arange(count)[:, None]
        rows, following = (self._rows[at % len(self._rows)] for at in (each, each + 1))
        self._at = (self._at + count) % len(self._rows)
        over, terminated = tape.closing[rows + 1], tape.terminated[rows]
        ended = [np.flatnonzero(lanes) if lanes.any() else NO_LANE for lanes in over]
        first = [
            tape.frames[at[lanes]] if len(lanes) else tape.frames[:0]
            for at, lanes in zip(following, ended, strict=True)
        ]
        told = (tape.action[rows], tape.reward[rows], terminated, over & ~terminated)
        columns = (*told, tape.frames[rows + 1], ended, first)
        return [Step(*step) for step in zip(*columns, strict=True)]


def write(writer: Writer, steps: list[Step]) -> None:
    """Tells a writer of steps, and of the episodes that start after them."""
    for step in steps:
        writer.append(
            step.action, step.reward, step.terminated, step.truncated, {"obs": step.next_obs}
        )
        if len(step.over):
            writer.start({"obs": step.first}, step.over)


def blocks(count: int) -> Iterator[int]:
    """How many steps to write at once, so that they are `count` in the end."""
    yield from [BLOCK] * (count // BLOCK)
    if count % BLOCK:
        yield count % BLOCK


def in_ram(recording: Recording) -> Recording:
    """The recording, read: pages of a file would count as they are touched."""
    names = ("frames", "action", "reward", "terminated", "closing")
    return replace(recording, **{name: np.array(getattr(recording, name)) for name in names})


def env_of(recording: Recording) -> EnvSpec:
    """What an environment that gave these rows says of itself."""
    frames, action = recording.frames, recording.action
    observations = {"obs": ArraySpec(frames.shape[1:], frames.dtype)}
    if action.ndim == 1:
        return EnvSpec(observations, DiscreteActions(int(action.max()) + 1))
    low, high = (-1.0,) * action.shape[1], (1.0,) * action.shape[1]
    return EnvSpec(observations, ContinuousActions(low, high))


def context_of(recording: Recording, lanes: int) -> MemoryContext:
    """What a run's memory is built from, without a forecast."""
    shared = SharedOptions(window_length=WINDOW, num_envs=lanes)
    return MemoryContext(env_of(recording), shared, np.random.default_rng(0))


def options_of(setting: Mapping[str, Any], rows: int) -> SequentialOptions:
    """A setting with room for so many rows, of all lanes."""
    return SequentialOptions(memory_limit=rows, **setting)


def forecast(options: SequentialOptions, context: MemoryContext, preview: Array) -> MemoryContext:
    """The context with what pictures will take, as a run has it; `preview` is `[N, ...]`."""
    names = SequentialMemory.pictures(options, context)
    frames = dict.fromkeys(names, np.asarray(preview[:PREVIEW_ROWS]))
    return replace(context, forecasts=SequentialMemory.forecast(options, context, frames))


def filled(
    recording: Recording, options: SequentialOptions, context: MemoryContext, beyond: int = 0
) -> SequentialMemory:
    """A memory of one lane, as many steps after its first row as it has rows, and `beyond`."""
    memory = SequentialMemory(options, context)
    writer, tape = memory.writer(), Tape(recording, 1)
    writer.start(tape.begin())
    for count in blocks(options.memory_limit + beyond):
        write(writer, tape.take(count))
    return memory


def rows_for(recording: Recording, transitions: int) -> int:
    """Rows that hold so many transitions, closing rows included."""
    steps = int((~np.asarray(recording.closing)).sum())
    return -(-transitions * len(recording.closing) // steps) + 1


def warm_up(recording: Recording, setting: Mapping[str, Any]) -> None:
    """Loads and compiles what a memory needs, and drops the memory."""
    chunk = options_of(setting, 2).chunk_frames
    options = options_of(setting, WARM_CHUNKS * chunk)
    filled(recording, options, context_of(recording, 1)).sample(32)


def settled(read: Callable[[], int]) -> int:
    """A reading of bytes, once garbage is gone and freed pages are given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return read()


def pss() -> int:
    """Bytes of this process by PSS, pages of files left out.

    Those are libraries, of which each process that has them loaded counts its part: they change by
    megabytes as another Python starts or ends somewhere.
    """
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    parts = {name: line.split() for line in lines if (name := line.partition(":")[0])}
    if "Pss" not in parts:
        raise RuntimeError("/proc/self/smaps_rollup has no Pss line")
    whole, files = (int(parts.get(name, [name, "0"])[1]) for name in ("Pss", "Pss_File"))
    return (whole - files) * 1024


def compare(memory: SequentialMemory, recording: Recording) -> None:
    """Raises unless the memory of one lane gives back what was written, as far as a batch shows."""
    batch = memory.sample(CHECKED)
    rows = (batch["id"] & ((1 << LANE_SHIFT) - 1)) % len(recording.closing)
    pairs = (
        (batch["obs"][:, -1], recording.frames[rows]),
        (batch["next_obs"][:, -1], recording.frames[rows + 1]),
        (batch["action"], recording.action[rows]),
        (batch["reward"], recording.reward[rows]),
        (batch["discount"] == 0, recording.terminated[rows]),
    )
    if not all(np.array_equal(mine, theirs) for mine, theirs in pairs):
        raise RuntimeError("the memory does not give back what was written")


def measure_bytes(
    recording: Recording, setting: Mapping[str, Any], transitions: int, preview: Array
) -> dict[str, Any]:
    """What a full memory takes by PSS, by its own account, and by the plan of the forecast."""
    warm_up(recording, setting)
    options = options_of(setting, rows_for(recording, transitions))
    context = forecast(options, context_of(recording, 1), preview)
    plan: Plan = SequentialMemory.plan(options, context)
    before, begun = settled(pss), time.process_time()
    memory = filled(recording, options, context, options.memory_limit // BEYOND)
    seconds = time.process_time() - begun
    taken, usage = settled(pss) - before, sum(memory.usage().values())
    compare(memory, recording)
    return {
        "asked": transitions,
        "held": len(memory),
        "pss": taken,
        "usage": usage,
        "forecast": context.forecasts.get("obs"),
        "low": plan.bytes_low,
        "full": plan.bytes_full,
        "high": plan.bytes_high,
        "seconds": round(seconds, 1),
    }


def measure_private(
    game: str, setting: Mapping[str, Any], transitions: int, before: int
) -> dict[str, Any]:
    """Private bytes of this process beyond `before`, with a full memory and nothing else.

    The recording stays on the disk: pages of a file are not private.
    """
    recording = Recording.load(game)
    options = options_of(setting, rows_for(recording, transitions))
    context = forecast(options, context_of(recording, 1), preview_of(game))
    memory = filled(recording, options, context, options.memory_limit // BEYOND)
    taken = settled(private_bytes) - before
    return {"held": len(memory), "private": taken}


def measure_append(
    recording: Recording, setting: Mapping[str, Any], rows: int, lanes: int, rounds: int
) -> dict[str, Any]:
    """Steps of all lanes a second of this process, as the ring fills and once it is full."""
    warm_up(recording, setting)
    options, context = options_of(setting, rows), context_of(recording, lanes)
    memory, tape = SequentialMemory(options, context), Tape(recording, lanes)
    writer = memory.writer()
    writer.start(tape.begin())
    first = append_rate(writer, tape, rows // lanes, lanes)
    full = memory.full
    rates = [append_rate(writer, tape, rows // lanes, lanes) for _ in range(rounds)]
    return {"full": full, "first": round(first), "rate": round(statistics.median(rates))}


def append_rate(writer: Writer, tape: Tape, count: int, lanes: int) -> float:
    """Steps of all lanes a second of processor time, over `count` of each; reading is not timed."""
    spent = 0.0
    for size in blocks(count):
        steps = tape.take(size)
        begun = time.process_time()
        write(writer, steps)
        spent += time.process_time() - begun
    return count * lanes / spent


def preview_of(game: str) -> Array:
    """Frames of random play of a game."""
    return Recording.load(PREVIEWS.get(game, game)).frames


def arguments() -> argparse.Namespace:
    """What the command asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["bytes", "private", "append"])
    parser.add_argument("--game", required=True)
    parser.add_argument("--options", type=json.loads, default={}, help="keys of SequentialOptions")
    parser.add_argument("--count", type=int, required=True, help="transitions; append: rows")
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=9)
    return parser.parse_args()


def main() -> None:
    """Measures what is asked for and prints its line of JSON."""
    asked = arguments()
    if asked.what == "private":
        import torch  # noqa: F401  a run has it loaded before its memory is built

        found = measure_private(asked.game, asked.options, asked.count, settled(private_bytes))
    elif asked.what == "bytes":
        recording = in_ram(Recording.load(asked.game))
        found = measure_bytes(recording, asked.options, asked.count, preview_of(asked.game))
    else:
        recording = in_ram(Recording.load(asked.game))
        found = measure_append(recording, asked.options, asked.count, asked.lanes, asked.rounds)
    print(json.dumps({"game": asked.game, **found}), flush=True)


if __name__ == "__main__":
    main()
