"""Judged candidates."""

import numpy as np
import pytest

from core.errors import CorruptMemoryError
from core.parameters.kept import COLUMNS, INDEX_BITS, RECORD, Kept, Pending, candidate_id
from core.parameters.returns import CANDIDATE
from core.parameters.store import make_store

from .candidates import copied, generation, same

SIZE = 5
KINDS = ["seeds", "copies", "float16"]


def make(kind: str = "seeds", capacity: int = 10, generations: int = 4) -> Kept:
    return Kept(make_store(kind, capacity, SIZE, generations), capacity, generations)


def add(kept: Kept, number: int, *returns: float) -> None:
    some = generation(number, count=max(len(returns), 2), size=SIZE)
    for index, total in enumerate(returns):
        kept.add(some, index, total, 10 * number + index)


def held(kept: Kept) -> list[tuple[int, int]]:
    """Generation and index of what is held, by age."""
    names = kept.records["id"].tolist()
    return [(name >> INDEX_BITS, name & ((1 << INDEX_BITS) - 1)) for name in names]


def test_names_hold_generation_and_index() -> None:
    assert candidate_id(3, 5) == 3 * 2**20 + 5
    assert candidate_id(2, np.array([0, 2**20 - 1])).tolist() == [2**21, 2**21 + 2**20 - 1]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_known_of_a_candidate(kind: str) -> None:
    kept = make(kind)
    add(kept, 2, 0.5, -1)
    assert kept.records.dtype == RECORD
    assert kept.records.tolist() == [(2**21, 2, 0.5, 20), (2**21 + 1, 2, -1, 21)]
    kept.check()


