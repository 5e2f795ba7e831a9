"""Our memories as they are read, beside the peers' of benchmarks/peers: what `sampling` runs.

python -m benchmarks.sample_ours '{"what": "pictures", "mode": "lz4", "count": 50000, ...}'
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch

from agents.tensors import to_tensors
from benchmarks.fill import (
    WINDOW,
    Tape,
    blocks,
    context_of,
    filled,
    forecast,
    options_of,
    preview_of,
    rows_for,
    write,
)
from benchmarks.peers.serve import ALPHA, Pair, Reads, Work, errors, serve, settings, vectors
from benchmarks.recordings import Recording
from core.agent import Agent
from core.memories.episodic import EpisodicMemory, EpisodicOptions
from core.memories.sequential import SequentialMemory
from core.memory import Memory
from core.options import SharedOptions
from core.types import Batch
from models.dqn import scaled
from utils.assemble import build
from utils.settings import find_row, resolve

BEYOND = 10
"""A part of it so small is written to a memory that is full, so that it lets old rows go."""
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Same:
    """A memory that gives one batch for ever: what learning takes without any sampling."""

    batch: Batch
    takes_feedback: ClassVar[bool] = False

    def sample(self, batch_size: int) -> Batch:
        """The batch."""
        return self.batch


def pictures(given: Mapping[str, Any], recording: Recording, folder: Path) -> Memory:
    """A full memory of stacks; the mode names codec, tier and sampler."""
    own: dict[str, Any] = {"frame_codec": "raw"}
    for word in given["mode"].split():
        if word == "disk":
            own["storage"] = word
        elif word == "prioritized":
            own |= {"sampler": word, "priority_exponent": ALPHA}
        else:
            own["frame_codec"] = word
    options = options_of(own, rows_for(recording, given["count"]))
    context = forecast(options, context_of(recording, 1), preview_of(Path(given["folder"]).name))
    return filled(recording, options, replace(context, folder=folder), given["count"] // BEYOND)


def windows(given: Mapping[str, Any], recording: Recording) -> Memory:
    """A full memory of trajectories."""
    shared = SharedOptions(window_length=WINDOW, num_envs=1, trajectory_length=given["length"])
    rows = rows_for(recording, given["count"])
    options = EpisodicOptions(frame_codec=given["mode"], memory_limit=rows)
    memory = EpisodicMemory(options, replace(context_of(recording, 1), shared=shared))
    writer, tape = memory.writer(), Tape(recording, 1)
    writer.start(tape.begin())
    for count in blocks(rows + rows // BEYOND):
        write(writer, tape.take(count))
    return memory


def flat(given: Mapping[str, Any], recording: Recording) -> Memory:
    """A full memory of vectors."""
    own = {"sampler": given["mode"]}
    if given["mode"] == "prioritized":
        own["priority_exponent"] = ALPHA
    options = options_of(own, rows_for(recording, given["count"]))
    shared = SharedOptions(window_length=1, num_envs=1)
    context = replace(context_of(recording, 1), shared=shared)
    return filled(recording, options, context, given["count"] // BEYOND)


def to_input(memory: Memory, size: int) -> Work:
    """A batch as float32 tensors `[B, 4, H, W]` from 0 to 1, by the way of agents and networks."""

    def work() -> list[torch.Tensor]:
        data = to_tensors(memory.sample(size), CPU)
        return [scaled(data[name]) for name in ("obs", "next_obs")]

    return work


def told(memory: Memory, size: int) -> Work:
    """A batch, and the errors of it."""
    sizes = errors(size)
    return lambda: memory.feedback(memory.sample(size)["id"], sizes)


def take(memory: Memory, size: int) -> Work:
    """What numpy does at least for a batch of raw pictures: copies five rows of each unit."""
    frames = cast(SequentialMemory, memory).ring._frames["obs"]
    starts = np.random.default_rng(3).integers(0, len(frames) - WINDOW - 1, (64, size, 1))
    turns = iter(range(1 << 60))
    return lambda: frames.take(
        starts[next(turns) % 64] + np.arange(WINDOW + 1), axis=0, mode="clip"
    )


def learning(agent: Agent, memory: Memory, _: int) -> Work:
    """An update."""
    return partial(agent.learn, memory)


def update(given: Mapping[str, Any], recording: Recording) -> Reads:
    """Updates of a row's agent: of one batch for ever, of sampled ones, of ones read ahead."""
    rows = str(rows_for(recording, given["count"]))
    works: dict[str, Callable[[int], Work]] = {}
    memory: Memory
    for name, prefetch in (("ahead", "2"), ("sampled", "0")):
        flags = {
            "memory_limit": rows,
            "learn_start": "1_000",
            "prefetch": prefetch,
            "visdom": "off",
        }
        chosen = resolve(given["mode"], find_row(given["mode"]), flags)
        parts = build(chosen)
        memory = parts.memory
        writer, tape = memory.writer(), Tape(recording, 1)
        writer.start(tape.begin())
        for count in blocks(int(rows)):
            write(writer, tape.take(count))
        works[name] = partial(learning, parts.agent, memory)
    still = cast(Memory, Same(memory.sample(chosen.run.batch_size)))
    works["still"] = partial(learning, parts.agent, still)
    return Reads(works, partial(look, memory))


def look(memory: Memory, size: int) -> Pair:
    """Observations and successors of a batch."""
    batch = memory.sample(size)
    return batch["obs"], batch["next_obs"]


def look_through(memory: Memory, size: int) -> Pair:
    """The same of windows."""
    batch = memory.sample(size)
    obs, there = batch["obs"], batch["mask"]
    return obs[:-1][there][:size], obs[1:][there][:size]


def reads_of(given: Mapping[str, Any], recording: Recording, folder: Path) -> Reads:
    """What is asked for, full."""
    if given["what"] == "update":
        return update(given, recording)
    if given["what"] == "windows":
        trajectories = windows(given, recording)
        batches = {"windows": lambda size: partial(trajectories.sample, size)}
        return Reads(batches, partial(look_through, trajectories), given["length"])
    if given["what"] == "vectors":
        memory = flat(given, recording)
    else:
        memory = pictures(given, recording, folder)
    works: dict[str, Callable[[int], Work]] = {
        "uniform": lambda size: partial(memory.sample, size),
        "input": partial(to_input, memory),
        "prioritized": partial(told, memory),
        "take": partial(take, memory),
    }
    return Reads(works, partial(look, memory))


def main() -> None:
    """Fills, and reads as it is told."""
    given = settings()
    torch.set_num_threads(1)
    if given["what"] == "vectors":
        recording = Recording(**vectors(), meta={})
    else:
        folder = Path(given["folder"])
        recording = Recording.load(folder.name, folder.parent)
    with tempfile.TemporaryDirectory() as place:
        serve("", recording, reads_of(given, recording, Path(place)), given)


if __name__ == "__main__":
    main()
