"""A memory that one process writes and others read, all as fast as they can.

Every number of a row says which row it is of, so that a row of two halves is known as such.
"""

import multiprocessing as mp
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.episodes.rows import LANE_SHIFT
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.types import ArraySpec, Batch, DiscreteActions, EnvSpec

ROW = (1 << LANE_SHIFT) - 1
SPAWN = mp.get_context("spawn")
LENGTH = 50
APART = {16: 4, 84: 16}
"""Of frames of that side one word in so many names the row: the rest is still, as in a game."""

SCRAMBLE = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class World:
    """Frames of `side` x `side` bytes, stacked `window` deep."""

    side: int = 16
    window: int = 1
    codec: str = "raw"
    rows: int = 4_096
    lanes: int = 1
    kind: type[SequentialMemory] = SequentialMemory

    def memory(self) -> SequentialMemory:
        """A memory in shared memory."""
        frame = ArraySpec((self.side, self.side), np.dtype(np.uint8))
        env = EnvSpec({"obs": frame}, DiscreteActions(7))
        options = SequentialOptions(
            memory_limit=self.rows, frame_codec=self.codec, storage="shared"
        )
        shared = SharedOptions(window_length=self.window, num_envs=self.lanes)
        return SequentialMemory(options, MemoryContext(env, shared, np.random.default_rng(0)))

    def frames(self, rows: np.ndarray) -> np.ndarray:
        """The frames of rows, `[..., side, side]`: every eight bytes, or some, name the row."""
        words = (rows.astype(np.uint64) * np.uint64(SCRAMBLE))[..., None]
        whole = np.zeros((*rows.shape, self.side * self.side // 8), np.uint64)
        whole[..., :: APART[self.side]] = words
        return whole.view(np.uint8).reshape(*rows.shape, self.side, self.side)

    def wrong(self, batch: Batch) -> int:
        """Units of a batch that are not one whole row each, with the row that follows it."""
        row = batch["id"] & ROW
        age = row % (LENGTH + 1)
        good = (batch["action"] == row % 7) & (batch["reward"] == row % 1_000)
        for name, ahead in (("obs", 0), ("next_obs", 1)):
            newest = row + ahead
            back = np.minimum(np.arange(self.window)[::-1], (age + ahead)[:, None])
            there = self.frames(newest[:, None] - back)
            good &= (batch[name] == there).all(axis=(1, 2, 3))
        return int((~good).sum())


def write(writer: Any, world: World, first: int, rows: int, stop: Callable[[], bool]) -> int:
    """Writes rows from `first` on, in episodes of `LENGTH` steps; gives the first not written."""
    row, lanes = first, world.lanes
    no, yes = np.zeros(lanes, np.bool_), np.ones(lanes, np.bool_)
    pause = 64
    while row < first + rows and not (row % pause == 0 and stop()):
        frames = world.frames(np.full(lanes, row))
        if row % (LENGTH + 1) == 0:
            writer.start({"obs": frames})
        else:
            before = row - 1
            writer.append(
                np.full(lanes, before % 7),
                np.full(lanes, before % 1_000, np.float32),
                no,
                yes if row % (LENGTH + 1) == LENGTH else no,
                {"obs": frames},
            )
        row += 1
    return row


def writing(writer: Any, world: World, first: int, stop: Any, told: Any) -> None:
    """A process that writes until it is told to stop."""
    told.put(("ready", 0))
    told.put(("written", write(writer, world, first, 1 << 60, stop.is_set) - first))


def reading(memory: SequentialMemory, world: World, batch: int, stop: Any, told: Any) -> None:
    """A process that draws, and looks at all it gets, until it is told to stop."""
    drawn = wrong = 0
    memory.sample(batch)
    told.put(("ready", 0))
    while not stop.is_set():
        for _ in range(16):
            wrong += world.wrong(memory.sample(batch))
            drawn += batch
    told.put(("read", (drawn, wrong)))


@dataclass(frozen=True)
class Outcome:
    """Rows written, units drawn, and how many of those were wrong."""

    written: int
    drawn: int
    wrong: int


def live(
    world: World, seconds: float, readers: int = 2, batch: int = 256, read: Any = reading
) -> Outcome:
    """A full ring, with one process that writes and some that read, for some seconds."""
    memory = world.memory()
    writer = memory.writer()
    first = write(writer, world, 0, 2 * world.rows, lambda: False)
    work = [(writing, (writer, world, first))]
    work += [(read, (memory, world, batch)) for _ in range(readers)]
    with at_work(work) as children:
        time.sleep(seconds)
        said = children.stopped()
    found = [value for kind, value in said if kind == "read"]
    written = next(value for kind, value in said if kind == "written")
    return Outcome(written, sum(drawn for drawn, _ in found), sum(wrong for _, wrong in found))


class Children:
    """Processes that work until they are told to stop."""

    def __init__(self, work: Sequence[tuple[Callable[..., None], tuple[Any, ...]]]) -> None:
        self._stop, self._told = SPAWN.Event(), SPAWN.Queue()
        self.processes = [
            SPAWN.Process(target=target, args=(*args, self._stop, self._told), daemon=True)
            for target, args in work
        ]
        for process in self.processes:
            process.start()

    def begin(self) -> None:
        """Waits until all are ready."""
        assert all(self._answer()[0] == "ready" for _ in self.processes)

    def _answer(self) -> tuple[str, Any]:
        try:
            return self._told.get(timeout=60)  # type: ignore[no-any-return]
        except queue.Empty:
            raise AssertionError("a process ended without a word") from None

    def stopped(self) -> list[tuple[str, Any]]:
        """What each has to say, once all have come to their end."""
        self._stop.set()
        said = [self._answer() for _ in self.processes]
        for process in self.processes:
            process.join(30)
            assert process.exitcode == 0
        return said


@contextmanager
def at_work(work: Sequence[tuple[Callable[..., None], tuple[Any, ...]]]) -> Iterator[Children]:
    """Processes at work, which are gone in the end, whatever happens."""
    children = Children(work)
    try:
        children.begin()
        yield children
    finally:
        for process in children.processes:
            process.kill()
            process.join()
