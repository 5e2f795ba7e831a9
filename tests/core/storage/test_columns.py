"""Layouts of columns, and that what is stored comes back as it was."""

import numpy as np
import pytest

from core.errors import UsageError
from core.storage.columns import (
    ColumnPlan,
    FrameColumn,
    PackedColumn,
    Where,
    packed_dtype,
    plan_column,
)
from core.types import ArraySpec

U8, F32, F64 = np.dtype(np.uint8), np.dtype(np.float32), np.dtype(np.float64)
BOOL = np.dtype(np.bool_)


def where(*slots: int) -> Where:
    at = np.array(slots, np.int64)
    return Where(np.zeros_like(at), at, at)


def frames(plan: ColumnPlan, rows: int = 4) -> FrameColumn:
    return FrameColumn(plan, np.zeros((rows, *plan.spec.shape), plan.stored))


def packed(plan: ColumnPlan, rows: int = 4) -> PackedColumn:
    return PackedColumn(plan, np.zeros(rows, packed_dtype([plan])))


@pytest.mark.parametrize(
    ("spec", "kind", "stored"),
    [
        (ArraySpec((16, 16), U8), "frames", U8),
        (ArraySpec((4, 8, 8), U8), "frames", U8),
        (ArraySpec((16, 16), BOOL), "frames", BOOL),
        (ArraySpec((16, 16), F32), "frames", U8),
        (ArraySpec((2, 128), F64), "frames", U8),
        (ArraySpec((15, 17), U8), "packed", U8),  # 255 bytes
        (ArraySpec((256,), U8), "packed", U8),  # one axis is no picture
        (ArraySpec((8, 8), F32), "packed", F32),  # 256 bytes, but 64 numbers
        (ArraySpec((16, 16), np.dtype(np.int64)), "packed", np.dtype(np.int64)),
        (ArraySpec((), F32), "packed", F32),
    ],
)
def test_auto_takes_pictures_of_256_and_more_as_frames(
    spec: ArraySpec, kind: str, stored: np.dtype
) -> None:
    plan = plan_column("obs", spec)
    assert (plan.kind, plan.stored, plan.spec) == (kind, stored, spec)
    assert plan.bytes_per_row == int(np.prod(spec.shape)) * stored.itemsize


def test_float_frames_can_be_kept_at_their_full_size() -> None:
    plan = plan_column("obs", ArraySpec((16, 16), F32), floats="keep")
    assert (plan.kind, plan.stored, plan.bytes_per_row) == ("frames", F32, 1024)
    values = np.random.default_rng(0).normal(size=(2, 16, 16)).astype(F32)
    column = frames(plan)
    column.write(where(3, 1), values)
    assert np.array_equal(column.gather(where(1, 3)), values[::-1])


def test_frames_none_packs_pictures_too() -> None:
    plan = plan_column("obs", ArraySpec((16, 16), F32), frames="none")
    assert (plan.kind, plan.stored) == ("packed", F32)


@pytest.mark.parametrize("dtype", [F32, F64])
def test_whole_float_frames_come_back_exactly_from_a_byte_each(dtype: np.dtype) -> None:
    plan = plan_column("obs", ArraySpec((16, 16), dtype))
    assert plan.bytes_per_row == 256
    values = np.arange(2 * 256).reshape(2, 16, 16).astype(dtype) % 256
    column = frames(plan)
    column.write(where(0, 2), values)
    read = column.gather(where(0, 2))
    assert read.dtype == dtype
    assert np.array_equal(read, values)


@pytest.mark.parametrize("wrong", [0.5, -1.0, 256.0, np.nan, np.inf, 255.00002])
def test_float_frames_that_are_no_bytes_are_refused_with_the_way_out(wrong: float) -> None:
    column = frames(plan_column("obs.cam", ArraySpec((16, 16), F32)))
    values = np.full((1, 16, 16), 7, F32)
    values[0, 3, 5] = wrong
    with pytest.raises(UsageError) as error:
        column.write(where(1), values)
    message = str(error.value)
    assert "obs.cam" in message
    assert "--float_frames keep" in message
    assert "4 times the bytes" in message
    assert not column.gather(where(1)).any()


def test_frames_that_are_not_what_was_announced_are_refused() -> None:
    column = frames(plan_column("obs", ArraySpec((16, 16), U8)))
    with pytest.raises(UsageError, match="'obs' has a value that is none of the uint8"):
        column.write(where(0), np.full((1, 16, 16), 0.25))
    column.write(where(0), np.full((1, 16, 16), 25.0))
    assert column.gather(where(0)).dtype == U8
    assert (column.gather(where(0)) == 25).all()


def test_packed_integers_are_refused_where_they_do_not_fit() -> None:
    column = packed(ColumnPlan("action", ArraySpec((), np.dtype(np.int64)), "packed", U8))
    column.write(where(0, 1, 3), np.array([0, 255, 7]))
    assert column.gather(where(1, 0, 3)).tolist() == [255, 0, 7]
    assert column.gather(where(1)).dtype == np.int64
    for wrong in (256, -1):
        with pytest.raises(UsageError, match="'action' has a value that is none of the uint8"):
            column.write(where(0), np.array([wrong]))


