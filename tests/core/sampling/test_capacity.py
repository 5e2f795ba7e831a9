"""The adaptive capacity: which rows are drawn from, and how that follows errors."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import RunFailedError
from core.memories.sequential import SequentialOptions
from core.sampling.capacity import Adaption, Adaptive
from core.sampling.uniform import all_starts
from tests.conftest import examples
from tests.oracles.test_sequential_oracle import LIVES, worlds
from tests.oracles.worlds import Twin, World

from .sampled import ids_of, memory_of, play
from .test_recent import of_window

KEYS = {"capacity_rule": "adaptive", "capacity_interval": 4, "capacity_step": 100}


@examples(15)
@given(worlds(), LIVES, st.integers(1, 40))
def test_units_come_from_the_newest_rows_that_it_says(world: World, life: bytes, rows: int) -> None:
    twin = Twin(world)
    sampler = Adaptive(twin.memory._view, world.window - 1, Adaption(3, 2))
    sampler.rows = rows
    rng = np.random.default_rng(0)

    def look() -> None:
        legal = ids_of(twin.history.units())
        if legal:
            draw = sampler.draw(twin.memory.starts, 6, rng)
            window = of_window(twin, 0.0, -(-rows // world.lanes)) or legal
            assert set(((draw.lanes << 40) | draw.rows).tolist()) <= set(window)

    twin.after_each = look
    twin.live(life)


def tell(memory, error: float, batches: int = 4) -> int:
    """Batches of units with an error each; gives the rows drawn from then on."""
    for _ in range(batches):
        ids = memory.sample(64, columns=["id"])["id"]
        memory.feedback(ids, np.full(64, error))
    return memory._kept["capacity"].rows


def test_it_grows_as_the_errors_of_the_oldest_rise_and_shrinks_as_they_fall() -> None:
    memory = memory_of(1_000, **KEYS)
    assert memory.takes_feedback
    play(memory, np.zeros(1_100), length=2_000)
    assert tell(memory, 5.0) == 1_000, "there is nothing to compare with yet"
    assert tell(memory, 4.0) == 900
    assert tell(memory, 4.0) == 800
    assert tell(memory, 4.5) == 900
    assert tell(memory, 4.0, batches=3) == 900
    assert tell(memory, 4.0, batches=1) == 800
    errors = iter(np.linspace(4, 1, 20))
    rows = [tell(memory, next(errors)) for _ in range(9)]
    assert rows == [700, 600, 500, 400, 300, 200, 100, 200, 100], "at its least it grows"
    # what was left out comes back: the ring holds it still
    assert memory.rows == 1_000
    errors = iter(np.linspace(5, 9, 20))
    assert [tell(memory, next(errors)) for _ in range(12)][-1] == 1_000
    assert memory.sample(2_000)["id"].min() < 120


def test_only_errors_of_the_oldest_count() -> None:
    memory = memory_of(1_000, **KEYS)
    play(memory, np.zeros(999), length=2_000)
    memory.sample(1)
    units = np.arange(0, 999, 9)
    for batch in range(16):  # four times a change is due; what is newer errs ever more
        memory.feedback(units, np.where(units < 100, 3.0 - batch // 4, 99.0 * batch))
    assert memory._kept["capacity"].rows == 700


@pytest.mark.parametrize("lane", [0, 1])
def test_of_two_lanes_each_has_its_half_of_the_oldest(lane: int) -> None:
    memory = memory_of(1_000, lanes=2, **KEYS)
    writer, no = memory.writer(), np.zeros(2, np.bool_)
    obs = {"obs": np.zeros(2, np.float32)}
    writer.start(obs)
    for _ in range(499):
        writer.append(np.zeros(2, int), np.zeros(2), no, no, obs)
    memory.sample(1)
    units = np.arange(0, 499, 7) + lane * 2**40
    for batch in range(16):  # the oldest 50 of the lane err ever less, all others ever more
        oldest = units % 2**40 < 50
        memory.feedback(units, np.where(oldest, 3.0 - batch // 4, 99.0 * batch))
    assert memory._kept["capacity"].rows == 700


def test_with_fewer_rows_than_a_step_it_grows() -> None:
    memory = memory_of(1_000, **KEYS)
    play(memory, np.zeros(60), length=2_000)
    assert [tell(memory, error) for error in (5.0, 4.0)] == [1_000, 161], "61 held, and a step"


def test_a_saved_one_goes_on() -> None:
    memory, other = memory_of(1_000, **KEYS), memory_of(1_000, **KEYS)
    play(memory, np.zeros(1_100), length=30)
    for error in (5.0, 4.0, 3.0):
        tell(memory, error, batches=5)
    other.load(copy.deepcopy(memory.state()))
    for one in (memory, other):
        play(one, np.zeros(50))
    for error in (3.0, 7.0, 2.0):
        assert tell(memory, error, batches=3) == tell(other, error, batches=3)
        assert (memory.sample(9)["id"] == other.sample(9)["id"]).all()


def test_what_cannot_be_is_refused() -> None:
    memory = memory_of(100, **KEYS)
    play(memory, np.zeros(50))
    ids = memory.sample(2)["id"]
    with pytest.raises(RunFailedError, match="not finite"):
        memory.feedback(ids, np.array([1.0, np.nan]))
    with pytest.raises(ValueError, match="errors"):
        memory.feedback(ids, np.zeros(3))
    memory.feedback(np.array([2**50, 7 << 40]), np.ones(2))
    assert memory.stale_feedback == 2
    assert len(all_starts(memory.starts)[0]) == len(memory)
    with pytest.raises(ValueError, match="capacity_step with capacity_rule adaptive alone"):
        SequentialOptions(capacity_step=7)
    with pytest.raises(ValueError, match="adaptive with sampler uniform alone"):
        SequentialOptions(capacity_rule="adaptive", sampler="recent")
