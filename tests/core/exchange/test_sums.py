"""Sums: worked by hand once, and told apart by every bit that counts."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from core.exchange.episodes import Held
from core.exchange.space import Space
from core.exchange.sums import Summed, Sums
from core.types import ArraySpec, Columns, DiscreteActions

SPACE = Space({"obs": ArraySpec((2,), np.dtype(np.float32))}, DiscreteActions(2), {})
FIRST = Held(0, 7, 0, 2, "terminated")
SECOND = Held(1, 3, 4, 0, "open")


class Listed:
    """Episodes in lists."""

    space = SPACE

    def __init__(self, held: Sequence[Held], columns: Sequence[Columns], size: int = 100) -> None:
        self.held, self._columns, self._size = held, columns, size

    def pieces(self, number: int) -> Iterator[Columns]:
        columns = self._columns[number]
        for at in range(0, len(columns["obs"]), self._size):
            yield {name: array[at : at + self._size] for name, array in columns.items()}


def columns(one: Held) -> Columns:
    return {
        "obs": np.arange(2 * one.rows, dtype=np.float32).reshape(-1, 2),
        "action": np.arange(one.steps) % 2,
        "reward": np.ones(one.steps, np.float32),
        "terminal": np.arange(one.steps) == one.steps - 1,
    }


HELD = [FIRST, SECOND]
COLUMNS = [columns(one) for one in HELD]


def sums(held: Sequence[Held] = HELD, of: Sequence[Columns] = COLUMNS, size: int = 100) -> Sums:
    return Summed(Listed(held, of, size)).sums()


def sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def test_the_sums_are_those_of_the_documentation() -> None:
    space = json.dumps(
        {
            "observations": {"obs": {"dtype": "<f4", "shape": [2]}},
            "action": {"kind": "discrete", "n": 2},
            "extras": {},
        }
    ).encode()
    digests = []
    for one, own in zip(HELD, COLUMNS, strict=True):
        head = json.dumps([one.age, one.steps, one.ended]).encode()
        parts = [sha(own[name].tobytes()) for name in ("obs", "action", "reward", "terminal")]
        digests.append(sha(head, *parts))
    found = sums()
    assert found.content == sha(space, *sorted(digests)).hex()
    assert found.whole == sha(space, b"[0, 7]", digests[0], b"[1, 3]", digests[1]).hex()


def test_pieces_and_the_order_of_reading_change_nothing() -> None:
    assert {sums(size=size) for size in (1, 2, 3)} == {sums()}
    summed = Summed(Listed(HELD, COLUMNS))
    summed.skip(1)
    summed.skip(0)
    assert summed.sums() == sums()


def test_where_episodes_lie_is_in_the_whole_alone() -> None:
    turned = sums(HELD[::-1], COLUMNS[::-1])
    moved = sums([replace(FIRST, lane=5, first_row=0), SECOND])
    assert turned.content == moved.content == sums().content
    assert len({turned.whole, moved.whole, sums().whole}) == 3


@pytest.mark.parametrize("change", [{"age": 1}, {"ended": "truncated"}])
def test_ages_and_endings_count(change: dict) -> None:
    assert sums([replace(FIRST, **change), SECOND]).content != sums().content


@pytest.mark.parametrize("name", ["obs", "action", "reward", "terminal"])
def test_every_bit_of_a_column_counts(name: str) -> None:
    changed = {key: array.copy() for key, array in COLUMNS[0].items()}
    changed[name].view(np.uint8).reshape(-1)[-1] ^= 1
    assert sums(of=[changed, COLUMNS[1]]).content != sums().content


def test_an_episode_of_which_only_a_part_was_read_is_read_again() -> None:
    summed = Summed(Listed(HELD, COLUMNS, size=1))
    next(summed.pieces(0))
    assert summed.sums() == sums()