def test_wider_floats_are_rounded_to_what_was_announced() -> None:
    column = packed(plan_column("reward", ArraySpec((), F32)))
    column.write(where(0), np.array([0.1]))
    assert column.gather(where(0)).tolist() == [float(np.float32(0.1))]


@pytest.mark.parametrize("spec", [ArraySpec((3,), F32), ArraySpec((16, 16), U8)])
def test_what_is_given_is_copied_both_ways(spec: ArraySpec) -> None:
    plan = plan_column("obs", spec)
    column = frames(plan) if plan.kind == "frames" else packed(plan)
    values = np.full((1, *spec.shape), 3, spec.dtype)
    column.write(where(2), values)
    values[:] = 9
    read = column.gather(where(2))
    assert (read == 3).all()
    read[:] = 8
    assert (column.gather(where(2)) == 3).all()


@pytest.mark.parametrize("floats", ["exact", "keep"])
@pytest.mark.parametrize(
    "spec", [ArraySpec((2,), F32), ArraySpec((16, 16), U8), ArraySpec((16, 16), F32)]
)
def test_out_is_filled_and_returned(spec: ArraySpec, floats: str) -> None:
    plan = plan_column("obs", spec, floats=floats)
    column = frames(plan) if plan.kind == "frames" else packed(plan)
    values = np.arange(4 * spec.size).reshape(4, *spec.shape) % 256
    column.write(where(0, 1, 2, 3), values.astype(spec.dtype))
    at = Where(*(np.array([[3, 1], [0, 0]]) for _ in range(3)))
    out = np.empty((2, 2, *spec.shape), spec.dtype)
    assert column.gather(at, out) is out
    assert np.array_equal(out, values[[[3, 1], [0, 0]]])
    assert np.array_equal(column.gather(at), out)


def test_records_are_aligned_and_padded_only_at_their_end() -> None:
    plans = [
        plan_column("flag", ArraySpec((), BOOL)),
        plan_column("wide", ArraySpec((2,), F64)),
        plan_column("picture", ArraySpec((16, 16), U8)),
        plan_column("code", ArraySpec((3,), U8)),
        plan_column("small", ArraySpec((), F32)),
    ]
    record = packed_dtype(plans)
    assert set(record.names) == {"flag", "wide", "code", "small"}
    # 16 + 4 + 1 + 3 = 24: no gap anywhere
    assert record.itemsize == 24
    assert all(record.fields[n][1] % record.fields[n][0].base.alignment == 0 for n in record.names)
    ends = {n: record.fields[n][1] + record.fields[n][0].itemsize for n in record.names}
    assert sorted(ends.values()) == [16, 20, 21, 24]
    # one byte more is padded to the widest alignment
    assert packed_dtype([*plans, plan_column("more", ArraySpec((), U8))]).itemsize == 32


@pytest.mark.parametrize("dtype", [np.complex64, np.int16, np.uint16, np.int64])
def test_only_bytes_flags_and_floats_make_frames(dtype: type) -> None:
    assert plan_column("x", ArraySpec((20, 20), np.dtype(dtype))).kind == "packed"


@pytest.mark.parametrize("side", [(2, 128), (16, 17), (12, 23)])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 22])
def test_any_number_of_frames_is_read_from_anywhere(side: tuple[int, int], count: int) -> None:
    plan = plan_column("obs", ArraySpec(side, U8))
    column = frames(plan, 9)
    rng = np.random.default_rng(count)
    stored = rng.integers(0, 256, (9, *side)).astype(U8)
    column.write(where(*range(9)), stored)
    slots = rng.integers(0, 9, count)
    assert np.array_equal(column.gather(where(*slots.tolist())), stored[slots])
    out = np.full((count + 2, *side), 7, U8)
    column.gather(where(*slots.tolist()), out[1:-1])
    assert np.array_equal(out[1:-1], stored[slots])
    assert (out[0] == 7).all()
    assert (out[-1] == 7).all()


def test_a_slot_that_does_not_exist_reads_the_nearest() -> None:
    """A reader beside a writer may have read half a counter, and looks again."""
    column = frames(plan_column("obs", ArraySpec((16, 16), U8)))
    column.write(where(0, 3), np.stack([np.full((16, 16), 1, U8), np.full((16, 16), 2, U8)]))
    read = column.gather(where(-1, 4, 1 << 40, -(1 << 40), 3))
    assert read[:, 0, 0].tolist() == [1, 2, 2, 1, 2]


def test_what_does_not_fit_is_filled_all_the_same() -> None:
    column = frames(plan_column("obs", ArraySpec((16, 16), U8)))
    column.write(where(2), np.full((1, 16, 16), 5, U8))
    strided = np.zeros((1, 16, 32), U8)[:, :, ::2]
    assert (column.gather(where(2), strided) == 5).all()
    with pytest.raises(ValueError, match="broadcast"):
        column.gather(where(2), np.zeros((1, 16, 15), U8))
