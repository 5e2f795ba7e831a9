"""What a replay memory takes, the same way for every peer: PSS before and after filling it.

A `fill_*.py` beside this file is run by the Python of its peer's own venv, so this file asks for
the standard library and numpy only. It prints one line of JSON:

    {"peer", "mode", "version", "transitions", "bytes_per_transition", "seconds"}
"""

import argparse
import ctypes
import gc
import json
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

WARM_UP = 200  # transitions
STACK = 4  # frames an observation


class Recording(NamedTuple):
    """Frames and what was done at them; see `load`."""

    frames: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    closing: np.ndarray


class Step(NamedTuple):
    """One step of an episode: frames are views of the recording, the rest are single values."""

    first: bool
    frame: np.ndarray
    action: Any
    reward: float
    next_frame: np.ndarray
    terminated: bool
    truncated: bool

    @property
    def over(self) -> bool:
        """Whether the episode ends with this step."""
        return self.terminated or self.truncated


Fill = Callable[[Recording, int], Any]


def load(folder: Path) -> Recording:
    """A recording, all of it in memory: mapped pages would count as they are touched.

    Row i holds frame i (uint8), the action taken at it, and the reward and end that followed. An
    episode of T steps has T + 1 rows; the last, its closing row, holds its last frame only.
    """
    return Recording(*(np.load(folder / f"{name}.npy") for name in Recording._fields))


def steps(recording: Recording) -> Iterator[Step]:
    """The steps of a recording, over and over; its last one, where it breaks off, is truncated."""
    last_row = len(recording.frames) - 1
    while True:
        first = True
        for row in np.flatnonzero(~recording.closing[:-1]).tolist():
            over = bool(recording.closing[row + 1]) or row + 1 == last_row
            action = recording.action[row]
            yield Step(
                first,
                recording.frames[row],
                action if action.ndim else int(action),
                float(recording.reward[row]),
                recording.frames[row + 1],
                bool(recording.terminated[row]),
                over and not recording.terminated[row],
            )
            first = over


def stacks(recording: Recording, axis: int) -> Iterator[tuple[np.ndarray, np.ndarray, Step]]:
    """Each step with its observation and the next, fresh arrays of four frames along an axis.

    An episode starts with its first frame four times, as gymnasium's own frame stack does.
    """
    held: list[np.ndarray] = []
    obs = np.empty(0)
    for step in steps(recording):
        if step.first:
            held = [step.frame] * STACK
            obs = np.stack(held, axis)
        held = [*held[1:], step.next_frame]
        next_obs = np.stack(held, axis)
        yield obs, next_obs, step
        obs = next_obs


def settled_pss() -> int:
    """Bytes of memory of this process, once garbage is gone and freed pages are given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/smaps_rollup has no Pss line")


def measure(fill: Fill, recording: Recording, transitions: int) -> tuple[float, float]:
    """Bytes a transition of a full memory, and the seconds it took to fill.

    A small one is filled and dropped first, so that what loads at first use is not counted.
    """
    fill(recording, WARM_UP)
    before, begun = settled_pss(), time.perf_counter()
    memory = fill(recording, transitions)
    seconds = time.perf_counter() - begun
    taken = settled_pss() - before
    del memory
    return taken / transitions, seconds


def main(peer: str, package: str, modes: dict[str, Fill]) -> None:
    """Measures the mode asked for (the first, if none is) and prints its line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--recording", type=Path, required=True)
    parser.add_argument("--transitions", type=int, default=50_000)
    parser.add_argument("--mode", choices=list(modes), default=next(iter(modes)))
    options = parser.parse_args()
    taken, seconds = measure(modes[options.mode], load(options.recording), options.transitions)
    line = {
        "peer": peer,
        "mode": options.mode,
        "version": version(package),
        "transitions": options.transitions,
        "bytes_per_transition": round(taken),
        "seconds": round(seconds, 1),
    }
    print(json.dumps(line), flush=True)


def check_full(size: int, transitions: int) -> None:
    """Raises where a memory does not hold as many transitions as it was to be filled with."""
    if size != transitions:
        raise RuntimeError(f"the memory holds {size} transitions, not {transitions}")
