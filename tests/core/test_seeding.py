"""The seed tree."""

import json

import numpy as np
import pytest

from core.seeding import _BRANCH, SeedTree, generator_state, restore_generator

PURPOSES = sorted(_BRANCH)


def numbers(generator: np.random.Generator) -> list[int]:
    return generator.integers(0, 2**62, 4).tolist()


def test_every_leaf_is_a_stream_of_its_own() -> None:
    streams = [
        tuple(numbers(SeedTree(seed).generator(purpose, *path)))
        for seed in (0, 1, 2**32 - 1)
        for purpose in PURPOSES
        for path in ((), (0,), (1,), (0, 0), (0, 1), (7,))
    ]
    assert len(set(streams)) == len(streams)


def test_the_same_leaf_gives_the_same_stream_whatever_was_drawn_elsewhere() -> None:
    tree = SeedTree(3)
    first = numbers(tree.generator("sampler", 2))
    numbers(tree.generator("env"))
    tree.integers("explore", 5)
    assert numbers(tree.generator("sampler", 2)) == first
    assert numbers(SeedTree(3).generator("sampler", 2)) == first


def test_branches_keep_their_number() -> None:
    # a branch that moved would change every published run
    names = ["env", "explore", "sampler", "eval", "init", "report", "preview"]
    assert {name: number for number, name in enumerate(names)} == _BRANCH
    assert SeedTree(1).integers("env", 3) == [1511999270, 1485454133, 1126952529]


@pytest.mark.parametrize("count", [0, 1, 64])
def test_integers_are_different_and_fit(count: int) -> None:
    seeds = SeedTree(1).integers("env", count)
    assert len(seeds) == len(set(seeds)) == count
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert SeedTree(1).integers("env", count + 3)[:count] == seeds  # more lanes move none
    assert count == 0 or SeedTree(1).integers("env", count, 1) != seeds


def test_a_generator_goes_on_from_its_state_in_json() -> None:
    generator = SeedTree(1).generator("explore")
    generator.integers(0, 10, 3, dtype=np.uint32)  # leaves half a word behind
    kept = json.loads(json.dumps(generator_state(generator)))
    ahead = numbers(generator)
    other = SeedTree(9).generator("init")
    restore_generator(other, kept)
    assert numbers(other) == ahead
    assert kept["state"]["state"].bit_length() > 64
