"""The heap: zeroed arrays that cost nothing until they are touched."""

import gc

import numpy as np
import pytest

from core.memory_watch import private_bytes
from core.storage.allocators import LARGE, Heap

U8 = np.dtype(np.uint8)
MB = 10**6
# the second is neither a power of two nor aligned
RECORDS = [
    np.dtype([("a", np.float64), ("b", np.uint8, (3, 2)), ("c", np.bool_)], align=True),
    np.dtype([("a", np.float32), ("b", np.uint8)]),
]


@pytest.mark.parametrize("size", [0, 1, LARGE - 1, LARGE, LARGE + 1, 3 * LARGE])
def test_bytes_are_zero_and_can_be_written(size: int) -> None:
    array = Heap().allocate((size,), U8)
    assert array.shape == (size,)
    assert not array.any()
    array[...] = 7
    assert (array == 7).all()
    assert not Heap().allocate((size,), U8).any(), "a second array is another one"


@pytest.mark.parametrize("dtype", [np.dtype(np.int64), np.dtype(np.float32), np.dtype(np.bool_)])
@pytest.mark.parametrize("rows", [5, 400_000])
def test_arrays_have_the_shape_and_dtype_asked_for(dtype: np.dtype, rows: int) -> None:
    array = Heap().allocate((rows, 3), dtype)
    assert (array.shape, array.dtype) == ((rows, 3), dtype)
    assert array.flags.c_contiguous and array.flags.writeable and array.flags.aligned
    assert not array.any()


@pytest.mark.parametrize("dtype", RECORDS)
@pytest.mark.parametrize("rows", [5, 400_000])
def test_records_can_be_written_by_field(dtype: np.dtype, rows: int) -> None:
    records = Heap().allocate((rows,), dtype)
    assert (records.shape, records.dtype) == ((rows,), dtype)
    assert not records.view(np.uint8).any()
    records["a"][-1], records["b"][0] = 1.5, 9
    assert records[-1]["a"] == 1.5 and (records[0]["b"] == 9).all()


def taken() -> int:
    gc.collect()
    return private_bytes()


def test_what_is_not_touched_costs_nothing() -> None:
    before = taken()
    array = Heap().allocate((200 * MB,), U8)
    assert taken() - before < MB
    array[150 * MB : 160 * MB] = 1
    assert taken() - before == pytest.approx(10 * MB, abs=MB)
    del array
    assert taken() - before < MB, "given back at once"


def test_one_byte_costs_one_page() -> None:
    before = taken()
    array = Heap().allocate((200 * MB,), U8)
    array[:: 20 * MB] = 1  # ten bytes; of huge pages they would cost 20 MB
    assert taken() - before < MB


@pytest.mark.parametrize("size", [1 << 50, 1 << 60])
def test_what_no_machine_holds_is_a_memory_error(size: int) -> None:
    with pytest.raises(MemoryError, match=str(size)):
        Heap().allocate((size,), U8)


@pytest.mark.parametrize("size", [1 << 63, 10**30])
def test_nor_what_no_number_counts(size: int) -> None:
    with pytest.raises(MemoryError, match=str(size)):
        Heap().allocate((size,), U8)
