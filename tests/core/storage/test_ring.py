"""The ring: counters, the seam, what is held, what it costs."""

import numpy as np
import pytest

from core.errors import CorruptMemoryError
from core.storage.allocators import Heap
from core.storage.columns import plan_column
from core.storage.plan import plan_store
from core.storage.ring import RingBuffer
from core.types import ArraySpec

NUMBER = plan_column("number", ArraySpec((), np.dtype(np.int64)))
FRAME = plan_column("frame", ArraySpec((16, 16), np.dtype(np.uint8)))


def ring(lanes: int = 1, rows: int = 4, columns=(NUMBER, FRAME)) -> RingBuffer:
    return RingBuffer(plan_store(list(columns), lanes, rows * lanes))


def push(store: RingBuffer, lanes: list[int], numbers: list[int]) -> None:
    at = store.make_room(np.array(lanes))
    frames = np.array([np.full((16, 16), n % 256) for n in numbers], np.uint8)
    store.write(at, {"number": np.array(numbers), "frame": frames})
    store.publish(np.array(lanes))


def held(store: RingBuffer, lane: int) -> list[int]:
    rows = np.arange(store.tails[lane], store.heads[lane])
    at = store.where(np.full(len(rows), lane), rows)
    numbers = store.gather("number", at)
    assert np.array_equal(store.gather("frame", at)[:, 0, 0], numbers % 256)
    return numbers.tolist()


def test_rows_are_split_evenly_and_the_remainder_is_left_out() -> None:
    plan = plan_store([NUMBER], 3, 11)
    assert (plan.rows_per_lane, plan.rows, plan.lanes) == (3, 9, 3)


def test_plan_counts_every_byte() -> None:
    plan = plan_store([NUMBER, FRAME], 2, 10)
    assert plan.bytes_per_row == 8 + 256
    assert plan.bytes_full == 10 * 264
    both = plan_store([NUMBER, FRAME, plan_column("bit", ArraySpec((), np.dtype(np.bool_)))], 2, 10)
    assert both.bytes_per_row == 16 + 256  # the record is padded to 16


def test_oldest_first_over_the_seam() -> None:
    store = ring(rows=4)
    for number in range(11):
        assert held(store, 0) == list(range(max(0, number - 4), number))
        assert store.held == min(number, 4)
        assert store.full == (number >= 4)
        push(store, [0], [number])
    assert (store.heads.tolist(), store.tails.tolist()) == ([11], [7])


def test_an_exactly_full_lane_has_lost_nothing() -> None:
    store = ring(rows=4)
    for number in range(4):
        push(store, [0], [number])
    assert held(store, 0) == [0, 1, 2, 3]
    assert store.tails.tolist() == [0]
    assert store.full


def test_room_is_made_before_a_row_is_published() -> None:
    store = ring(rows=3)
    for number in range(3):
        push(store, [0], [number])
    at = store.make_room(np.array([0]))
    assert (at.rows.tolist(), at.slots.tolist()) == ([3], [0])
    assert held(store, 0) == [1, 2]
    store.make_room(np.array([0]))  # asked again, nothing more is lost
    assert held(store, 0) == [1, 2]
    store.publish(np.array([0]))
    assert store.held == 3


def test_more_can_be_let_go_but_nothing_comes_back() -> None:
    store = ring(lanes=2, rows=4)
    for number in range(6):
        push(store, [0, 1], [number, 50 + number])
    store.evict(np.array([1]), np.array([4]))
    assert [held(store, 0), held(store, 1)] == [[2, 3, 4, 5], [54, 55]]
    store.evict(np.array([0, 1]), np.array([1, 3]))
    assert [held(store, 0), held(store, 1)] == [[2, 3, 4, 5], [54, 55]]
    store.evict(np.array([1, 0]), np.array([99, 5]))  # never beyond what was written
    assert [held(store, 0), held(store, 1)] == [[5], []]
    push(store, [1], [7])
    assert held(store, 1) == [7]
    store.check()


def test_lanes_are_apart() -> None:
    store = ring(lanes=3, rows=2)
    push(store, [2, 0], [20, 10])
    push(store, [2], [21])
    push(store, [2], [22])
    assert [held(store, lane) for lane in range(3)] == [[10], [], [21, 22]]
    assert store.held == 3
    assert not store.full
    for lane in (0, 1, 1):
        push(store, [lane], [5])
    assert store.full


