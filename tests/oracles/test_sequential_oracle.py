"""SequentialMemory against its slow twin, over random lives."""

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.sampling.uniform import Draw, all_starts
from core.storage import layout

from ..conftest import examples
from .compare import assert_identical, read_all
from .worlds import (
    ACTIONS,
    BREAK_OFF,
    CODES,
    EXTRAS,
    OBSERVATIONS,
    STEP,
    TERMINATE,
    WAIT,
    Twin,
    World,
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    lanes = draw(st.integers(1, 5))
    window, n_step = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    rows_per_lane = draw(st.integers(window + n_step, 24))
    return World(
        observation=draw(st.sampled_from(sorted(OBSERVATIONS))),
        action=draw(st.sampled_from(sorted(ACTIONS))),
        extras=draw(st.sampled_from(sorted(EXTRAS))),
        lanes=lanes,
        window=window,
        n_step=n_step,
        gamma=draw(st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0])),
        capacity=rows_per_lane * lanes + draw(st.integers(0, lanes - 1)),
        keep_floats=draw(st.booleans()),
        seed=draw(st.integers(0, 1000)),
        codec=draw(st.sampled_from(["raw", "lz4", "zstd"])),
        chunk_frames=draw(st.integers(2, 7)),
    )


@st.composite
def long_lives(draw: st.DrawFn) -> bytes:
    """Hundreds of events, more or less restless; drawn apart, since hypothesis likes them short."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    life = rng.integers(0, len(CODES), draw(st.integers(200, 500)))
    calm = rng.random(len(life)) > draw(st.sampled_from([0.1, 0.3, 1.0]))
    return bytes(np.where(calm, CODES.index(STEP), life).tolist())


SHORT = st.binary(min_size=10, max_size=150)
LIVES = st.one_of(long_lives(), SHORT)


@examples(250)
@given(worlds(), LIVES, st.booleans())
def test_everything_it_may_give_is_what_happened(world: World, life: bytes, split: bool) -> None:
    Twin(world, split=split).live(life, check_every=9)


@st.composite
def tight_worlds(draw: st.DrawFn) -> World:
    """Worlds of pictures whose bytes are fewer than their rows would take."""
    pictures = ["pixels", "colour", "bits", "parts"]
    world = draw(worlds())
    lanes, reach = world.lanes, world.window + world.n_step
    return replace(
        world,
        observation=draw(st.sampled_from(pictures)),
        capacity=lanes * draw(st.integers(reach, 80)),
        room=draw(st.floats(0, 1)),
    )


@contextmanager
def small_blocks() -> Iterator[None]:
    """Blocks of a chunk or a few, so that a lane of some rows fills many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "LEAST_BLOCK", 700)
        patch.setattr(layout, "PAGE", 64)
        yield


@examples(120)
@given(tight_worlds(), LIVES, st.booleans())
def test_under_a_bound_on_bytes_it_gives_what_happened(
    world: World, life: bytes, split: bool
) -> None:
    with small_blocks():
        Twin(world, split=split).live(life, check_every=9)


def test_a_bound_on_bytes_lets_rows_go_before_their_time() -> None:
    world = World("pixels", lanes=2, window=3, capacity=160, codec="lz4", chunk_frames=4, room=0.3)
    with small_blocks():
        twin = Twin(world)
        twin.live(bytes([0] * 400), check_every=5)
        assert twin.memory.full
        assert 20 < twin.memory.rows < 150


@examples(25)
@given(worlds(), SHORT)
@example(World(window=4, n_step=5, capacity=9), bytes([0] * 60))
def test_after_every_single_event(world: World, life: bytes) -> None:
    Twin(world).live(life, check_every=1)


@pytest.mark.parametrize("window", [1, 2, 3, 4])
@pytest.mark.parametrize("n_step", [1, 2, 5])
def test_every_seam(window: int, n_step: int) -> None:
    # episodes of 1 to 6 steps end on every slot of the ring, whose length shares no divisor
    for length in range(1, 7):
        for ending in range(TERMINATE, TERMINATE + 3):
            world = World("pixels", window=window, n_step=n_step, capacity=11 + length % 2)
            twin = Twin(world)
            for step in range(1, 60):
                twin.tick([ending if step % length == 0 else STEP])
                if step > 8:
                    twin.agree()


@examples(40)
@given(worlds(), SHORT, st.data())
def test_columns_and_out_change_no_value(world: World, life: bytes, data: st.DataObject) -> None:
    twin = Twin(world)
    twin.live(life)
    memory = twin.memory
    if not len(memory):
        return
    whole = read_all(memory)
    assert tuple(sorted(memory.reader.columns)) == tuple(sorted(whole))
    names = data.draw(st.lists(st.sampled_from(sorted(whole)), min_size=1, unique=True))
    part = read_all(memory, columns=names)
    given_out = {name: np.full_like(whole[name], 1) for name in names}
    kept = dict(given_out)
    filled = read_all(memory, columns=names, out=given_out)
    assert set(part) == set(filled) == set(names)
    for name in names:
        assert_identical(name, part[name], whole[name])
        assert_identical(name, filled[name], whole[name])
        assert filled[name] is kept[name]
    some = dict(list(kept.items())[:1])
    mixed = read_all(memory, out=some)
    for name, array in mixed.items():
        assert_identical(name, array, whole[name])
        assert (array is some.get(name)) == (name in some)


