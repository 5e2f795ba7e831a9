"""Episodes into a memory: nothing is lost where they fit, and nothing is made up anywhere."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import UsageError
from core.exchange.episodes import Held
from core.exchange.fill import Dealt, deal, fill
from core.exchange.minari import Part
from core.exchange.sums import Summed
from tests.conftest import examples
from tests.oracles.test_sequential_oracle import LIVES, worlds
from tests.oracles.worlds import BREAK_OFF, CODES, STEP, TERMINATE, World

from .lives import lived, source_of, units


def filled(world: World, source: Summed):
    """A memory of that world with those episodes, and the numbers of those left out."""
    memory = world.memory()
    left_out = fill(memory, source, world.window)
    memory.check()
    return memory, left_out


@examples(150)
@given(worlds(), LIVES)
def test_an_equal_memory_holds_the_same(world: World, life: bytes) -> None:
    twin = lived(world, life)
    source = Summed(source_of(twin.memory))
    memory, left_out = filled(world, source)
    assert left_out == []
    again = Summed(source_of(memory))
    assert again.sums().content == source.sums().content
    moved = [replace(one, first_row=0) for one in source.held]
    assert [replace(one, first_row=0) for one in again.held] == moved
    assert units(memory) == units(twin.memory)
    assert memory.rows == twin.memory.rows


@examples(150)
@given(worlds(), LIVES, st.integers(1, 5), st.integers(9, 40))
def test_another_memory_gives_no_unit_that_did_not_happen(
    world: World, life: bytes, lanes: int, rows: int
) -> None:
    twin = lived(world, life)
    source = Summed(source_of(twin.memory))
    memory, left_out = filled(replace(world, lanes=lanes, capacity=rows * lanes), source)
    before, after = units(twin.memory), units(memory)
    assert after <= before
    if memory.ring.tails.max(initial=0) == 0:
        steps = sum(source.held[number].steps for number in left_out)
        assert (before - after).total() <= steps
        assert left_out == [] or world.window > 1


def test_a_memory_without_a_stack_leaves_nothing_out() -> None:
    world = World("bytes", lanes=4, capacity=40)
    twin = lived(world, bytes(200))
    source = Summed(source_of(twin.memory))
    assert [one.age > 0 for one in source.held] == [True] * 4
    memory, left_out = filled(replace(world, lanes=1, capacity=200), source)
    assert left_out == []
    assert units(memory) == units(twin.memory)


def test_a_stack_that_was_cut_begins_a_lane_or_is_left_out() -> None:
    world = World("bytes", lanes=4, capacity=40, window=3)
    twin = lived(world, bytes(200))
    memory, left_out = filled(replace(world, lanes=2), Summed(source_of(twin.memory)))
    assert left_out == [2, 3]
    # ten rows a lane, of which the newest has no step, and two have lost their stack
    assert units(memory).total() == 2 * (10 - 1 - 2)


A, B, C = (Held(0, row, 0, 4, "terminated") for row in (0, 5, 10))
OPEN = Held(0, 15, 0, 2, "open")
LONG = Held(0, 0, 0, 20, "terminated")
OPENED = [Held(lane, 0, 0, 1, "open") for lane in (1, 2)]
CUT, LONGER = Held(1, 30, 6, 3, "truncated"), Held(2, 50, 9, 7, "open")


@pytest.mark.parametrize(
    ("held", "lanes", "room", "window", "dealt"),
    [
        ([A, B, C, OPEN], 1, 18, 1, [(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)]),
        ([A, B, C, OPEN], 3, 18, 1, [(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)]),
        # a row too many: the lane of the fewest rows, the open one last
        ([A, B, C, OPEN], 2, 17, 1, [(0, 0, 0), (1, 1, 0), (2, 0, 0), (3, 1, 0)]),
        ([A, CUT, LONGER], 3, 10, 4, [(0, 0, 0), (1, 1, 6), (2, 2, 9)]),
        ([A, CUT, LONGER], 2, 10, 4, [(2, 0, 9), (1, 1, 6), (0, 1, 0)]),
        ([A, CUT, LONGER], 1, 10, 4, [(2, 0, 9), (0, 0, 0)]),
        ([A, CUT, LONGER], 1, 10, 1, [(2, 0, 9), (0, 0, 0), (1, 0, 0)]),
        ([LONG, *OPENED], 2, 10, 1, [(0, 0, 0), (1, 1, 0), (2, 0, 0)]),
        ([], 2, 10, 1, []),
    ],
    ids=["as they lay", "with lanes to spare", "dealt", "cut as they lay", "cut ones first",
         "too few lanes", "begun anew", "open ones end lanes", "nothing"],
)  # fmt: skip
def test_dealing_is_worked_by_hand(
    held: list[Held], lanes: int, room: int, window: int, dealt: list[tuple[int, int, int]]
) -> None:
    assert deal(held, lanes, room, window) == [Dealt(*each) for each in dealt]


def test_the_newest_of_every_lane_are_what_a_small_memory_keeps() -> None:
    held = [Held(lane, 3 * number, 0, 2, "terminated") for lane in (0, 1) for number in range(4)]
    order = [each.number for each in deal(held, 1, 12, 1)]
    assert order == [0, 4, 1, 5, 2, 6, 3, 7]


def test_a_file_that_puts_a_cut_episode_behind_another_is_dealt_anew() -> None:
    lane, behind = Held(0, 0, 0, 2, "terminated"), Held(0, 3, 5, 2, "terminated")
    assert deal([lane, behind], 1, 10, 4) == [Dealt(1, 0, 5), Dealt(0, 0, 0)]


def test_only_an_empty_memory_is_filled() -> None:
    twin = lived(World(), bytes(10))
    with pytest.raises(ValueError, match="holds 11 rows already"):
        fill(twin.memory, Summed(source_of(twin.memory)), 1)


def test_values_that_the_memory_cannot_keep_are_refused() -> None:
    twin = lived(World("floats", keep_floats=True), bytes(10))
    with pytest.raises(UsageError, match="set --float_frames keep"):
        fill(World("floats").memory(), Summed(source_of(twin.memory)), 1)


def test_an_observation_alone_stays_what_it_was() -> None:
    world = World("bytes", capacity=30, window=3)
    twin = lived(
        world, bytes(CODES.index(x) for x in (STEP, TERMINATE, BREAK_OFF, BREAK_OFF, STEP))
    )
    source = source_of(twin.memory)
    assert [(one.steps, one.ended) for one in source.held] == [
        (2, "terminated"), (0, "truncated"), (1, "open"),
    ]  # fmt: skip
    memory, _ = filled(world, Summed(Part(source, [1])))
    assert source_of(memory).held == [Held(0, 0, 0, 0, "truncated")]


def test_a_written_lane_can_be_written_on() -> None:
    world = World("bytes", capacity=30, window=3)
    twin = lived(world, bytes(100))
    memory, _ = filled(replace(world, capacity=60), Summed(source_of(twin.memory)))
    writer = memory.writer()
    for number in range(5):
        obs = {"obs": np.full((1, 5), number, np.uint8)}
        writer.append(*(np.array([x]) for x in (0, 1.0, False, False)), obs)
    memory.check()
    assert memory.rows == 35