def test_where_broadcasts_and_gather_follows_its_shape() -> None:
    store = ring(lanes=2, rows=4)
    for number in range(6):
        push(store, [0, 1], [number, 100 + number])
    at = store.where(np.array([[0], [1]]), np.array([[3, 5, 2], [4, 4, 3]]))
    assert at.slots.tolist() == [[3, 1, 2], [4, 4, 7]]
    assert store.gather("number", at).tolist() == [[3, 5, 2], [104, 104, 103]]
    assert store.gather("frame", at).shape == (2, 3, 16, 16)


def test_counters_are_wide() -> None:
    store = ring(rows=4)
    store.heads[:] = store.tails[:] = 2**40
    for number in range(6):
        push(store, [0], [number])
    assert held(store, 0) == [2, 3, 4, 5]
    assert store.heads.tolist() == [2**40 + 6]
    store.check()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("number", np.zeros((1, 1), np.int64)),
        ("number", np.zeros(2, np.int64)),
        ("number", np.int64(3)),
        ("frame", np.zeros((1, 16, 15), np.uint8)),
        ("frame", np.zeros((16, 16), np.uint8)),
    ],
)
def test_shapes_are_not_guessed(name: str, value: np.ndarray) -> None:
    store = ring()
    with pytest.raises(ValueError, match=f"'{name}' has shape .*, not \\(1"):
        store.write(store.make_room(np.array([0])), {name: value})


def test_usage_counts_slots_that_were_written() -> None:
    store = ring(lanes=2, rows=4)
    assert store.usage() == {"heap": 0}
    push(store, [0, 1], [0, 0])
    push(store, [1], [1])
    assert store.usage() == {"heap": 3 * 264}
    for number in range(9):
        push(store, [0, 1], [number, number])
    assert store.usage() == {"heap": store.plan.bytes_full}


def test_the_allocator_names_the_tier_and_gives_all_arrays() -> None:
    class Counting(Heap):
        tier = "elsewhere"
        taken = 0

        def allocate(self, shape, dtype):
            array = super().allocate(shape, dtype)
            self.taken += array.nbytes
            return array

    allocator = Counting()
    store = RingBuffer(plan_store([NUMBER, FRAME], 2, 8), allocator)
    counters = 3 * 2 * 8
    assert allocator.taken == store.plan.bytes_full + counters
    assert store.usage() == {"elsewhere": 0}


def test_state_is_everything() -> None:
    store, other = ring(lanes=2, rows=3), ring(lanes=2, rows=3)
    for number in range(5):
        push(store, [0, 1], [number, 50 + number])
    push(store, [0], [99])
    other.load(store.state())
    assert [held(other, 0), held(other, 1)] == [[3, 4, 99], [52, 53, 54]]
    push(other, [0, 1], [7, 8])
    assert [held(store, 0), held(store, 1)] == [[3, 4, 99], [52, 53, 54]]
    assert [held(other, 0), held(other, 1)] == [[4, 99, 7], [53, 54, 8]]


@pytest.mark.parametrize(
    "other",
    [
        ring(lanes=2, rows=4),
        ring(lanes=1, rows=5),
        ring(columns=[NUMBER, plan_column("frame", ArraySpec((16, 17), np.dtype(np.uint8)))]),
        ring(columns=[NUMBER, plan_column("frame", ArraySpec((16, 16), np.dtype(np.bool_)))]),
    ],
)
def test_a_state_of_another_shape_is_refused_and_changes_nothing(other: RingBuffer) -> None:
    store = ring()
    push(store, [0], [3])
    with pytest.raises(ValueError, match="a store of"):
        store.load(other.state())
    assert held(store, 0) == [3]


@pytest.mark.parametrize(("tail", "head"), [(5, 3), (0, 5), (-1, 2)])
def test_check_names_the_lane_that_cannot_be(tail: int, head: int) -> None:
    store = ring(lanes=3, rows=4)
    store.check()
    store.tails[1], store.heads[1] = tail, head
    with pytest.raises(CorruptMemoryError, match="lane 1 holds rows"):
        store.check()
