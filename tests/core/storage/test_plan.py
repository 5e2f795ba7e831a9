"""A ring before it exists: what it will take under a bound, and what it then holds."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.storage.columns import Chunking, ColumnPlan, plan_column
from core.storage.plan import StorePlan, plan_store
from core.storage.ring import RingBuffer
from core.types import ArraySpec
from tests.conftest import examples

U8 = np.dtype(np.uint8)
NUMBER = plan_column("number", ArraySpec((), np.dtype(np.int64)))
BIT = plan_column("bit", ArraySpec((), np.dtype(np.bool_)))
RAW = plan_column("raw", ArraySpec((16, 16), U8))
BLOCK = 65_536
PACKED = 16  # a number and a bit, aligned


def chunked(name: str, shape: tuple[int, ...], frames: int = 16, codec: str = "lz4") -> ColumnPlan:
    return plan_column(name, ArraySpec(shape, U8), chunking=Chunking(codec, frames))


SQUARE = chunked("square", (64, 64))
WIDE = chunked("wide", (64, 192))


def plan_of(columns: Sequence[ColumnPlan], lanes: int, rows: int, **bound) -> StorePlan:
    plan = plan_store([NUMBER, BIT, *columns], lanes, lanes * rows)
    given = {"memory_bytes": 0, "forecasts": {}, "least": 1} | bound
    return plan.bounded(**given)


PLANS = st.builds(
    plan_of,
    st.lists(
        st.sampled_from([(9, 31), (16, 16), (64, 64), (96, 96, 3)]), min_size=1, max_size=3
    ).flatmap(
        lambda shapes: st.integers(2, 40).map(
            lambda frames: [
                chunked(f"f{number}", shape, frames) for number, shape in enumerate(shapes)
            ]
        )
    ),
    st.integers(1, 5),
    st.integers(1, 20_000),
)
FORECASTS = st.dictionaries(st.sampled_from(["f0", "f1", "f2"]), st.floats(1.0, 30_000.0))


# Raw rows.


@given(lanes=st.integers(1, 5), rows=st.integers(1, 1_000), memory_bytes=st.integers(1, 10**6))
@examples(60)
def test_memory_bytes_bound_raw_rows_exactly(lanes: int, rows: int, memory_bytes: int) -> None:
    plan = plan_of([RAW], lanes, rows, memory_bytes=memory_bytes)
    a_row = lanes * (PACKED + 256)
    assert plan.rows_per_lane == min(rows, memory_bytes // a_row)
    assert plan.bytes_full == plan.bytes_low == plan.bytes_high == plan.rows_per_lane * a_row
    assert plan.bytes_full <= memory_bytes
    assert plan.rows_per_lane == rows or plan.bytes_full + a_row > memory_bytes
    assert plan.rows_full == plan.rows == lanes * plan.rows_per_lane


@given(lanes=st.integers(1, 5), rows=st.integers(1, 100), least=st.integers(1, 100))
@examples(40)
def test_raw_rows_have_room_in_bytes_for_them_and_in_no_byte_less(
    lanes: int, rows: int, least: int
) -> None:
    free = plan_of([RAW], lanes, rows)
    enough = free.bytes_for(least)
    assert enough == lanes * least * (PACKED + 256)
    assert free.bounded(enough, {}, least).holds(least) == (least <= rows)
    assert not free.bounded(enough - 1, {}, least).holds(least)


# Compressed frames.


def test_every_part_of_a_plan_is_worked_by_hand() -> None:
    plan = plan_of([SQUARE, RAW], 2, 100)
    opened, index = 2 * 2 * BLOCK, 2 * 9 * 22
    coder = 2 * 4_112 + (16 * 5_154 + 16) + 4_112
    rows, arena = 200 * (PACKED + 256), 2 * 10 * BLOCK
    assert plan.bytes_per_row == PACKED + 256 + 4_096
    assert plan.bytes_full == plan.bytes_low == rows + opened + index + coder + arena
    assert plan.bytes_high == plan.bytes_full + 16 * BLOCK, "and what a background is learnt from"
    assert plan.rows_full == 200


def test_a_forecast_is_a_range() -> None:
    unknown = plan_of([SQUARE], 2, 10_000)
    plan = plan_of([SQUARE], 2, 10_000, forecasts={"square": 300.0})
    beside = unknown.bytes_full - 2 * unknown.layouts["square"].blocks * BLOCK
    half_a_block = BLOCK // 2
    assert plan.bytes_full == beside + 2 * (3_000_000 + half_a_block)
    assert plan.bytes_low == beside + 2 * (1_500_000 + half_a_block)
    # 9,000,000 bytes are 137.3 blocks, and two are being emptied and filled
    assert plan.bytes_high == beside + 2 * (138 + 2) * BLOCK + 16 * BLOCK


def test_two_columns_share_bytes_by_the_size_of_their_frames() -> None:
    free = plan_of([SQUARE, WIDE], 2, 10_000)
    beside = free.bytes_for(0) - 2 * 4 * 3 * BLOCK  # three blocks of 1 + 3 frames each
    plan = plan_of([SQUARE, WIDE], 2, 10_000, memory_bytes=beside + 2 * 4 * 50 * BLOCK)
    assert {name: layout.blocks for name, layout in plan.layouts.items()} == {
        "square": 50,
        "wide": 50,  # of 196,608 bytes each
    }
    assert plan.layouts["wide"].block_bytes == 3 * BLOCK
    assert plan.rows_full == 2 * 49 * 16


def test_what_runs_out_first_decides_what_is_held() -> None:
    forecasts = {"square": 4_096.0, "wide": 10.0}
    free = plan_of([SQUARE, WIDE], 1, 5_000, forecasts=forecasts)
    plan = free.bounded(free.bytes_for(0) + 10**6, forecasts, 1)
    square, wide = plan.layouts["square"], plan.layouts["wide"]
    assert square.rows_expected == (square.blocks - 1) * 16 < wide.rows_expected == 5_000
    assert plan.rows_full == square.rows_expected


@given(free=PLANS, part=st.floats(0, 1))
@examples(150)
def test_frames_have_room_in_bytes_for_them_and_not_in_clearly_fewer(
    free: StorePlan, part: float
) -> None:
    least = max(int(part * free.rows_per_lane), 1)
    enough = free.bytes_for(least)
    assert free.bounded(enough, {}, least).holds(least)
    # shares are rounded down to bytes: a byte a lane and column is not clearly less
    fewer = enough - 2 * free.lanes * len(free.layouts) - 1
    assert not free.bounded(fewer, {}, least).holds(least)


@given(free=PLANS, forecasts=FORECASTS, memory_bytes=st.integers(0, 10**8))
@examples(150)
def test_the_forecast_lies_in_its_range_and_below_the_bound(
    free: StorePlan, forecasts: dict[str, float], memory_bytes: int
) -> None:
    plan = free.bounded(memory_bytes, forecasts, 1)
    if not plan.holds(1):
        return
    assert 0 < plan.bytes_low <= plan.bytes_full <= plan.bytes_high
    assert plan.bytes_high <= free.bytes_high
    if memory_bytes:
        assert plan.bytes_high <= memory_bytes
    assert 0 < plan.rows_full <= plan.rows == free.rows


@given(free=PLANS, forecasts=FORECASTS)
@examples(60)
def test_whatever_the_forecast_the_least_rows_have_room(
    free: StorePlan, forecasts: dict[str, float]
) -> None:
    least = max(free.rows_per_lane // 2, 1)
    plan = free.bounded(free.bytes_for(least), forecasts, least)
    assert plan.holds(least)


@pytest.mark.parametrize("shows", ["noise", "nothing"])
def test_a_ring_keeps_to_its_bound_and_to_its_rows(shows: str) -> None:
    rng = np.random.default_rng(0)
    free = plan_of([SQUARE, chunked("small", (20, 20), codec="lz4")], 2, 2_000)
    plan = free.bounded(free.bytes_for(300), {}, 300)
    ring, lanes = RingBuffer(plan), np.arange(2)
    frames, held = np.zeros((2, 64, 64), U8), []
    for number in range(2_200):
        if shows == "noise":
            frames = rng.integers(0, 256, (2, 64, 64)).astype(U8)
        values = {"number": np.full(2, number), "bit": np.zeros(2, np.bool_)}
        values |= {"square": frames, "small": frames[:, :20, :20]}
        ring.write(ring.make_room(lanes), values)
        ring.publish(lanes)
        held.append(ring.held)
    used = sum(ring.usage().values())
    assert used <= plan.memory_bytes
    if shows == "noise":
        # a block is emptied as a whole, so that rows come and go by blocks
        assert min(held[1_200:]) >= 2 * 300
        assert min(held[1_200:]) == pytest.approx(plan.rows_full, rel=0.05)
        assert used > 0.8 * plan.memory_bytes, "the rest is for learning from the first frames"
    else:
        assert ring.held == 4_000
