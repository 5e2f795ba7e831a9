"""Weights that one process publishes and others read, whatever happens to the writer."""

import multiprocessing as mp
import time
from typing import Any

import numpy as np
import pytest

from core.errors import RunFailedError
from core.runtime.weights import BEGUN, Weights
from core.storage.allocators import Heap
from core.storage.shared import Shared

SPAWN = mp.get_context("spawn")
SIZE = 50_000


def tree(number: float) -> dict[str, Any]:
    return {
        "layer": {"weight": np.full((3, SIZE), number, np.float32), "bias": np.full(7, number)},
        "count": np.array(int(number)),
        "nothing": np.zeros((0, 4), np.float32),
    }


def same(found: Any, number: float) -> bool:
    wanted = tree(number)
    return (
        found.keys() == wanted.keys()
        and all(np.array_equal(found["layer"][k], v) for k, v in wanted["layer"].items())
        and int(found["count"]) == int(number)
    )


def test_the_newest_is_read_and_copied_both_ways():
    weights, given = Weights(tree(0), Heap()), tree(1)
    assert weights.version == 0
    assert weights.publish(given) == 1
    given["layer"]["bias"][:] = 99
    version, found = weights.read()
    assert (version, same(found, 1)) == (1, True)
    found["layer"]["bias"][:] = 99
    assert same(weights.read()[1], 1)
    for number in (2, 3, 4):
        assert weights.publish(tree(number)) == number
        version, found = weights.read()
        assert (version, same(found, number)) == (number, True)
        assert found["layer"]["weight"].dtype == np.float32
        assert found["nothing"].shape == (0, 4)


def test_before_the_first_there_is_nothing_to_read():
    with pytest.raises(RunFailedError, match="no weights were published"):
        Weights(tree(0), Heap()).read()


def test_a_writer_that_dies_while_it_publishes_leaves_the_newest_version_whole():
    """At whichever of the arrays it stops."""
    for stop in range(4):
        weights = Weights(tree(0), Heap())
        weights.publish(tree(1))
        weights.publish(tree(2))
        weights._counters[BEGUN] = 3
        for place in weights._places(3)[:stop]:
            place[...] = 77
        version, found = weights.read()
        assert (version, same(found, 2)) == (2, True)
        # and another writer publishes where it left off
        assert weights.publish(tree(3)) == 3
        assert same(weights.read()[1], 3)


def test_what_was_written_over_while_it_was_read_is_read_again():
    weights = Weights(tree(0), Heap())
    weights.publish(tree(1))
    places, published = weights._places, []

    def slowly(version: int) -> list[Any]:
        found = places(version)
        if not published:
            published.extend([2, 3])
            weights.publish(tree(2))
            weights.publish(tree(3))  # into the slot that is being read
        return found

    weights._places = slowly  # type: ignore[method-assign]
    version, found = weights.read()
    assert (version, same(found, 3)) == (3, True)


def publish_for(weights: Weights, seconds: float) -> None:
    number, until = 1, time.monotonic() + seconds
    while time.monotonic() < until:
        number += 1
        weights.publish(tree(number))


def test_no_version_is_read_torn_beside_a_writer_at_full_speed():
    weights = Weights(tree(0), Shared())
    weights.publish(tree(1))
    writer = SPAWN.Process(target=publish_for, args=(weights, 2.0), daemon=True)
    writer.start()
    seen = set()
    try:
        while writer.is_alive():
            version, found = weights.read()
            assert same(found, version)
            seen.add(version)
    finally:
        writer.kill()
        writer.join()
    assert len(seen) > 5
