"""EpisodicMemory against its slow twin, over random lives."""

import copy
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.errors import CorruptMemoryError

from ..conftest import examples
from .compare import assert_identical
from .episodic_history import (
    LIVES,
    PADDED,
    SHORT,
    EpisodicHistory,
    EpisodicTwin,
    EpisodicWorld,
    assert_windows,
    read_all,
    worlds,
)
from .history import Unit
from .worlds import BREAK_OFF, LOSE_LIFE, STEP, TERMINATE, TRUNCATE, WAIT


@examples(200)
@given(worlds(), LIVES, st.booleans())
def test_everything_it_may_give_is_what_happened(
    world: EpisodicWorld, life: bytes, split: bool
) -> None:
    EpisodicTwin(world, split=split).live(life, check_every=11)


@examples(20)
@given(worlds(), SHORT)
@example(EpisodicWorld(window=4, length=5, capacity=9), bytes([0] * 60))
def test_after_every_single_event(world: EpisodicWorld, life: bytes) -> None:
    EpisodicTwin(world).live(life, check_every=1)


@pytest.mark.parametrize("window", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 3, 7])
def test_every_seam(window: int, length: int) -> None:
    # episodes of 1 to 12 steps end on every slot of a ring that some of them overflow
    for steps in (1, 2, 5, 9, 10, 11, 12):
        ending = [TERMINATE, TRUNCATE][steps % 2]
        world = EpisodicWorld("vector", window=window, length=length, capacity=11)
        twin = EpisodicTwin(world)
        for step in range(1, 50):
            twin.tick([ending if step % steps == 0 else STEP])
            if step > 8:
                twin.agree()


def test_an_episode_longer_than_the_ring_keeps_its_newest_rows_until_the_next_has_a_step() -> None:
    twin = EpisodicTwin(EpisodicWorld(window=2, length=3, capacity=8))
    for _ in range(40):
        twin.tick([STEP])
        twin.agree()
    assert (twin.memory.rows, len(twin.memory)) == (8, 6)
    twin.tick([TERMINATE])
    # nothing newer has a step: the terminal can still be drawn
    assert [episode.ended for episode in twin.memory.episodes()] == ["terminated"]
    assert twin.memory.latest()["discount"][:, 0].tolist() == pytest.approx([0.9, 0.9, 0])
    twin.writers[0].start({"obs": np.zeros((1, 3), np.float32)})
    twin.history.start(0, {"obs": np.zeros(3, np.float32)})
    twin.agree()
    assert len(twin.memory) == 5
    twin.tick([STEP])
    twin.agree()
    assert [episode.length for episode in twin.memory.episodes()] == [1]


@examples(30)
@given(worlds(), SHORT, st.data())
def test_columns_and_out_change_no_value(
    world: EpisodicWorld, life: bytes, data: st.DataObject
) -> None:
    twin = EpisodicTwin(world)
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
    latest = memory.latest(columns=names)
    for name, array in memory.latest().items():
        assert (name in latest) == (name in names)
        if name in latest:
            assert_identical(name, latest[name], array)


@examples(40)
@given(worlds(), LIVES, st.integers(1, 60))
def test_a_sample_is_made_of_legal_windows(world: EpisodicWorld, life: bytes, size: int) -> None:
    twin = EpisodicTwin(world)
    twin.live(life)
    units = {unit.lane * 2**40 + unit.row: unit for unit in twin.history.units()}
    if not units:
        with pytest.raises(ValueError, match="nothing that can be sampled"):
            twin.memory.sample(size)
        return
    batch = twin.memory.sample(size)
    assert_windows(batch, twin.history.windows([units[name] for name in batch["id"].tolist()]))
    # never cut to the shortest: T is there whatever was drawn
    assert batch["mask"].shape == (world.length, size)
    assert batch["mask"][0].all()
    # what stands in the padding can be put through a network
    assert batch["action"].min() >= -1
    assert batch["action"].max() < 300


@examples(25)
@given(worlds(), LIVES, SHORT, st.integers(0, 40))
def test_a_saved_memory_goes_on_identically(
    world: EpisodicWorld, before: bytes, after: bytes, drawn: int
) -> None:
    twin = EpisodicTwin(world)
    twin.live(before)
    if len(twin.memory):
        twin.memory.sample(drawn + 1)
    resumed = EpisodicTwin(world)
    resumed.memory.load(_frozen(twin.memory.state()))
    resumed.history = copy.deepcopy(twin.history)
    resumed.go_on_as(twin)
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


def test_check_raises_on_a_broken_row() -> None:
    twin = EpisodicTwin(EpisodicWorld(lanes=2, capacity=40))
    twin.live(bytes([0] * 50))
    for name, change in (("age", 1), ("episode", 1), ("closing", True)):
        field = twin.memory._ring._records[name]
        before = field[13]
        field[13] = before + change
        with pytest.raises(CorruptMemoryError, match=r"lane \d, row \d+: '(age|episode)' does not"):
            twin.memory.check()
        field[13] = before
        twin.memory.check()


# --- What is drawn, against what is true.


