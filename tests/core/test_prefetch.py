"""Batches that are read ahead are those that would have been read, drawn at the same point."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from tests.harness import COUNTER, Run, comparable, equal_trees, settings_of
from tests.oracles.compare import assert_identical
from tests.oracles.worlds import CODES, STEP, Twin, World

WORLD = World("pixels", lanes=2, window=3, n_step=2, capacity=120, codec="lz4", chunk_frames=4)


def ahead(world: World, depth: int) -> Twin:
    """A twin whose memory reads ahead."""
    twin = Twin(world)
    options = SequentialOptions(
        memory_limit=world.capacity, frame_codec=world.codec, chunk_frames=world.chunk_frames,
        prefetch=depth,
    )  # fmt: skip
    shared = SharedOptions(
        window_length=world.window, n_step=world.n_step, gamma=world.gamma, num_envs=world.lanes
    )
    context = MemoryContext(world.env, shared, np.random.default_rng(world.seed))
    twin.memory = SequentialMemory(options, context)
    twin.renew()
    return twin


def steps(count: int) -> bytes:
    return bytes([CODES.index(STEP)]) * count


@pytest.mark.parametrize("codec", ["raw", "lz4", "zstd"])
def test_what_was_drawn_is_what_was_there_then(codec: str) -> None:
    world = replace(WORLD, codec=codec)
    plain, twin = Twin(world), ahead(world, 2)
    drawn: list[dict[str, np.ndarray]] = []
    for it in (plain, twin):
        it.live(steps(90), check_every=10_000)
    for _ in range(40):  # the ring goes round more than once
        if not drawn:
            drawn += [plain.memory.sample(16) for _ in range(3)]
        else:
            drawn.append(plain.memory.sample(16))
        batch, wanted = twin.memory.sample(16), drawn[-3]
        for name, array in batch.items():
            assert_identical(name, array, wanted[name])
        for it in (plain, twin):
            it.live(steps(12), check_every=10_000)
    twin.agree()


def test_who_writes_waits_for_who_reads() -> None:
    twin = ahead(WORLD, 1)
    twin.live(steps(200), check_every=10_000)
    read, free, done = twin.memory.reader.read, threading.Event(), []

    def slowly(*rest: Any) -> Any:
        free.wait(10)
        batch = read(*rest)
        done.append(len(batch))
        return batch

    twin.memory._prefetch._read = slowly
    free.set()
    twin.memory.sample(8)
    free.clear()
    twin.memory._prefetch._pending.append(
        twin.memory._prefetch._thread.submit(slowly, twin.memory._draw(8), None)
    )
    writing = threading.Thread(target=twin.live, args=(steps(2), 10_000))
    head = twin.memory.ring.heads.copy()
    writing.start()
    writing.join(0.2)
    assert writing.is_alive() and (twin.memory.ring.heads == head).all()
    free.set()
    writing.join(10)
    assert (twin.memory.ring.heads > head).any() and len(done) == 3


def test_another_question_drops_what_was_drawn() -> None:
    twin = ahead(WORLD, 2)
    twin.live(steps(200), check_every=10_000)
    assert len(twin.memory.sample(8)["reward"]) == 8
    assert len(twin.memory.sample(5)["reward"]) == 5
    assert set(twin.memory.sample(5, columns=["reward"])) == {"reward"}


def test_an_error_comes_out_where_the_batch_is_asked_for() -> None:
    twin = ahead(WORLD, 1)
    with pytest.raises(ValueError, match="nothing that can be sampled"):
        twin.memory.sample(4)
    twin.live(steps(200), check_every=10_000)
    with pytest.raises(ValueError, match="no column"):
        twin.memory.sample(4, columns=["nothing"])


def test_its_state_holds_the_batches_that_are_ready() -> None:
    one, two = ahead(WORLD, 2), ahead(WORLD, 2)
    one.live(steps(300), check_every=10_000)
    one.memory.sample(8)
    two.memory.load(one.memory.state())
    for _ in range(5):
        first, second = one.memory.sample(8), two.memory.sample(8)
        for name, array in first.items():
            assert_identical(name, second[name], array)


def test_a_run_that_reads_ahead_is_the_same_each_time(tmp_path: Path) -> None:
    keys: dict[str, Any] = {
        **COUNTER, "observation": "pixels", "size": 20, "prefetch": 2, "memory_limit": 150,
    }  # fmt: skip
    one, two = (Run(tmp_path, keys).go() for _ in range(2))
    assert comparable(one.rows) == comparable(two.rows)
    assert equal_trees(one.parts.agent.state(), two.parts.agent.state())


def test_what_others_write_is_not_read_ahead() -> None:
    with pytest.raises(Exception, match="prefetch with storage heap or disk"):
        settings_of(COUNTER, prefetch=1, storage="shared")
