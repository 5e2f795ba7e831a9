"""One process writes a ring in shared memory and others read it: no row of two halves, ever."""

import pickle
import signal
import time
from typing import Any

import numpy as np
import pytest

from core.errors import CorruptMemoryError, UsageError
from core.memories.sequential import SequentialMemory
from core.storage.view import RingView
from core.types import Batch
from tests.conftest import SOAK
from tests.oracles import worlds
from tests.oracles.worlds import Twin

from .worlds import World, at_work, live, reading, write, writing

SECONDS = 60 if SOAK else 4
DRAWS = {16: 10_000_000, 84: 1_000_000}
"""Units of frames of that side that a minute has to give."""
WORLDS = [
    World(codec="raw"),
    World(codec="lz4", rows=1_024),
    World(codec="zstd", rows=1_024),
    World(side=84, window=4, codec="raw", rows=2_048),
    World(side=84, window=4, codec="lz4", rows=2_048),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: f"{world.side}-{world.codec}")
def test_no_row_is_torn(world: World) -> None:
    found = live(world, SECONDS)
    assert found.wrong == 0
    assert found.written > world.rows, "the ring went round while it was read"
    if SOAK and world.codec != "zstd":  # of which two cores draw about half as many
        assert found.drawn >= DRAWS[world.side]


class Careless(RingView):
    """Does not look whether a writer came by."""

    def _overtaken(self) -> bool:
        return False


def reading_carelessly(memory: SequentialMemory, *rest: Any) -> None:
    """A reader that the check has to find out."""
    read_before = memory.sample(1)
    view = Careless(memory._ring)
    memory._view = memory.starts._ring = memory.reader._ring = view
    sample = memory.sample

    def sampled(size: int) -> Batch:
        try:
            return sample(size)
        except CorruptMemoryError:  # half an entry: found out as well
            return {**read_before, "reward": read_before["reward"] + 1}

    memory.sample = sampled  # type: ignore[method-assign,assignment]
    reading(memory, *rest)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("codec", ["raw", "lz4"])
def test_a_planted_tear_is_found(codec: str) -> None:
    assert live(World(codec=codec, rows=96), 5, read=reading_carelessly).wrong > 0


@pytest.mark.timeout(120)
def test_lanes_of_several_writers_are_kept_apart() -> None:
    world = World(codec="lz4", rows=2_048, lanes=4)
    memory = world.memory()
    one = World(codec="lz4", rows=2_048, lanes=2)
    work = [(writing, (memory.writer(lanes), one, 0)) for lanes in ((0, 1), (2, 3))]
    with at_work(work) as children:
        deadline = time.monotonic() + 60
        while memory.ring.heads.min() < 3_000:
            assert time.monotonic() < deadline
            if len(memory) > 100:
                assert world.wrong(memory.sample(64)) == 0
        children.stopped()
    memory.check()
    assert set((memory.sample(500)["id"] >> 40).tolist()) == {0, 1, 2, 3}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("codec", ["raw", "lz4"])
def test_a_killed_writer_leaves_whole_rows_and_another_goes_on(codec: str) -> None:
    world = World(codec=codec, rows=512)
    memory = world.memory()
    rng = np.random.default_rng(0)
    first = 0
    for _ in range(40 if SOAK else 4):
        with at_work([(writing, (memory.writer(), world, first))]) as children:
            deadline = time.monotonic() + 60
            while memory.ring.heads[0] < first + 700:
                assert time.monotonic() < deadline
            time.sleep(rng.uniform(0, 0.05))
            children.processes[0].kill()
            children.processes[0].join()
            assert children.processes[0].exitcode == -signal.SIGKILL
        memory.check()
        assert all(world.wrong(memory.sample(100)) == 0 for _ in range(10))
        # its open episode is broken off where it is, and the next begins on a row of its own kind
        first = -(-int(memory.ring.heads[0]) // 51) * 51
        ours = memory.writer()
        while int(memory.ring.heads[0]) < first:
            ours.start({"obs": world.frames(memory.ring.heads.copy())})
        memory.check()


def test_a_reader_says_so_where_rows_go_faster_than_it_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(rows=64)
    memory = world.memory()
    write(memory.writer(), world, 0, 500, lambda: False)
    memory._ring._allocator.alone = False
    gather = memory._ring.gather

    def and_all_go(name: str, where: Any, out: Any = None) -> Any:
        memory._ring.heads += 64
        memory._ring.tails += 64
        return gather(name, where, out)

    monkeypatch.setattr(memory._ring, "gather", and_all_go)
    with pytest.raises(CorruptMemoryError, match="faster than they can be read"):
        memory.sample(4)


def test_what_writers_take_back_is_left_out_and_drawn_again_once_they_rest() -> None:
    world = World(rows=256)
    memory = world.memory()
    write(memory.writer(), world, 0, 600, lambda: False)
    memory._ring._allocator.alone = False
    oldest = int(memory.ring.tails[0])
    memory._view._margin = 40
    memory._view._seen = memory.ring.tails - 1  # somebody wrote since
    assert (memory.sample(2_000)["id"]).min() >= oldest + 40
    assert memory.sample(5_000)["id"].min() == oldest


def test_a_broken_chunk_that_nobody_takes_back_is_no_tear() -> None:
    world = World(codec="lz4", rows=256)
    memory = world.memory()
    write(memory.writer(), world, 0, 600, lambda: False)
    memory._ring._allocator.alone = False
    entries = memory.ring.chunked[0].entries(0, 0)
    memory.ring.chunked[0]._arena.bytes[int(entries["offset"][5]) :][:40] = 255
    with pytest.raises(CorruptMemoryError, match="is broken"):
        for _ in range(100):
            memory.sample(64)


def test_half_an_entry_is_no_way_out_of_bounds() -> None:
    for field, value in (("offset", 1 << 50), ("offset", -5), ("length", -7), ("prior", 200)):
        for codec in ("lz4", "zstd"):
            world = World(codec=codec, rows=256)
            memory = world.memory()
            write(memory.writer(), world, 0, 600, lambda: False)
            memory.ring.chunked[0]._entries[field] = value
            with pytest.raises(CorruptMemoryError, match="is broken"):
                memory.sample(64)


def test_private_memory_is_handed_to_nobody() -> None:
    for storage in ("heap", "disk"):
        twin = Twin(worlds.World("pixels", storage=storage))
        with pytest.raises(UsageError, match="one process's own: set storage shared"):
            pickle.dumps(twin.memory.writer())
