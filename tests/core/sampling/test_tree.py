"""The sum tree against its definition in numpy: prefix sums, a total, a maximum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import CorruptMemoryError
from core.sampling import kernels, layout
from core.sampling.tree import SumTree
from tests.conftest import examples

SIZES = (1, 2, 7, 8, 9, 63, 64, 65, 100, 512, 513, 700)


def tree_of(values) -> SumTree:
    tree = SumTree(len(values))
    tree.put(np.arange(len(values)), np.array(values, np.float64))
    return tree


def wanted(weights: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """The first leaf whose prefix sum is more than the mass, else the last that weighs anything."""
    found = np.searchsorted(np.cumsum(weights), masses, side="right")
    return np.minimum(found, np.flatnonzero(weights)[-1])


def assert_is(tree: SumTree, values: np.ndarray) -> None:
    """The tree holds whole numbers, of which every sum is exact."""
    weights = np.maximum(values, 0)
    tree.check()
    assert (tree.leaves == values).all()
    assert tree.total == weights.sum()
    assert tree.greatest == weights.max()
    if weights.sum():
        halves = np.arange(0, weights.sum() + 3, 0.5)
        assert (tree.find(halves) == wanted(weights, halves)).all()
    else:
        with pytest.raises(ValueError, match="no leaf"):
            tree.find(np.zeros(1))


@examples(60)
@given(st.sampled_from(SIZES), st.integers(0, 2**32), st.integers(1, 5))
def test_after_any_updates_it_is_what_numpy_says(leaves: int, seed: int, rounds: int) -> None:
    rng = np.random.default_rng(seed)
    tree, twin = SumTree(leaves), np.zeros(leaves)
    assert_is(tree, twin)
    for _ in range(rounds):
        chosen = rng.integers(0, leaves, rng.integers(0, 30))
        values = rng.choice([-3.0, 0.0, 0.0, 1.0, 2.0, 50.0], len(chosen))
        kept = chosen.copy()
        tree.put(chosen, values)
        assert (chosen == kept).all()
        for leaf, value in zip(chosen.tolist(), values.tolist(), strict=True):
            twin[leaf] = value  # of two of one leaf the later
        assert_is(tree, twin)


@pytest.mark.parametrize("leaves", SIZES)
def test_each_leaf_alone_is_found_everywhere(leaves: int) -> None:
    for leaf in range(leaves):
        tree = SumTree(leaves)
        tree.put(np.array([leaf]), np.array([2.0]))
        assert (tree.find(np.array([0.0, 1.0, 1.999, 2.0, 2.5, 1e9])) == leaf).all()


@examples(60)
@given(st.sampled_from(SIZES), st.integers(0, 2**32))
def test_what_weighs_nothing_is_never_found_whatever_rounding_does(leaves: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    spread = rng.choice([1.0, 30.0, 200.0])
    values = np.exp(rng.normal(0, spread, leaves).clip(-600, 600)) * (rng.random(leaves) < 0.4)
    values[rng.integers(leaves)] = 1.0
    tree = tree_of(values)
    edges = np.cumsum(values)
    near = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, np.inf)])
    masses = np.concatenate([near, np.linspace(0, 1, 50) * tree.total, [0.0, tree.total]])
    found = tree.find(masses)
    assert (values[found] > 0).all()
    # of points well within a leaf, by any order of summing, there is one answer
    slack = 1e-12 * tree.total
    starts = edges - values
    middle = np.flatnonzero(values > 4 * slack)
    assert (tree.find(starts[middle] + values[middle] / 2) == middle).all()


def test_at_the_ends_of_a_line_it_goes_to_the_nearest_with_weight() -> None:
    # by hand: a point past a line moves back to its last weight; before there is one, forward
    tree = tree_of([0, 0, 3.0, 0, 0, 0, 0, 0, 0, 5.0, 0, 0])
    assert tree.find(np.array([2.9, 3.0, 7.9, 8.0, 99.0])).tolist() == [2, 9, 9, 9, 9]
    masses, found = np.array([1.0, 1.0, 1.0]), np.array([0, 2, 6])
    kernels.settle(tree.lines, 0, 1, masses, found)
    assert found.tolist() == [2, 2, 2]
    assert masses.tolist() == [0.0, 1.0, 3.0]


@examples(40)
@given(st.sampled_from(SIZES), st.integers(0, 2**32))
def test_made_anew_it_is_the_same_to_the_bit(leaves: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = SumTree(leaves)
    for _ in range(20):
        chosen = rng.integers(0, leaves, rng.integers(1, 20))
        tree.put(chosen, rng.exponential(1, len(chosen)) ** 8)
    other = SumTree(leaves)
    other.restore(tree.leaves)
    assert other.lines.tobytes() == tree.lines.tobytes()
    other.check()
    assert len(other.take_changed()) == 0


def test_it_names_the_leaves_that_changed_once() -> None:
    tree = SumTree(700)
    tree.put(np.array([3, 699, 64, 3]), np.array([1.0, 2.0, 3.0, 0.0]))
    tree.put(np.array([7, 8]), np.array([0.0, 5.0]))  # the first is what it was
    assert tree.take_changed().tolist() == [3, 8, 64, 699]
    assert tree.take_changed().tolist() == []
    tree.put(np.array([8, 9]), np.array([5.0, 1.0]))
    assert tree.take_changed().tolist() == [9]


@pytest.mark.parametrize("values", [np.ones(5), np.array([1, np.nan, 1]), np.full(3, np.inf)])
def test_it_takes_over_nothing_that_is_not_its_own(values: np.ndarray) -> None:
    tree = tree_of([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="finite priorities"):
        tree.restore(values)
    assert_is(tree, np.array([1.0, 2.0, 3.0]))


@pytest.mark.parametrize(("where", "said"), [((0, 2), "slot 2 is nan"), ((14, 1), "children")])
def test_check_names_what_is_wrong(where: tuple[int, int], said: str) -> None:
    tree = tree_of(np.ones(100))
    tree.check()
    tree.lines[where] = np.nan if where[0] == 0 else 7.5
    with pytest.raises(CorruptMemoryError, match=said):
        tree.check()


@pytest.mark.parametrize("leaves", [*SIZES, 4096, 1_000_000])
def test_its_bytes_are_known_and_its_lines_are_the_caches(leaves: int) -> None:
    tree = SumTree(leaves)
    assert tree.bytes == layout.tree_bytes(leaves)
    space = tree.lines
    while isinstance(space.base, np.ndarray):
        space = space.base
    assert space.nbytes <= tree.lines.nbytes + layout.LINE
    assert tree.lines.ctypes.data % 64 == 0
    assert tree.lines.shape[1] == layout.FAN == kernels.FAN
    assert tree.levels.tolist()[0] == 0
    assert len(tree.lines) == tree.levels[-1] + 2
    if leaves >= 4096:  # 8 a leaf, a seventh of it for sums, another for the greatest, and a bit
        assert tree.bytes / leaves == pytest.approx(8 * 9 / 7 + 1 / 8, rel=0.01)
