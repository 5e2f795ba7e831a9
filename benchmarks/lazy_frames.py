"""What stacks of shared frames save in a list of experience, and where the saving is lost.

    python -m benchmarks.lazy_frames --steps 10000

Steps of Pong at random, each of them a stack of four frames 84 by 84, are kept in a list as a loop
with a deque for its replay keeps them. Each way of keeping runs in a process of its own, and prints
bytes of private memory a step.
"""

import argparse
import ctypes
import gc
import json
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from core.adapters.frame_stack import LazyStack
from core.adapters.stream import Stream
from core.envs.spaces import action_space
from core.memory_watch import private_bytes
from core.types import ArraySpec, EnvSpec

WINDOW = 4
FRAME = (84, 84)
Told = tuple[list[np.ndarray], list[np.ndarray], bool]


class CachedStack:
    """As OpenAI Baselines' LazyFrames: the first look joins the frames, and keeps the array."""

    def __init__(self, frames: list[np.ndarray]) -> None:
        self._frames: list[np.ndarray] | None = frames
        self._out: np.ndarray | None = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self._out is None:
            assert self._frames is not None
            self._out, self._frames = np.stack(self._frames), None
        return self._out if dtype is None else self._out.astype(dtype)


def frames_of_pong(steps: int) -> Iterator[Told]:
    """Frames before each step, those after it, and whether the episode ended."""
    import ale_py
    from gymnasium.wrappers import AtariPreprocessing

    gym.register_envs(ale_py)
    env = AtariPreprocessing(gym.make("PongNoFrameskip-v4"))
    env.action_space.seed(1)
    recent: deque[np.ndarray] = deque(maxlen=WINDOW)
    recent.extend([env.reset(seed=1)[0].copy()] * WINDOW)
    for _ in range(steps):
        before = list(recent)
        obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
        recent.append(obs.copy())
        yield before, list(recent), terminated or truncated
        if terminated or truncated:
            recent.extend([env.reset()[0].copy()] * WINDOW)


def keep_list(way: str, steps: int) -> list[Any]:
    """A list of pairs of observations, as that way keeps them."""
    kept: list[Any] = []
    previous: Any = None
    for before, after, ended in frames_of_pong(steps):
        first = _one(way, before) if previous is None else previous
        pair = [first, _one(way, after)]
        kept.append(pair)
        previous = None if ended or way.startswith("arrays") else pair[1]
    if way == "cached, sampled":
        rng = np.random.default_rng(0)
        for _ in range(steps // 4):  # an update each four steps, of 32 transitions
            for at in rng.integers(0, len(kept), 32):
                np.asarray(kept[at][0]), np.asarray(kept[at][1])
    if way == "lazy, sampled":
        for at in np.random.default_rng(0).integers(0, len(kept), 4 * steps):
            np.asarray(kept[at][0]), np.asarray(kept[at][1])
    if way == "lazy, pickled one by one":
        return [pickle.loads(pickle.dumps(pair)) for pair in kept]
    if way == "lazy, pickled together":
        return list(pickle.loads(pickle.dumps(kept)))
    return kept


def _one(way: str, frames: list[np.ndarray]) -> Any:
    if way == "arrays":
        return np.stack(frames)
    if way.endswith("scaled floats"):
        return np.stack(frames).astype(np.float32) / 255
    return CachedStack(frames) if way.startswith("cached") else LazyStack(frames)


def keep_memory(codec: str, steps: int) -> Stream:
    """Our memory of the same steps."""
    env = EnvSpec(
        {"obs": ArraySpec((WINDOW, *FRAME), np.dtype(np.uint8))},
        action_space(gym.spaces.Discrete(6)),
    )
    stream = Stream(env, steps + 1_000, 1, {"window_length": WINDOW, "frame_codec": codec})
    none, zero = np.zeros(1, np.bool_), np.zeros(1, np.int64)
    for before, after, ended in frames_of_pong(steps):
        obs, next_obs = ({"obs": np.stack(frames)[None]} for frames in (before, after))
        stream.add(obs, next_obs, zero, np.zeros(1), none | ended, none)
    return stream


WAYS = (
    "nothing", "arrays", "arrays, scaled floats", "cached", "cached, sampled", "lazy",
    "lazy, sampled", "lazy, scaled floats", "lazy, pickled together", "lazy, pickled one by one",
    "memory, raw", "memory, lz4", "memory, zstd",
)  # fmt: skip


def settled() -> int:
    """Private bytes once what was freed has gone back to the system."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return private_bytes()


def measure(way: str, steps: int) -> float:
    """Bytes of private memory that a step takes, in this process."""
    for _ in frames_of_pong(5):
        pass
    begun = settled()
    kept: Any
    if way == "nothing":
        kept = [None for _ in frames_of_pong(steps)]
    elif way.startswith("memory"):
        kept = keep_memory(way.split()[1], steps)
    else:
        kept = keep_list(way, steps)
    if isinstance(kept, Stream):  # it accounts for every byte, and megabytes are few steps of it
        return sum(kept.memory.usage().values()) / steps
    return (settled() - begun) / steps


def main() -> int:
    """Measures every way, or the one that is named."""
    parser = argparse.ArgumentParser(description="bytes a step of keeping stacked frames")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--way", choices=WAYS)
    given = parser.parse_args()
    if given.way:
        print(json.dumps({"way": given.way, "bytes": measure(given.way, given.steps)}))
        return 0
    for way in WAYS:
        command = [sys.executable, "-m", "benchmarks.lazy_frames", "--way", way]
        subprocess.run([*command, "--steps", str(given.steps)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