@examples(40)
@given(worlds(), LIVES, st.integers(1, 70))
def test_a_sample_is_made_of_legal_units(world: World, life: bytes, size: int) -> None:
    twin = Twin(world)
    twin.live(life)
    units = {unit.lane * 2**40 + unit.row: unit for unit in twin.history.units()}
    if not units:
        with pytest.raises(ValueError, match="nothing that can be sampled"):
            twin.memory.sample(size)
        return
    batch = twin.memory.sample(size)
    for place, unit_id in enumerate(batch["id"].tolist()):
        expected = twin.history.expected(units[unit_id])
        for name, wanted in expected.items():
            assert_identical(name, batch[name][place], wanted)


@examples(30)
@given(worlds(), LIVES, SHORT, st.integers(0, 40))
def test_a_saved_memory_goes_on_identically(
    world: World, before: bytes, after: bytes, drawn: int
) -> None:
    twin = Twin(world)
    twin.live(before)
    if len(twin.memory):
        twin.memory.sample(drawn + 1)
    resumed = Twin(world)
    resumed.memory.load(_frozen(twin.memory.state()))
    resumed.history = copy.deepcopy(twin.history)
    resumed.go_on_as(twin)
    # writers are not saved: new ones go on in the middle of an episode as the old ones do
    resumed.renew()
    resumed.agree()
    twin.live(after)
    resumed.live(after)
    if len(twin.memory):
        one, two = twin.memory.sample(33), resumed.memory.sample(33)
        for name, array in one.items():
            assert_identical(name, array, two[name])


def _frozen(tree):
    if isinstance(tree, dict):
        return {key: _frozen(value) for key, value in tree.items()}
    return tree.copy() if isinstance(tree, np.ndarray) else tree


LIVED = {
    # long episodes: rejections are few
    "long": [STEP] * 30,
    # one step an episode: every second row is closing
    "short": [TERMINATE] * 30,
    "mixed": [STEP, TERMINATE, STEP, STEP, TERMINATE, TERMINATE] * 6,
}


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("kind", sorted(LIVED))
def test_each_legal_unit_is_as_likely(kind: str, window: int) -> None:
    world = World(lanes=3, window=window, n_step=2, capacity=3 * 17, seed=5)
    twin = Twin(world)
    for tick, code in enumerate(LIVED[kind]):
        # uneven lanes: one stops early, one is slow
        twin.tick([code, code if tick < 9 else WAIT, code if tick % 2 else WAIT])
    assert_uniform(twin, draws=20_000)


def test_where_hardly_anything_is_legal_the_draw_is_uniform_still() -> None:
    # episodes without a step: three of 76 candidates can be drawn, so the draw has to fall back
    world = World(lanes=2, capacity=80, seed=6)
    twin = Twin(world)
    for _ in range(60):
        twin.tick([BREAK_OFF, BREAK_OFF])
    assert len(twin.memory) == 0
    with pytest.raises(ValueError, match="nothing"):
        twin.memory.sample(1)
    twin.tick([STEP, STEP])
    twin.tick([STEP, WAIT])
    assert len(twin.memory) == 3
    assert_uniform(twin, draws=9_000)


def assert_uniform(twin: Twin, draws: int) -> None:
    """Chi-square over all legal units; the bound is passed once in a million by chance."""
    legal = [unit.lane * 2**40 + unit.row for unit in twin.history.units()]
    drawn = twin.memory.sample(draws, columns=["id"])["id"]
    counts = dict.fromkeys(legal, 0)
    for unit in drawn.tolist():
        counts[unit] += 1
    fair = draws / len(legal)
    chi = sum((count - fair) ** 2 / fair for count in counts.values())
    degrees = len(legal) - 1
    # Wilson and Hilferty's cube root, at 4.75 standard deviations
    spread = 2 / (9 * degrees)
    bound = degrees * (1 - spread + 4.75 * math.sqrt(spread)) ** 3
    assert chi < bound, f"chi-square {chi:.1f} of {degrees} degrees"
    assert min(counts.values()) > 0


@examples(15)
@given(worlds(), SHORT)
def test_the_same_generator_draws_the_same(world: World, life: bytes) -> None:
    one, two = Twin(world), Twin(world)
    one.live(life)
    two.live(life)
    if not len(one.memory):
        return
    for _ in range(3):
        first, second = one.memory.sample(9), two.memory.sample(9)
        for name, array in first.items():
            assert_identical(name, array, second[name])
    assert not np.array_equal(one.memory.sample(64)["id"], one.memory.sample(64)["id"]) or (
        len(one.memory) < 3
    )


def test_the_newest_and_the_oldest_can_be_drawn() -> None:
    twin = Twin(World(window=3, capacity=12))
    twin.live(bytes([0] * 40))
    lanes, rows = all_starts(twin.memory.starts)
    assert rows.tolist() == list(range(31, 40))  # rows 29 to 40 held, stacks from 31 on whole
    drawn = twin.memory.sample(2_000)["id"]
    assert {31, 39} <= set(drawn.tolist())
    batch = twin.memory.reader.read(Draw(lanes[-1:], rows[-1:], np.ones(1, np.float32)))
    newest = twin.history.episodes[0][-1].observations[-1]["obs"]
    assert_identical("next_obs", batch["next_obs"][0, -1], newest)