def chances(history: EpisodicHistory, draw: str) -> dict[int, tuple[Unit, float]]:
    """How likely each legal start has to be, by id."""
    units = history.units()
    legal = Counter(id(unit.episode) for unit in units)
    found = {}
    for unit in units:
        chance = 1 / len(units)
        if draw == "episodes":
            chance = 1 / len(legal) / legal[id(unit.episode)]
        found[unit.lane * 2**40 + unit.row] = (unit, chance)
    return found


def assert_fits(counts: dict, expected: dict[object, float]) -> None:
    """Chi-square; the bound is passed once in a million by chance."""
    assert counts.keys() <= expected.keys()
    draws = sum(expected.values())
    assert sum(counts.values()) == pytest.approx(draws)
    assert min(expected.values()) > 5, "too few draws to say"
    chi = sum((counts.get(key, 0) - want) ** 2 / want for key, want in expected.items())
    degrees = len(expected) - 1
    # Wilson and Hilferty's cube root, at 4.75 standard deviations
    spread = 2 / (9 * degrees)
    bound = degrees * (1 - spread + 4.75 * math.sqrt(spread)) ** 3
    assert chi < bound, f"chi-square {chi:.1f} of {degrees} degrees"


def assert_fair(twin: EpisodicTwin, draws: int) -> None:
    """Starts, and the terminals that windows show, come as often as they have to."""
    expected = chances(twin.history, twin.world.draw)
    assert sum(chance for _, chance in expected.values()) == pytest.approx(1)
    batch = twin.memory.sample(draws, columns=["id", "discount", "mask"])
    counts = Counter(batch["id"].tolist())
    assert_fits(counts, {name: chance * draws for name, (_, chance) in expected.items()})
    seen = Counter()
    steps, windows = np.nonzero((batch["discount"] == 0) & batch["mask"])
    for step, start in zip(steps.tolist(), batch["id"][windows].tolist(), strict=True):
        seen[start + step] += 1
    wanted = terminals(twin.history, expected)
    assert seen.keys() == wanted.keys(), "every terminal can be reached, and nothing else is one"
    for name, chance in wanted.items():
        mean, deviation = draws * chance, math.sqrt(draws * chance * (1 - chance))
        assert abs(seen[name] - mean) <= 6 * deviation


def terminals(history: EpisodicHistory, expected: dict) -> dict[int, float]:
    """How likely a window shows each terminal step."""
    found: Counter = Counter()
    for start, (unit, chance) in expected.items():
        steps = unit.episode.steps[unit.at : unit.at + history.length]
        for ahead, happened in enumerate(steps):
            if happened.terminal:
                found[start + ahead] += chance
    return dict(found)


LIVED = {
    "long": [STEP] * 16 + [TERMINATE] + [STEP] * 9,
    # one step an episode: every second row is closing
    "short": [TERMINATE] * 26,
    "lives": [STEP, STEP, LOSE_LIFE, STEP, LOSE_LIFE, STEP, STEP, TERMINATE] * 4,
    "mixed": [STEP, TERMINATE, STEP, STEP, TRUNCATE, TERMINATE] * 5,
    # longer than the ring: the tail cuts stacks
    "endless": [STEP] * 20 + [LOSE_LIFE] + [STEP] * 20,
}


@pytest.mark.parametrize("draw", ["steps", "episodes"])
@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("kind", sorted(LIVED))
def test_each_start_and_terminal_comes_as_often_as_it_has_to(
    kind: str, window: int, draw: str
) -> None:
    world = EpisodicWorld(lanes=3, window=window, length=3, capacity=3 * 21, seed=5, draw=draw)
    twin = EpisodicTwin(world)
    for tick, code in enumerate(LIVED[kind]):
        # uneven lanes: one stops early, one is slow
        twin.tick([code, code if tick < 9 else WAIT, code if tick % 2 else WAIT])
    twin.agree()
    if kind == "endless" and window > 1:
        assert twin.memory.rows > len(twin.memory) + 3, "stacks are cut at the tail"
    assert_fair(twin, draws=20_000)


@pytest.mark.parametrize("draw", ["steps", "episodes"])
def test_where_hardly_anything_is_legal_the_draw_is_fair_still(draw: str) -> None:
    # episodes without a step: the draw has to fall back to counting, as often as not
    twin = EpisodicTwin(EpisodicWorld(lanes=2, length=2, capacity=160, seed=6, draw=draw))
    for _ in range(60):
        twin.tick([BREAK_OFF, BREAK_OFF])
    assert len(twin.memory) == 0
    with pytest.raises(ValueError, match="nothing"):
        twin.memory.sample(1)
    twin.tick([STEP, STEP])
    twin.tick([STEP, LOSE_LIFE])
    twin.tick([TERMINATE, WAIT])
    twin.tick([TERMINATE, WAIT])
    twin.agree()
    assert len(twin.memory) == 6
    assert_fair(twin, draws=9_000)


@examples(15)
@given(worlds(), SHORT)
def test_the_same_generator_draws_the_same(world: EpisodicWorld, life: bytes) -> None:
    one, two = EpisodicTwin(world), EpisodicTwin(world)
    one.live(life)
    two.live(life)
    if not len(one.memory):
        return
    for _ in range(3):
        first, second = one.memory.sample(9), two.memory.sample(9)
        for name in PADDED:
            assert_identical(name, first[name], second[name])
        assert_identical("id", first["id"], second["id"])
