"""Sizes of a chunked column: worked by hand, and as the column really is."""

import numpy as np
import pytest

from core.storage import layout as sizes
from core.storage.allocators import Heap
from core.storage.chunks import ChunkedColumn
from core.storage.columns import Chunking, ColumnPlan, plan_column
from core.storage.layout import (
    LEARN_CHUNKS,
    ChunkLayout,
    frame_bound,
    length_width,
    pages,
    stream_bound,
    whole,
)
from core.types import ArraySpec

U8 = np.dtype(np.uint8)
BLOCK = 65_536
COLOUR = (96, 96, 3)


@pytest.fixture(autouse=True)
def pages_of_4_096_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is worked by hand is worked for these, whatever the machine has."""
    monkeypatch.setattr(sizes, "PAGE", 4_096)


def column(shape: tuple[int, ...], codec: str = "lz4", **more) -> ColumnPlan:
    return plan_column("f", ArraySpec(shape, U8), chunking=Chunking(codec, **more))


def layout(shape: tuple[int, ...] = (64, 64), lanes: int = 1, rows: int = 100, **more):
    return ChunkLayout(column(shape), lanes, rows, **more)


def test_units_hold_so_many_the_last_in_part() -> None:
    assert [whole(count, 16) for count in (0, 1, 16, 17)] == [0, 1, 1, 2]
    assert pages(np.array([0, 1, 4_096, 4_097])).tolist() == [0, 4_096, 4_096, 8_192]


def test_bounds_of_a_stream() -> None:
    assert frame_bound(4_096) == 4_096 + 1_024 + 32
    assert [length_width(size) for size in (52_403, 52_404)] == [2, 4], "65,535 and 65,537"
    assert stream_bound(16, 4_096) == 16 * (5_152 + 2) + 16


@pytest.mark.parametrize(
    ("shape", "size", "chunk_bytes", "block_bytes"),
    [
        ((64, 64), 4_096, BLOCK, BLOCK),
        ((16, 16), 256, 4_096, BLOCK),  # 16 chunks a block
        ((15, 19), 288, 4_608, BLOCK),  # 285 bytes, padded to words
        ((84, 84), 7_056, 112_896, 28 * 4_096),  # 27.6 pages
        (COLOUR, 27_648, 442_368, 108 * 4_096),  # 108 pages exactly
    ],
)
def test_a_block_has_room_for_any_chunk(
    shape: tuple[int, ...], size: int, chunk_bytes: int, block_bytes: int
) -> None:
    it = layout(shape)
    assert (it.frames, it.size) == (16, size)
    assert (it.chunk_bytes, it.block_bytes) == (chunk_bytes, block_bytes)


@pytest.mark.parametrize(
    ("shape", "rows", "blocks"),
    [
        ((64, 64), 1, 1 + 2 + 1),  # a chunk a block: one is cut, one goes, one is filled
        ((64, 64), 16, 1 + 2 + 1),
        ((64, 64), 17, 2 + 2 + 1),
        ((64, 64), 100, 7 + 2 + 1),
        ((16, 16), 100, 1 + 1),  # 9 chunks, 16 a block
        ((16, 16), 1_000, 5 + 1),  # 65 chunks
        ((15, 19), 1_000, 5 + 1),  # 65 chunks, 14 a block
        (COLOUR, 1_000, 63 + 2 + 1),
    ],
)
def test_blocks_for_rows(shape: tuple[int, ...], rows: int, blocks: int) -> None:
    assert layout(shape).blocks_for(rows) == blocks
    free = layout(shape, lanes=3, rows=rows)
    assert free.blocks == blocks, "unbounded, there are blocks for every row"
    assert free.arena_bytes == 3 * blocks * free.block_bytes


def test_a_cap_is_split_over_lanes_and_rounded_down_to_blocks() -> None:
    assert layout(lanes=2, cap=10 * BLOCK).blocks == 5
    assert layout(lanes=2, cap=10 * BLOCK - 1).blocks == 4
    assert layout(lanes=2, cap=100 * BLOCK).blocks == 10, "no more than the rows need"
    assert layout(lanes=2, cap=1).blocks == 0


def test_a_forecast_bounds_blocks_by_three_times_what_is_expected() -> None:
    # 3 x 500 x 1,000 bytes are 22.9 blocks, and two are being emptied and filled
    assert layout(rows=1_000, forecast=500.0).blocks == 23 + 2
    assert layout(rows=1_000, forecast=500.0, cap=7 * BLOCK).blocks == 7
    assert layout(rows=1_000, forecast=4_096.0).blocks == 63 + 2 + 1, "no more than raw frames"
    assert layout(rows=10_000, forecast=1.0, least=1).blocks == 1 + 2 + 1, "not 1 + 2"
    assert layout(rows=10_000, forecast=1.0, least=40).blocks == 3 + 2 + 1, "whatever they show"


def test_what_is_expected_is_the_forecast_and_half_a_block_a_lane() -> None:
    it = layout(lanes=3, rows=1_000, forecast=500.0)
    assert it.expected() == 3 * (500_000 + BLOCK // 2)
    assert it.expected(0.5) == 3 * (250_000 + BLOCK // 2)
    assert it.expected(2.0) == 3 * (1_000_000 + BLOCK // 2)
    assert it.expected(9.0) == it.arena_bytes == 3 * 25 * BLOCK


def test_of_what_nobody_knows_everything_is_expected() -> None:
    it = layout(lanes=3, rows=1_000)
    assert it.expected(0.5) == it.expected(2.0) == it.arena_bytes == 3 * 66 * BLOCK


def test_rows_expected_are_what_all_blocks_but_one_hold() -> None:
    assert layout(lanes=2, rows=1_000).rows_expected == 2_000
    assert layout(lanes=2, rows=1_000, cap=20 * BLOCK).rows_expected == 2 * 9 * 16
    # 9 blocks of 65,536 bytes hold 589 frames of 1,000 bytes
    assert layout(lanes=2, rows=1_000, cap=20 * BLOCK, forecast=1e3).rows_expected == 2 * 589
    assert layout(lanes=2, rows=1_000, cap=20 * BLOCK, forecast=100.0).rows_expected == 2_000


def test_bytes_beside_closed_chunks_are_counted_by_hand() -> None:
    it = layout(lanes=2, rows=100)
    assert it.entries == 100 // 16 + 3
    opened = 2 * 2 * BLOCK
    index = 2 * 9 * 22  # two numbers of 8 bytes, one of 4, two of 1
    bases = 2 * (4_096 + 16)
    stream = 16 * (4_096 + 1_024 + 32 + 2) + 16
    assert it.scratch == stream + 4_096 + 16
    assert it.fixed == opened + index + bases + it.scratch
    assert it.learning == 16 * BLOCK
    trained = ChunkLayout(column((64, 64), "zstd", dictionary=True), 2, 100)
    assert trained.fixed == it.fixed + (4_096 + 16) + 32_768
    assert trained.learning == 4 * 2**20 + stream


@pytest.mark.parametrize("shape", [(64, 64), (15, 19), COLOUR])
@pytest.mark.parametrize("dictionary", [False, True])
def test_a_column_takes_what_its_layout_says(shape: tuple[int, ...], dictionary: bool) -> None:
    codec = "zstd" if dictionary else "lz4"
    lanes, rows = 2, 700
    it = ChunkLayout(column(shape, codec, dictionary=dictionary), lanes, rows)
    frames = ChunkedColumn(it, Heap())
    untaught = (it.size + 16) * (1 + dictionary) + 32_768 * dictionary
    assert frames.usage(10**9) == it.fixed - untaught
    assert frames._arena.bytes.nbytes == it.arena_bytes + 16


@pytest.mark.parametrize("dictionary", [False, True])
def test_priors_learn_from_no_more_than_was_planned(dictionary: bool) -> None:
    it = ChunkLayout(column((64, 64), "zstd", dictionary=dictionary), 1, 100)
    priors = ChunkedColumn(it, Heap())._coder.priors
    rng = np.random.default_rng(0)
    taken = []
    for _ in range(LEARN_CHUNKS + 300):
        chunk = rng.integers(0, 256, (16, it.size)).astype(np.uint8)
        priors.learn(chunk, chunk.reshape(-1))
        taken.append(priors.nbytes + priors.learning)
    learnt = (2 + dictionary) * (it.size + 16) + len(priors.dictionary)
    assert taken[-1] == learnt, "nothing is kept of what was learnt from"
    assert it.learning / 2 < max(taken) <= it.learning + learnt
