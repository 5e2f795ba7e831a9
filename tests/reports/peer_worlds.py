"""Memories told by words, whose frames name their moment, for the tests of the peers' defects.

The functions that print are called in a process of their own, where nothing else takes memory.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pytest

from core.envs.toy import Moment, decode, encode
from core.memories.episodic import EpisodicMemory
from core.memories.sequential import SequentialMemory
from core.memory import Memory, MemoryContext, Writer
from core.memory_watch import private_bytes
from core.options import SharedOptions
from core.sampling.uniform import Draw, all_starts
from core.types import ArraySpec, Batch, DiscreteActions, EnvSpec

U8 = np.dtype(np.uint8)
SIDE = 16
FRAME = SIDE * SIDE
ROW = FRAME + 16 + 1
"""Bytes of a raw frame, and of a row: reward, age, episode, flags, action, counter of draws."""

KINDS: dict[str, type[Memory]] = {"sequential": SequentialMemory, "episodic": EpisodicMemory}
each_kind = pytest.mark.parametrize("kind", sorted(KINDS))
each_draw = pytest.mark.parametrize(
    ("kind", "keys"),
    [("sequential", {}), ("episodic", {}), ("episodic", {"draw": "episodes"})],
    ids=["sequential", "episodic", "episodes"],
)
each_codec = pytest.mark.parametrize("codec", ["raw", "lz4"])
every_codec = pytest.mark.parametrize("codec", ["raw", "lz4", "zstd"])


def arguments(
    limit: int, codec: str = "raw", spec: ArraySpec | None = None, seed: int = 0, **keys: Any
) -> tuple[dict[str, Any], MemoryContext]:
    """What a memory of one picture a row is built from; keys of the run are told apart."""
    shared = {"gamma": 0.5, "trajectory_length": 2}
    shared |= {key: keys.pop(key) for key in list(keys) if key in SharedOptions.model_fields}
    spec = spec or ArraySpec((SIDE, SIDE), U8)
    env = EnvSpec({"obs": spec}, DiscreteActions(3))
    context = MemoryContext(env, SharedOptions(**shared), np.random.default_rng(seed))
    return {"memory_limit": limit, "frame_codec": codec, "chunk_frames": 2, **keys}, context


def make(kind: str = "sequential", limit: int = 64, codec: str = "raw", **keys: Any) -> Memory:
    """A memory; chunks are of two frames unless said otherwise, so that most rows are coded."""
    options, context = arguments(limit, codec, **keys)
    return KINDS[kind](KINDS[kind].Options(**options), context)


def earned(episode: int, step: int) -> float:
    """The reward of a step: 1, 2, 3 in the first episode, 101, 102, 103 in the second."""
    return 100.0 * episode + step + 1


class Told:
    """A memory of one lane: `s` start, `.` step, `t` terminal step, `c` cut step, `l` lost life."""

    def __init__(self, *how: Any, **keys: Any) -> None:
        self.memory = make(*how, **keys)
        self._at = (-1, 0)
        self.renew()

    def renew(self) -> None:
        """A new writer, as a second call of learn takes."""
        self._writer = self.memory.writer()

    def tell(self, story: str) -> Self:
        """What happens, a word an event."""
        for word in story:
            episode, step = self._at
            self._at = (episode + 1, 0) if word == "s" else (episode, step + 1)
            obs = {"obs": encode(Moment(0, *self._at), SIDE)[None]}
            if word == "s":
                self._writer.start(obs)
                continue
            self._writer.append(
                np.array([step % 3]),
                np.array([earned(episode, step)]),
                np.array([word == "t"]),
                np.array([word == "c"]),
                obs,
                lost_life=np.array([word == "l"]),
            )
        return self

    def units(self) -> "dict[int, Seen]":
        """Everything that it may give."""
        return units(self.memory)


class Seen(NamedTuple):
    """A step as a memory gives it: its frames by episode and step, oldest first."""

    stack: list[tuple[int, int]]
    then: list[tuple[int, int]]
    reward: float
    discount: float


@cache
def named(frame: bytes) -> Moment:
    """The moment that a frame shows, every pixel of it."""
    pixels = np.frombuffer(frame, U8).reshape(SIDE, SIDE)
    moment = decode(pixels)
    assert np.array_equal(encode(moment, SIDE), pixels), "a frame that was never shown"
    return moment


def moments(stack: np.ndarray, lane: int = 0) -> list[tuple[int, int]]:
    """Episode and step of each frame of a stack, all of them of that lane."""
    found = [named(frame.tobytes()) for frame in stack]
    assert {moment.lane for moment in found} == {lane}
    return [(moment.episode, moment.step) for moment in found]


def read_all(memory: Memory) -> Batch:
    """Every unit of a memory, in order."""
    lanes, rows = all_starts(memory.starts)
    return memory.reader.read(Draw(lanes, rows, np.ones(len(rows), np.float32)))


def units(memory: Memory) -> dict[int, Seen]:
    """Every step that a memory may give, by id; windows are taken apart into their steps."""
    return seen(read_all(memory))


def seen(batch: Batch) -> dict[int, Seen]:
    """The steps of a batch by id; one that is there twice has to be the same."""
    found: dict[int, Seen] = {}
    for name, stack, then, reward, discount in _steps(batch):
        lane = name >> 40
        step = Seen(moments(stack, lane), moments(then, lane), float(reward), float(discount))
        assert found.setdefault(name, step) == step
    return found


def _steps(batch: Batch) -> Iterator[tuple[Any, ...]]:
    names = batch["id"].tolist()
    if "mask" not in batch:
        columns = (batch[name] for name in ("obs", "next_obs", "reward", "discount"))
        yield from zip(names, *columns, strict=True)
        return
    obs, reward, discount = batch["obs"], batch["reward"], batch["discount"]
    for at, place in np.argwhere(batch["mask"]).tolist():
        both = obs[at, place], obs[at + 1, place]
        yield names[place] + at, *both, reward[at, place], discount[at, place]


def copied(tree: Any) -> Any:
    """A tree of state that no later change reaches."""
    if isinstance(tree, dict):
        return {key: copied(value) for key, value in tree.items()}
    return tree.copy() if isinstance(tree, np.ndarray | list) else tree


def pictures(kind: str, shape: tuple[int, ...], count: int = 256) -> np.ndarray:
    """Frames `[count, 1, ...]`: `noise`, `still` but for a moving square, or `half` of each."""
    rng = np.random.default_rng(0)
    if kind == "noise":
        return rng.integers(0, 256, (count, 1, *shape)).astype(U8)
    frames = np.zeros((count, 1, *shape), U8)
    frames[:] = rng.integers(0, 256, shape)
    for at, frame in enumerate(frames):
        frame[0, at % (shape[0] - 4) : at % (shape[0] - 4) + 4, 2:6] = at % 256
        if kind == "half":
            frame[0, shape[0] // 2 :] = rng.integers(0, 256, frame[0, shape[0] // 2 :].shape)
    return frames


def fill(writer: Writer, frames: np.ndarray, steps: int, length: int = 0) -> None:
    """Steps of one lane, in episodes of `length`, 0 for one that never ends."""
    no, yes = np.zeros(1, np.bool_), np.ones(1, np.bool_)
    action, reward = np.zeros(1, np.int64), np.zeros(1)
    writer.start({"obs": frames[0]})
    for step in range(1, steps + 1):
        last = bool(length) and step % length == 0
        obs = {"obs": frames[step % len(frames)]}
        writer.append(action, reward, no, yes if last else no, obs)
        if last:
            writer.start({"obs": frames[step % len(frames)]})


def taken() -> tuple[int, int]:
    """Private bytes of this process, and those of them that it shares."""
    lines = Path("/proc/self/status").read_text().splitlines()
    shared = [int(line.split()[1]) * 1024 for line in lines if line.startswith("RssShmem:")]
    return private_bytes(), sum(shared)


def print_private_bytes_once_full(kind: str, codec: str, appends: int, samples: int = 1) -> None:
    """Prints what the process takes after each 1,000 appends to a ring that has wrapped.

    Between two such, `samples` batches are drawn.
    """
    spec = ArraySpec((32, 32), U8)
    memory = make(kind, 4_000, codec, spec=spec, window_length=4, chunk_frames=16)
    writer, frames = memory.writer(), pictures("half", (32, 32))
    fill(writer, frames, 5_000, 100)
    assert memory.full
    readings = []
    for _ in range(appends // 1_000):
        fill(writer, frames, 1_000, 100)
        for _ in range(samples):
            memory.sample(32)
        readings.append(private_bytes())
    print(json.dumps(readings))


def print_what_is_taken(codec: str, rows: int) -> None:
    """Prints what a full memory of still pictures says that it takes, and what the system says."""
    shape = (84, 84)
    frames = pictures("still", shape)
    fill(make(codec=codec, spec=ArraySpec(shape, U8)).writer(), frames, 50)  # warm
    before = taken()
    memory = make(limit=rows, codec=codec, spec=ArraySpec(shape, U8), window_length=4)
    fill(memory.writer(), frames, rows + rows // 10, 100)
    memory.sample(32)
    after = taken()
    assert memory.full
    told = {"usage": memory.usage(), "private": after[0] - before[0]}
    told |= {"shared": after[1] - before[1], "maps": Path("/proc/self/maps").read_text()}
    print(json.dumps(told))


def print_what_noise_takes(codec: str, rows: int, memory_bytes: int) -> None:
    """Prints the most that pictures which nothing compresses ever took under a bound on bytes."""
    shape = (64, 64)
    frames = pictures("noise", shape)
    fill(make(codec=codec, spec=ArraySpec(shape, U8)).writer(), frames, 50)  # warm
    before = private_bytes()
    keys = {"memory_bytes": memory_bytes, "chunk_frames": 16, "window_length": 4}
    memory = make(limit=rows, codec=codec, spec=ArraySpec(shape, U8), **keys)
    writer, usage, private = memory.writer(), 0, 0
    for _ in range(rows // 100):
        fill(writer, frames, 100, 30)
        usage = max(usage, *memory.usage().values())
        private = max(private, private_bytes() - before)
    memory.check()
    _, held = all_starts(memory.starts)
    told = {"usage": usage, "private": private, "rows": memory.rows, "full": memory.full}
    print(json.dumps(told | {"oldest": int(held[0]), "newest": int(held[-1])}))
