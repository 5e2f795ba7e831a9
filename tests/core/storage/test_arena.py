"""The arena: blobs that come back, blocks used again, bytes counted by the page."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.storage.allocators import Heap
from core.storage.arena import NONE, Arena
from core.storage.layout import PAGE, SLACK
from tests.conftest import examples
from tests.harness import equal_trees

BLOCK = 2 * PAGE


def arena(lanes: int = 1, blocks: int = 3) -> Arena:
    return Arena(Heap().kept("", lanes * blocks * BLOCK + SLACK), lanes, blocks, BLOCK)


def blob(length: int, value: int = 1) -> np.ndarray:
    return np.full(length, value, np.uint8)


def test_a_block_is_filled_and_then_the_next() -> None:
    it = arena()
    offsets = [it.put(0, blob(length)) for length in (3_000, 5_000, 192, 1, BLOCK)]
    assert offsets == [0, 3_000, 8_000, BLOCK, 2 * BLOCK]


def test_lanes_have_blocks_of_their_own() -> None:
    it = arena(lanes=2)
    assert [it.put(lane, blob(10)) for lane in (1, 0, 1)] == [3 * BLOCK, 0, 3 * BLOCK + 10]


def test_a_full_arena_takes_nothing_until_a_whole_block_is_empty() -> None:
    it = arena()
    offsets = [it.put(0, blob(5_000)) for _ in range(3)]
    assert it.put(0, blob(5_000)) == NONE
    assert it.put(0, blob(3_192)) == offsets[2] + 5_000, "the last block has room for less"
    it.free(0, offsets[1])
    assert it.put(0, blob(5_000)) == offsets[1]
    it.free(0, offsets[2])
    assert it.put(0, blob(5_000)) == NONE, "one blob of that block is left"


def test_of_the_empty_blocks_the_first_is_used_again() -> None:
    it = arena(blocks=4)
    offsets = [it.put(0, blob(5_000)) for _ in range(3)]
    for offset in (offsets[2], offsets[0], offsets[1]):
        it.free(0, offset)
    assert it.put(0, blob(5_000)) == offsets[2], "emptied while it was filled, it is begun anew"
    assert it.put(0, blob(5_000)) == offsets[0]
    assert it.used == 3 * BLOCK, "the fourth block was never needed"


def test_bytes_in_use_are_pages_that_were_ever_written() -> None:
    it = arena(lanes=2)
    assert it.used == 0
    it.put(0, blob(1))
    assert it.used == PAGE
    it.put(0, blob(PAGE - 1))
    assert it.used == PAGE
    offset = it.put(0, blob(1))
    assert it.used == 2 * PAGE
    once = it.put(1, blob(PAGE + 1))
    assert it.used == 4 * PAGE
    it.free(0, offset)
    it.free(1, once)
    assert it.put(1, blob(PAGE)) == once
    assert it.used == 4 * PAGE, "what the system gave is not given back"


def test_past_the_last_blob_can_be_read() -> None:
    it = arena(blocks=1)
    offset = it.put(0, blob(BLOCK))
    assert len(it.bytes) == offset + BLOCK + SLACK


@given(data=st.data(), lanes=st.integers(1, 3), blocks=st.integers(1, 4))
@examples(40)
def test_blobs_come_back_until_they_are_let_go(
    data: st.DataObject, lanes: int, blocks: int
) -> None:
    it = arena(lanes, blocks)
    held: list[list[tuple[int, int, int]]] = [[] for _ in range(lanes)]
    for number in range(data.draw(st.integers(1, 60))):
        lane, length = data.draw(st.integers(0, lanes - 1)), data.draw(st.integers(1, BLOCK))
        mine, value = held[lane], number % 255 + 1
        while (offset := it.put(lane, blob(length, value))) == NONE:
            assert mine, "an empty lane has room"
            it.free(lane, mine.pop(0)[0])
        assert lane * blocks <= offset // BLOCK < (lane + 1) * blocks
        assert (offset + length - 1) // BLOCK == offset // BLOCK, "no blob lies in two blocks"
        mine.append((offset, length, value))
        for at, long, shown in (entry for entries in held for entry in entries):
            assert (it.bytes[at : at + long] == shown).all()


def test_a_state_is_taken_over_and_lived_on() -> None:
    saved, loaded = arena(lanes=2, blocks=5), arena(lanes=2, blocks=5)
    offsets = [saved.put(0, blob(5_000, number)) for number in range(3)]
    saved.put(1, blob(9, 9))
    saved.free(0, offsets[0])
    state = saved.state()
    assert state["bytes"].shape == (2, 3, BLOCK), "blocks that were never used are not saved"
    loaded.load(state)
    assert equal_trees(saved.state(), loaded.state())
    assert loaded.used == saved.used == 3 * BLOCK - 3 * PAGE + 3 * PAGE + PAGE
    for it in (saved, loaded):
        assert [it.put(0, blob(3_192 + extra)) for extra in (0, 1)] == [2 * BLOCK + 5_000, 0]
        assert it.put(1, blob(9)) == 5 * BLOCK + 9
    assert np.array_equal(saved.bytes, loaded.bytes)


def test_the_state_of_a_larger_arena_is_refused() -> None:
    large = arena(blocks=5)
    for _ in range(5):
        large.put(0, blob(BLOCK))
    with pytest.raises(ValueError, match="blocks"):
        arena(blocks=3).load(large.state())