@pytest.mark.parametrize("kind", KINDS)
def test_the_oldest_goes_first(kind: str) -> None:
    kept = make(kind, capacity=5, generations=9)
    for number in range(3):
        add(kept, number, 1, 2, 3)
        kept.check()
        assert len(kept) == min(3 * number + 3, 5)
    assert held(kept) == [(1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
    assert kept.slots.tolist() == [4, 0, 1, 2, 3]


def test_records_are_a_copy() -> None:
    kept = make()
    add(kept, 0, 1, 2)
    kept.records["total_reward"][:] = 9
    assert kept.records["total_reward"].tolist() == [1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_generations_that_are_no_longer_kept_go_unless_there_are_copies(kind: str) -> None:
    kept = make(kind, capacity=50, generations=2)
    for number in (0, 1, 2, 3):
        add(kept, number, 1, 2)
    goes = kind != "copies"
    assert held(kept) == [(n, i) for n in range(2 if goes else 0, 4) for i in (0, 1)]
    kept.check()
    # a generation nobody of which was finite is one of the newest all the same
    add(kept, 5, 1)
    assert held(kept)[0] == ((5, 0) if goes else (0, 0))
    kept.check()


def test_the_first_candidate_of_a_generation_lets_the_old_one_go() -> None:
    kept = make(capacity=50, generations=1)
    add(kept, 0, 1, 2, 3)
    add(kept, 1, 1)
    assert held(kept) == [(1, 0)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_holds_parameters_and_records(kind: str) -> None:
    kept = make(kind)
    add(kept, 1, 3, 4, 5)
    batch = kept.batch(kept.slots[[2, 0, 2]])
    assert tuple(batch) == COLUMNS
    assert {name: (array.shape, array.dtype.name) for name, array in batch.items()} == {
        "parameters": ((3, SIZE), "float32"),
        "id": ((3,), "int64"),
        "generation": ((3,), "int64"),
        "total_reward": ((3,), "float64"),
        "length": ((3,), "int64"),
        "weight": ((3,), "float32"),
    }
    assert batch["total_reward"].tolist() == [5, 3, 5]
    assert batch["length"].tolist() == [12, 10, 12]
    assert batch["weight"].tolist() == [1, 1, 1]
    for row, index in enumerate((2, 0, 2)):
        true = generation(1, count=3, size=SIZE).candidate(index)
        np.testing.assert_allclose(batch["parameters"][row], true, atol=2e-3)
        if kind != "float16":
            assert batch["parameters"][row].tobytes() == true.tobytes()


def test_columns_are_chosen_and_out_is_filled() -> None:
    kept = make()
    add(kept, 0, 3, 4, 5)
    whole = kept.batch(kept.slots)
    for name in COLUMNS:
        (array,) = kept.batch(kept.slots, [name]).values()
        assert array.tobytes() == whole[name].tobytes()
    out = {name: np.ones_like(array) for name, array in whole.items()}
    filled = kept.batch(kept.slots, None, out)
    assert same(filled, whole)
    assert all(filled[name] is out[name] for name in COLUMNS)
    with pytest.raises(ValueError, match=r"no column \['action'\]; there are .*'parameters'"):
        kept.batch(kept.slots, ["id", "action"])


def test_parameters_are_rebuilt_only_where_they_are_named() -> None:
    kept = make()
    add(kept, 0, 3, 4)
    kept.store.get = lambda slot: pytest.fail("was rebuilt")
    assert kept.batch(kept.slots, ["id", "weight"])["id"].tolist() == [0, 1]


def test_the_best_are_found_and_the_older_of_equals_comes_first() -> None:
    kept = make(capacity=7)
    add(kept, 0, 9, 9, 1)  # the first two make room
    add(kept, 1, 5, 7, 5)
    add(kept, 2, 7, -2, 5)
    assert kept.slots.tolist() == [2, 3, 4, 5, 6, 0, 1]
    ranked = [held(kept)[place] for place in kept.order()]
    assert ranked == [(1, 1), (2, 0), (1, 0), (1, 2), (2, 2), (0, 2), (2, 1)]
    assert kept.best(3).tolist() == [4, 6, 3]
    assert kept.best(99).tolist() == [4, 6, 3, 5, 1, 2, 0]
    assert kept.best(99, since=2).tolist() == [6, 1, 0]
    assert kept.best(2, since=1).tolist() == [4, 6]
    assert kept.best(2, since=3).tolist() == []


def test_vectors_of_no_generation_are_named_by_age() -> None:
    kept = make("copies", capacity=3)
    for number in range(5):
        kept.add_vector(np.full(SIZE, number, np.float32), 1.0, number)
    records = kept.records
    assert records["generation"].tolist() == [-1] * 3
    assert records["length"].tolist() == [2, 3, 4]
    assert np.diff(records["id"]).tolist() == [1, 1]
    assert (records["id"] < 0).all()
    assert kept.order().tolist() == [0, 1, 2]
    assert kept.batch(kept.slots)["parameters"][:, 0].tolist() == [2, 3, 4]


def test_names_of_vectors_never_come_again() -> None:
    kept = make("copies", capacity=3)
    kept.add_vector(np.zeros(SIZE, np.float32), 0, 1)
    first = int(kept.records["id"][0])
    kept.head = kept.tail = 2**INDEX_BITS  # as if a million had come and gone
    kept.add_vector(np.zeros(SIZE, np.float32), 0, 1)
    assert kept.records["id"].tolist() == [first + 2**INDEX_BITS]


@pytest.mark.parametrize("kind", ["seeds", "float16"])
def test_vectors_are_for_copies(kind: str) -> None:
    kept = make(kind)
    with pytest.raises(ValueError, match="only --remember copies"):
        kept.add_vector(np.zeros(SIZE, np.float32), 1, 1)
    assert len(kept) == 0


def test_a_vector_that_is_refused_changes_nothing() -> None:
    kept = make("copies", capacity=2)
    for number in (1, 2):
        kept.add_vector(np.full(SIZE, number, np.float32), number, number)
    before = kept.batch(kept.slots)
    with pytest.raises(ValueError, match="shape"):
        kept.add_vector(np.zeros(SIZE + 1, np.float32), 3, 3)
    assert same(kept.batch(kept.slots), before)


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_are_those_of_what_was_ever_held(kind: str) -> None:
    kept = make(kind, capacity=6, generations=2)
    assert kept.usage() == 0
    each = RECORD.itemsize + {"seeds": 17, "copies": 4 * SIZE, "float16": 2 * SIZE + 8}[kind]
    mean = 0 if kind == "copies" else 8 * SIZE
    add(kept, 0, 1, 2)
    assert kept.usage() == 2 * each + mean
    for number in (1, 2, 3):
        add(kept, number, 1, 2)
    assert kept.usage() == 6 * each + 2 * mean


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_saved_goes_on(kind: str) -> None:
    kept, resumed = make(kind, capacity=5), make(kind, capacity=5)
    for number in range(3):
        add(kept, number, 3, 1, 2)
    add(resumed, 7, 1, 1)
    resumed.load(copied(kept.state()))
    resumed.check()
    for both in (kept, resumed):
        add(both, 3, 8, 9)
    assert same(kept.batch(kept.slots), resumed.batch(resumed.slots))
    assert kept.best(4).tolist() == resumed.best(4).tolist()


def test_check_finds_a_count_that_cannot_be() -> None:
    kept = make(capacity=4)
    add(kept, 0, 1, 2)
    for head, tail in ((1, 2), (9, 0), (5, 0)):
        kept.head, kept.tail = head, tail
        with pytest.raises(CorruptMemoryError, match=f"candidates {tail} to {head} are held"):
            kept.check()
    kept.head, kept.tail = 2, 0
    kept.check()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_check_finds_a_return_that_is_no_number(bad: float) -> None:
    kept = make()
    add(kept, 0, 1, 2)
    kept._records["total_reward"][1] = bad
    with pytest.raises(CorruptMemoryError, match="return is not finite"):
        kept.check()
    # what is not held is nobody's business
    kept.head = 1
    kept.check()


def test_check_finds_a_candidate_that_cannot_be_rebuilt() -> None:
    kept = make()
    add(kept, 0, 1, 2)
    kept.store._numbers[1] = 77
    with pytest.raises(CorruptMemoryError, match=r"slot 1: .*generation 77 is no longer kept"):
        kept.check()


@pytest.mark.parametrize("kind", KINDS)
def test_check_finds_parameters_that_are_no_numbers(kind: str) -> None:
    kept = make(kind)
    add(kept, 0, 1, 2)
    array = kept.store._parameters if kind == "copies" else kept.store._means._means
    array[0, 2] = np.nan
    with pytest.raises(CorruptMemoryError, match="candidate in slot 0 is not finite"):
        kept.check()


def results(*rows: tuple[int, float, int]) -> dict[str, np.ndarray]:
    names, totals, lengths = zip(*rows, strict=True) if rows else ((), (), ())
    return {
        CANDIDATE: np.array(names, np.int64),
        "total_reward": np.array(totals, np.float64),
        "length": np.array(lengths, np.int64),
    }


def test_returns_come_in_any_order_and_only_those_of_the_generation_count() -> None:
    pending = Pending(generation(4, count=3))
    pending.add(results())
    assert pending.done.tolist() == [False] * 3
    old, other = candidate_id(3, 1), candidate_id(5, 0)
    pending.add(results((candidate_id(4, 2), 7, 70), (old, 1, 1), (-1, 2, 2), (other, 3, 3)))
    assert pending.done.tolist() == [False, False, True]
    pending.add(results((candidate_id(4, 1), 6, 60), (candidate_id(4, 0), 5, 50)))
    assert pending.done.all()
    assert pending.total_reward.tolist() == [5, 6, 7]
    assert pending.length.tolist() == [50, 60, 70]


def test_the_first_return_of_a_candidate_counts() -> None:
    pending = Pending(generation(1, count=2))
    one, two = candidate_id(1, 0), candidate_id(1, 1)
    pending.add(results((two, 1, 10), (one, 2, 20), (two, 3, 30)))
    pending.add(results((one, 4, 40), (two, 5, 50)))
    assert pending.total_reward.tolist() == [2, 1]
    assert pending.length.tolist() == [20, 10]


def test_what_is_pending_can_be_saved() -> None:
    pending = Pending(generation(2, count=3))
    pending.add(results((candidate_id(2, 1), 4, 40)))
    state = copied(pending.state())
    twin = Pending.of(state)
    for late in (pending, twin):
        late.add(results((candidate_id(2, 0), 5, 50), (candidate_id(2, 1), 9, 90)))
    for name in ("total_reward", "length", "done"):
        np.testing.assert_array_equal(getattr(pending, name), getattr(twin, name))
    np.testing.assert_array_equal(pending.generation.mean, twin.generation.mean)
    assert state["done"].tolist() == [False, True, False]
