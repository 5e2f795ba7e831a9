"""Recent draws: from which rows, with which chance, and how a round goes on."""

import copy

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.sampling.newest import Newest
from core.sampling.recent import ROUND, Recency, Recent
from core.sampling.uniform import all_starts
from tests.conftest import examples
from tests.oracles import test_episodic_oracle as episodic
from tests.oracles.episodic_history import EpisodicTwin
from tests.oracles.test_sequential_oracle import LIVES, worlds
from tests.oracles.worlds import BREAK_OFF, STEP, Twin, World

from .sampled import ids_of, memory_of, play


def of_window(twin: Twin, share: float, least: int) -> list[int]:
    """The legal units of a lane's newest candidate rows, by the words of the docs."""
    found, history = [], twin.history
    for unit in history.units():
        newest = history.written(unit.lane) - 1
        held = newest - history.oldest(unit.lane)
        if unit.row >= newest - max(int(np.ceil(held * share)), least):
            found.append(unit)
    return ids_of(found)


def watch(twin: Twin, life: bytes, decay: float, rows: int) -> None:
    memory, reach = twin.memory, twin.world.window - 1
    sampler = Recent(memory._view, reach, Recency(rows, decay))
    rng = np.random.default_rng(0)
    batches = 0

    def look() -> None:
        nonlocal batches
        legal = ids_of(twin.history.units())
        if not legal:
            return
        draw = sampler.draw(memory.starts, 4, rng)
        batches += 1
        window = of_window(twin, decay**batches, -(-rows // twin.world.lanes)) or legal
        assert set(((draw.lanes << 40) | draw.rows).tolist()) <= set(window)
        assert (draw.weight == 1).all()
        chances = sampler.chances(*all_starts(memory.starts))
        np.testing.assert_allclose(chances, np.isin(legal, window) / len(window))

    twin.after_each = look
    twin.live(life)


DECAYS, ROWS = st.sampled_from([0.0, 0.5, 0.97, 1.0]), st.integers(1, 20)


@examples(20)
@given(worlds(), LIVES, DECAYS, ROWS)
def test_units_come_from_the_newest_rows(world: World, life: bytes, decay, rows) -> None:
    watch(Twin(world), life, decay, rows)


@examples(12)
@given(episodic.worlds(), LIVES, DECAYS, ROWS)
def test_also_where_episodes_go_as_a_whole(world, life: bytes, decay, rows) -> None:
    watch(EpisodicTwin(world), life, decay, rows)


def test_where_the_newest_rows_hold_no_step_all_are_drawn_from() -> None:
    twin = Twin(World(capacity=20))
    for code in [STEP, STEP, *[BREAK_OFF] * 6]:
        twin.tick([code])
    sampler = Recent(twin.memory._view, 0, Recency(3, 0.0))
    draw = sampler.draw(twin.memory.starts, 50, np.random.default_rng(0))
    assert set(draw.rows.tolist()) == {0, 1}


def test_the_window_is_that_of_the_paper() -> None:
    # c_k = max(N eta^k, c_min) by hand: 1000 rows, eta 0.99, c_min 300
    memory = memory_of(2_000, sampler="recent", recent_rows=300, recent_decay=0.99)
    play(memory, np.zeros(1_000), length=2_000)
    oldest = []
    for _ in range(ROUND + 1):
        memory.sample(1)
        oldest.append(len(memory._kept["recent"]._newest))
    assert oldest[:3] == [990, 981, 971]  # 990, 980.1, 970.299
    assert oldest[99] == 367  # 366.03
    assert oldest[150] == oldest[-2] == 300
    assert oldest[-1] == 990, "a round is over"


def test_newer_units_come_more_often_and_old_ones_are_not_forgotten() -> None:
    memory = memory_of(1_000, sampler="recent", recent_rows=100, recent_decay=0.996)
    play(memory, np.zeros(990), length=5_000)
    drawn = np.concatenate([memory.sample(20)["id"] for _ in range(ROUND)])
    counts = np.bincount(drawn // 99, minlength=10)
    assert counts[0] > 0
    assert (np.diff(counts[::3]) > 0).all()


def test_a_saved_one_goes_on_in_its_round() -> None:
    keys = {"sampler": "recent", "recent_rows": 5, "recent_decay": 0.9}
    memory, other = memory_of(200, **keys), memory_of(200, seed=1, **keys)
    play(memory, np.zeros(150))
    for _ in range(7):
        memory.sample(2)
    other.load(copy.deepcopy(memory.state()))
    for _ in range(40):
        assert (memory.sample(6)["id"] == other.sample(6)["id"]).all()


def test_how_many_there_are_of_all_is_what_the_memory_counts() -> None:
    twin = Twin(World(lanes=2, window=3, capacity=30))
    newest = Newest(twin.memory._view, 2)
    for _ in range(70):
        twin.tick([STEP, BREAK_OFF])
        newest.look(twin.memory.starts, 1.0, 1)
        assert len(newest) == len(twin.memory)
