"""Where candidates are kept."""

import numpy as np
import pytest

from core.parameters.store import Copies, Differences, Means, Seeds, bytes_full, make_store

from .candidates import copied, generation

SIZE = 7
KINDS = ["seeds", "copies", "float16"]


def filled(kind: str, generations: int = 4):
    store = make_store(kind, 12, SIZE, generations)
    for number in range(3):
        for index in range(4):
            store.put(4 * number + index, generation(number, size=SIZE), index)
    return store


def test_the_key_names_the_store() -> None:
    kinds = [type(make_store(kind, 2, 3, 4)) for kind in KINDS]
    assert kinds == [Seeds, Copies, Differences]


@pytest.mark.parametrize("kind", KINDS)
def test_candidates_come_back(kind: str) -> None:
    store = filled(kind)
    for number in range(3):
        some = generation(number, size=SIZE)
        for index in range(4):
            found, true = store.get(4 * number + index), some.candidate(index)
            assert found.dtype == np.float32
            if kind == "float16":
                # half precision of the difference: 11 bits
                assert (np.abs(found - true) <= np.abs(true - some.mean) * 2.0**-11 + 1e-6).all()
            else:
                assert found.tobytes() == true.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_given_can_be_changed_and_what_came_in_too(kind: str) -> None:
    store = make_store(kind, 3, SIZE, 4)
    some = generation(2, size=SIZE)
    store.put(1, some, 0)
    before = store.get(1).copy()
    store.get(1)[...] = 5
    some.mean[...], some.spread[...] = 0, 9
    np.testing.assert_array_equal(store.get(1), before)


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_are_counted_and_reach_what_was_planned(kind: str) -> None:
    each = {"seeds": 8 + 8 + 1, "copies": 4 * SIZE, "float16": 2 * SIZE + 8}[kind]
    mean = 0 if kind == "copies" else 2 * 4 * SIZE
    store = make_store(kind, 12, SIZE, 3)
    assert store.usage(0) == 0
    for number in range(3):
        store.put(4 * number, generation(number, size=SIZE), 0)
        assert store.usage(number + 1) == (number + 1) * (each + mean)
    # a fourth takes the place of the first
    store.put(9, generation(3, size=SIZE), 0)
    assert store.usage(12) == 12 * each + 3 * mean == bytes_full(kind, 12, SIZE, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_store_goes_on(kind: str) -> None:
    store, resumed = filled(kind), make_store(kind, 12, SIZE, 4)
    saved = copied(store.state())
    resumed.load(saved)
    store.put(0, generation(3, size=SIZE), 1)
    resumed.put(0, generation(3, size=SIZE), 1)
    for slot in range(12):
        assert store.get(slot).tobytes() == resumed.get(slot).tobytes()
    assert store.usage(12) == resumed.usage(12)


@pytest.mark.parametrize("kind", ["seeds", "float16"])
def test_what_lost_its_mean_is_said(kind: str) -> None:
    store = filled(kind, generations=2)
    with pytest.raises(KeyError, match="generation 0 is no longer kept"):
        store.get(3)
    assert store.get(4).tobytes() == filled(kind).get(4).tobytes()


def test_means_of_the_newest_generations_are_kept_in_turn() -> None:
    means = Means(3, SIZE)
    assert means.nbytes == 0
    for number in (0, 1, 2, 4):
        means.put(generation(number, size=SIZE))
    kept = {}
    for number in range(5):
        try:
            kept[number] = means.of(number)
        except KeyError:
            continue
    assert set(kept) == {0, 2, 4}
    for number, (mean, spread) in kept.items():
        np.testing.assert_array_equal(mean, generation(number, size=SIZE).mean)
        np.testing.assert_array_equal(spread, generation(number, size=SIZE).spread)
    assert means.nbytes == 3 * 2 * 4 * SIZE


def test_copies_keep_any_vector() -> None:
    store, mine = Copies(2, 3), np.array([1, 2, 3], np.float32)
    store.put_vector(1, mine)
    mine += 7
    assert store.get(1).tolist() == [1, 2, 3]
    assert store.get(0).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (np.zeros(1, np.float32), r"shape \(1,\), not \(3,\)"),
        (np.zeros(4, np.float32), r"shape \(4,\), not \(3,\)"),
        (np.zeros((3, 1), np.float32), r"shape \(3, 1\), not \(3,\)"),
        (np.array([0, np.nan, 0], np.float32), "not finite"),
        (np.array([0, 0, np.inf], np.float32), "not finite"),
    ],
)
def test_copies_refuse_what_is_no_policy(bad: np.ndarray, why: str) -> None:
    store = Copies(1, 3)
    store.put_vector(0, np.ones(3, np.float32))
    with pytest.raises(ValueError, match=why):
        store.put_vector(0, bad)
    assert store.get(0).tolist() == [1, 1, 1]
