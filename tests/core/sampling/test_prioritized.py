"""Prioritized draws: what can be drawn, how often, with which weight, and what errors change."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import CorruptMemoryError, RunFailedError, UsageError
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.sampling.layout import SampledPlan, tree_bytes
from core.sampling.prioritized import EPSILON, Exponents, Prioritized
from core.sampling.statistics import use_bytes
from core.sampling.uniform import Draw, all_starts
from core.types import ArraySpec, DiscreteActions, EnvSpec
from tests.conftest import examples
from tests.oracles import test_episodic_oracle as episodic
from tests.oracles.episodic_history import EpisodicTwin
from tests.oracles.test_sequential_oracle import LIVES, SHORT, small_blocks, tight_worlds, worlds
from tests.oracles.worlds import CODES, STEP, TERMINATE, WAIT, Twin, World

NUMBER = EnvSpec({"obs": ArraySpec((), np.dtype(np.float32))}, DiscreteActions(2))
PRIORITIZED = {"sampler": "prioritized"}


def ids_of(units) -> list[int]:
    return [unit.lane * 2**40 + unit.row for unit in units]


def drawable(sampler: Prioritized) -> dict[int, float]:
    """The units that weigh anything, by id, with their priorities."""
    slots = np.flatnonzero(sampler._tree.leaves > 0)
    per_lane = sampler._ring.plan.rows_per_lane
    lanes = slots // per_lane
    rows = sampler._lows[lanes] + (slots - sampler._lows[lanes]) % per_lane
    return dict(
        zip(((lanes << 40) | rows).tolist(), sampler._tree.leaves[slots].tolist(), strict=True)
    )


class Watched:
    """A twin whose memory is prioritized, with a slow twin of its priorities: one by unit."""

    def __init__(self, twin: Twin, sampler: Prioritized, seed: int) -> None:
        self.twin, self.sampler = twin, sampler
        self.rng = np.random.default_rng(seed)
        self.priorities: dict[int, float] = {}
        self.ever = [0]
        self.stale = 0

    def look(self) -> None:
        """Draws now and then, tells errors of whatever was ever there, and compares."""
        if self.rng.random() < 0.5:
            return
        legal = ids_of(self.twin.history.units())
        greatest = max(self.priorities.values(), default=1.0)
        starts = self.twin.memory.starts
        if not legal:
            with pytest.raises(ValueError, match="nothing that can be sampled"):
                self.sampler.draw(starts, 3, self.rng)
        else:
            draw = self.sampler.draw(starts, 5, self.rng)
            assert set(((draw.lanes << 40) | draw.rows).tolist()) <= set(legal)
        self.priorities = {unit: self.priorities.get(unit, greatest) for unit in legal}
        assert drawable(self.sampler) == pytest.approx(self.priorities, rel=1e-12)
        self.sampler.check()
        self.ever = sorted(set(self.ever) | set(legal))[-60:]
        self.tell()

    def tell(self) -> None:
        """Errors of units that are there, that were, and that never were."""
        units = self.rng.choice([*self.ever, 2**60, 999], 6)
        errors = self.rng.normal(0, 5, 6)
        self.sampler.feedback(units, errors)
        for unit, error in zip(units.tolist(), errors.tolist(), strict=True):
            if unit in self.priorities:
                self.priorities[unit] = (abs(error) + EPSILON) ** 0.6
            else:
                self.stale += 1
        assert self.sampler.stale == self.stale


def watch(world: World, life: bytes, seed: int) -> None:
    twin = Twin(world)
    watched = Watched(twin, prioritized(twin.memory, world.window), seed)
    twin.after_each = watched.look
    if world.room is not None:
        follow = twin.memory._ring

        def look() -> None:
            for lane, tail in enumerate(follow.tails.tolist()):
                twin.history.floor[lane] = tail
            watched.look()

        twin.after_each = look
    twin.live(life)
    watched.rng = np.random.default_rng(1)
    watched.look()


def prioritized(memory, window: int) -> Prioritized:
    return Prioritized(memory.ring, window - 1, Exponents(0.6, 0.4), lambda: 0.0)


@examples(60)
@given(worlds(), LIVES, st.integers(0, 99))
def test_what_is_legal_can_be_drawn_and_nothing_else(world: World, life: bytes, seed: int) -> None:
    watch(world, life, seed)


@examples(30)
@given(tight_worlds(), LIVES, st.integers(0, 99))
def test_also_where_the_tail_moves_by_chunks(world: World, life: bytes, seed: int) -> None:
    with small_blocks():
        watch(world, life, seed)


@examples(30)
@given(episodic.worlds(), LIVES, st.integers(0, 99))
def test_also_where_episodes_go_as_a_whole(world: World, life: bytes, seed: int) -> None:
    twin = EpisodicTwin(world)
    watched = Watched(twin, prioritized(twin.memory, world.window), seed)
    twin.after_each = watched.look
    twin.live(life)


@examples(30)
@given(worlds(), LIVES, SHORT, st.sampled_from(["heap", "shared"]))
def test_a_prioritized_memory_gives_what_happened(
    world: World, life: bytes, after: bytes, storage: str
) -> None:
    twin = Twin(replace(world, storage=storage, **PRIORITIZED))
    twin.live(life, check_every=9)
    if not len(twin.memory):
        return
    batch = twin.memory.sample(20)
    units = {unit.lane * 2**40 + unit.row: unit for unit in twin.history.units()}
    for place, unit in enumerate(batch["id"].tolist()):
        wanted = twin.history.expected(units[unit])
        for name in wanted.keys() - {"weight"}:
            assert (batch[name][place] == wanted[name]).all()
    twin.memory.feedback(batch["id"], np.arange(20.0))
    saved = copy.deepcopy(twin.memory.state())
    other = Twin(twin.world)
    other.memory.load(saved)
    other.history = copy.deepcopy(twin.history)
    other.go_on_as(twin)
    other.renew()
    for one in (twin, other):
        one.live(after)
    for _ in range(3):
        if not len(twin.memory):
            break
        first, second = twin.memory.sample(9), other.memory.sample(9)
        assert all((first[name] == second[name]).all() for name in first)
        for memory in (twin.memory, other.memory):
            memory.feedback(first["id"], np.linspace(-9, 2, 9))
    state, resumed = twin.memory.own_state(), other.memory.own_state()
    assert state["sampler"]["values"].tobytes() == resumed["sampler"]["values"].tobytes()


def memory_of(limit: int, *, lanes: int = 1, progress=lambda: 0.0, seed: int = 0, **options):
    """A memory of numbers, and its writer, with an episode begun in every lane."""
    shared = SharedOptions(num_envs=lanes)
    context = MemoryContext(NUMBER, shared, np.random.default_rng(seed), progress=progress)
    own = SequentialOptions(memory_limit=limit, sampler="prioritized", **options)
    memory = SequentialMemory(own, context)
    writer = memory.writer()
    writer.start({"obs": np.zeros(lanes, np.float32)})
    return memory, writer


def step(writer, lanes: list[int], count: int = 1, last: bool = False) -> None:
    size, no = len(lanes), np.zeros(len(lanes), np.bool_)
    for _ in range(count):
        obs = {"obs": np.zeros(size, np.float32)}
        writer.append(
            np.zeros(size, int), np.zeros(size), no | last, no, obs, lanes=np.array(lanes)
        )


def test_draws_follow_priorities_over_uneven_lanes() -> None:
    memory, writer = memory_of(300, lanes=3)
    step(writer, [0], 90)
    step(writer, [1], 3)
    step(writer, [0, 2], 40)  # the first lane has lost rows
    units = np.array(sorted(legal_ids(memory)))
    memory.sample(1)
    errors = np.random.default_rng(2).exponential(1, len(units)) ** 2
    memory.feedback(units, errors)
    chance = (errors + EPSILON) ** 0.6
    chance /= chance.sum()
    draws = 50_000
    drawn = np.concatenate([memory.sample(50, columns=["id"])["id"] for _ in range(draws // 50)])
    counts = np.bincount(np.searchsorted(units, drawn), minlength=len(units))
    assert set(drawn.tolist()) <= set(units.tolist())
    chi = ((counts - draws * chance) ** 2 / (draws * chance)).sum()
    assert chi < chi_bound(len(units) - 1)


def legal_ids(memory: SequentialMemory) -> list[int]:
    lanes, rows = all_starts(memory.starts)
    return ((lanes << 40) | rows).tolist()


def chi_bound(degrees: int) -> float:
    """Passed with p < 0.001 by chance: Wilson and Hilferty's cube root at 3.09 deviations."""
    spread = 2 / (9 * degrees)
    return degrees * (1 - spread + 3.09 * math.sqrt(spread)) ** 3


def test_a_draw_is_stratified() -> None:
    memory, writer = memory_of(70)
    step(writer, [0], 64)
    for _ in range(20):  # of equal ones, each comes in its own part of the mass
        assert memory.sample(64)["id"].tolist() == list(range(64))
        assert (memory.sample(32)["id"] // 2).tolist() == list(range(32))


def test_weighted_means_are_those_of_all_alike() -> None:
    over = [1.0]
    memory, writer = memory_of(60, progress=lambda: over[0])
    step(writer, [0], 50)
    rng = np.random.default_rng(3)
    errors, values = rng.exponential(3, 50), rng.normal(10, 5, 50)
    memory.sample(1)
    memory.feedback(np.arange(50), errors)
    priority = (errors + EPSILON) ** 0.6
    total = 0.0
    for _ in range(4_000):
        batch = memory.sample(8)
        # the greatest weight is known, so that what was divided by comes back
        least = priority[batch["id"]].min()
        weight = batch["weight"] * (priority.sum() / 50 / least)
        total += (weight * values[batch["id"]]).mean()
    assert total / 4_000 == pytest.approx(values.mean(), rel=0.01)


@pytest.mark.parametrize(("share", "beta"), [(0.0, 0.4), (0.5, 0.7), (1.0, 1.0), (1.7, 1.0)])
def test_weights_by_hand(share: float, beta: float) -> None:
    memory, writer = memory_of(10, progress=lambda: share, priority_exponent=0.5)
    step(writer, [0], 3)
    memory.sample(1)
    memory.feedback(np.arange(3), np.array([1.0, 4.0, -9.0]) - np.array([1, 1, -1]) * EPSILON)
    batch = memory.sample(600)
    assert batch["weight"].dtype == np.float32
    counts = np.bincount(batch["id"])
    assert counts.tolist() == pytest.approx([100, 200, 300], abs=1)
    wanted = np.array([1.0, 1 / 2, 1 / 3]) ** beta
    np.testing.assert_allclose(batch["weight"], wanted[batch["id"]], rtol=1e-6)
    # without the least of them, the greatest weight is another's
    memory.feedback(np.array([0]), np.array([1e6]))
    assert memory.sample(100)["weight"].max() == 1


def test_without_exponents_all_are_alike() -> None:
    memory, writer = memory_of(10, priority_exponent=0.0, importance_exponent=0.0)
    step(writer, [0], 4)
    memory.sample(1)
    memory.feedback(np.arange(4), np.array([0.0, 1, 100, 1e9]))
    batch = memory.sample(400)
    assert np.bincount(batch["id"]).tolist() == [100] * 4
    assert (batch["weight"] == 1).all()


def test_new_units_get_the_greatest_there_is() -> None:
    memory, writer = memory_of(10)
    sampler = memory._priorities
    step(writer, [0], 2)
    memory.sample(1)
    assert drawable(sampler) == {0: 1.0, 1: 1.0}  # as long as nothing is known
    memory.feedback(np.array([0, 1]), np.array([32.0, 1e-3]))
    step(writer, [0], 1)
    memory.sample(1)
    assert drawable(sampler)[2] == pytest.approx(8, rel=1e-6)
    memory.feedback(np.array([0, 2]), np.array([1.0, 1.0]))  # the greatest falls, too
    step(writer, [0], 1)
    memory.sample(1)
    assert drawable(sampler)[3] == pytest.approx(1, rel=1e-5)


def test_of_two_errors_of_a_unit_the_later_counts() -> None:
    memory, writer = memory_of(10)
    step(writer, [0], 3)
    memory.sample(1)
    memory.feedback(np.array([1, 0, 1, 1]), np.array([5.0, 2.0, 7.0, 1.0]))
    assert drawable(memory._priorities) == pytest.approx({0: 2**0.6, 1: 1, 2: 1}, rel=1e-5)


def test_errors_that_come_too_late_are_counted_and_change_nothing() -> None:
    memory, writer = memory_of(6)
    step(writer, [0], 5)
    batch = memory.sample(5)
    assert batch["id"].tolist() == [0, 1, 2, 3, 4]
    step(writer, [0], 2)  # two rows went, unseen by the sampler
    memory.feedback(batch["id"], np.full(5, 3.0))
    assert memory.stale_feedback == 2
    memory.sample(1)
    found = drawable(memory._priorities)
    assert sorted(found) == [2, 3, 4, 5, 6]
    assert found[6] == pytest.approx(3**0.6, rel=1e-5)
    memory.feedback(np.array([7, 1 << 40, -1, 0]), np.full(4, 9.0))  # never drawn, no lane
    assert memory.stale_feedback == 6
    assert drawable(memory._priorities) == found


def test_a_ring_loaded_anew_is_looked_at_anew() -> None:
    memory, writer = memory_of(20)
    step(writer, [0], 12)
    memory.sample(1)
    memory.feedback(np.arange(12), np.arange(12.0))
    other, writer = memory_of(20)
    step(writer, [0], 5)
    memory.ring.load(copy.deepcopy(other.ring.state()))
    memory.feedback(np.array([3]), np.array([50.0]))  # of what was there before
    assert memory.stale_feedback == 1
    memory.sample(1)
    assert drawable(memory._priorities) == dict.fromkeys(range(5), 1.0)
    memory.check()


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e39])
def test_what_is_no_finite_error_is_refused_whole(wrong: float) -> None:
    memory, writer = memory_of(10)
    step(writer, [0], 3)
    memory.sample(1)
    before = drawable(memory._priorities)
    with pytest.raises(RunFailedError, match="error of unit 2 is not finite"):
        memory.feedback(np.array([0, 2]), np.array([1.0, wrong]))
    assert drawable(memory._priorities) == before
    memory.check()
    with pytest.raises(ValueError, match="errors"):
        memory.feedback(np.array([0, 2]), np.array([[1.0, 2.0]]))


def test_the_greatest_errors_there_are_leave_a_finite_sum() -> None:
    memory, writer = memory_of(100, priority_exponent=1.0)
    step(writer, [0], 90)
    memory.sample(1)
    memory.feedback(np.arange(90), np.full(90, np.finfo(np.float32).max))
    memory.check()
    assert set(memory.sample(90)["id"].tolist()) == set(range(90))


class Turns:
    """Starts as a view shows them while others write: the tail of it comes and goes."""

    def __init__(self, starts, lows: np.ndarray) -> None:
        self._starts, self.lows = starts, lows

    def spans(self):
        lows, counts = self._starts.spans()
        moved = np.maximum(lows, self.lows)
        return moved, np.maximum(lows + counts - moved, 0)

    def legal(self, lanes, rows):
        legal = self._starts.legal(lanes, rows)
        # a stack that needs rows before the tail of the view is not whole
        reach = np.minimum(self._starts._ring.gather("age", self._starts._ring.where(lanes, rows)),
                           self._starts._reach)  # fmt: skip
        return legal & (rows - reach >= np.maximum(self.lows, 0)[lanes])


@examples(40)
@given(worlds(), LIVES, st.integers(0, 99))
def test_rows_that_are_left_out_for_a_while_keep_their_priorities(
    world: World, life: bytes, seed: int
) -> None:
    twin, rng = Twin(world), np.random.default_rng(seed)
    sampler = prioritized(twin.memory, world.window)
    known: dict[int, float] = {}

    def look() -> None:
        ring = twin.memory.ring
        lows = ring.tails + rng.integers(0, 4, len(ring.tails))
        starts = Turns(twin.memory.starts, np.minimum(lows, np.maximum(ring.heads - 1, 0)))
        lanes, rows = all_starts(starts)
        legal = ((lanes << 40) | rows).tolist()
        greatest = max(drawable(sampler).values(), default=1.0)
        if legal:
            sampler.draw(starts, 3, rng)
        else:
            with pytest.raises(ValueError, match="nothing"):
                sampler.draw(starts, 3, rng)
        for unit in legal:
            known.setdefault(unit, greatest)
        assert drawable(sampler) == pytest.approx({unit: known[unit] for unit in legal}, rel=1e-12)
        for unit in legal[:2]:
            known[unit] = (rng.exponential() + EPSILON) ** 0.6
            sampler.feedback(np.array([unit]), np.array([known[unit] ** (1 / 0.6) - EPSILON]))

    twin.after_each = look
    twin.live(life)


def test_rows_that_came_unseen_have_nothing_of_those_before_them_in_their_slots() -> None:
    memory, writer = memory_of(8)
    sampler, rng = memory._priorities, np.random.default_rng(0)
    step(writer, [0], 6)
    memory.sample(1)
    memory.feedback(np.arange(6), np.array([32.0, 1, 1, 1, 1, 1]))
    step(writer, [0], 20)  # rows 19 to 26 are held
    sampler.draw(Turns(memory.starts, np.array([23])), 1, rng)
    assert drawable(sampler) == pytest.approx(dict.fromkeys(range(23, 26), 8.0), rel=1e-5)
    sampler.draw(memory.starts, 1, rng)
    assert drawable(sampler) == pytest.approx(dict.fromkeys(range(19, 26), 8.0), rel=1e-5)


def test_a_read_that_fails_changes_nothing_and_can_be_repeated() -> None:
    memory, writer = memory_of(10)
    step(writer, [0], 4)
    starts, sampler = memory.starts, memory._priorities

    class Torn:
        spans = starts.spans

        def legal(self, lanes, rows):
            raise IndexError

    with pytest.raises(IndexError):
        sampler.draw(Torn(), 2, np.random.default_rng(0))
    assert drawable(sampler) == {}
    memory.sample(1)
    assert sorted(drawable(sampler)) == [0, 1, 2, 3]


def test_what_changed_is_told_and_can_be_put_back() -> None:
    memory, writer = memory_of(8)
    sampler = memory._priorities
    step(writer, [0], 5)
    memory.sample(1)
    twin = np.zeros(8)
    for seed in range(6):
        slots, values = sampler.changed()
        assert slots.dtype == np.int64 and values.dtype == np.float64
        twin[slots] = values
        assert (twin == sampler._tree.leaves).all()
        memory.feedback(memory.sample(3)["id"], np.random.default_rng(seed).normal(size=3))
        step(writer, [0], 2)
        memory.sample(1)
    assert len(sampler.changed()[0]) > 0
    assert len(sampler.changed()[0]) == 0
    other, _ = memory_of(8)
    other.load(copy.deepcopy(memory.state()))
    assert len(other._priorities.changed()[0]) == 0
    other._priorities.restore(sampler._tree.leaves * 2)
    assert drawable(other._priorities) == {u: 2 * p for u, p in drawable(sampler).items()}
    with pytest.raises(ValueError, match="finite priorities"):
        other._priorities.restore(np.zeros(3))


def test_check_names_a_slot_that_holds_no_unit() -> None:
    memory, writer = memory_of(10)
    step(writer, [0], 4)
    memory.sample(1)
    memory.check()
    memory._priorities._tree.put(np.array([4]), np.array([1.0]))
    with pytest.raises(CorruptMemoryError, match="slot 4"):
        memory.check()


def test_nothing_is_drawn_where_there_is_nothing_and_nothing_of_nothing() -> None:
    memory, writer = memory_of(10)
    with pytest.raises(ValueError, match="nothing that can be sampled"):
        memory.sample(1)
    step(writer, [0], 1)
    assert memory.sample(3)["id"].tolist() == [0, 0, 0]
    draw = memory._priorities.draw(memory.starts, 0, np.random.default_rng(0))
    assert isinstance(draw, Draw) and draw.weight.shape == (0,)


def test_who_takes_feedback() -> None:
    memory, _ = memory_of(10)
    assert memory.takes_feedback
    uniform = SequentialMemory(
        SequentialOptions(memory_limit=10),
        MemoryContext(NUMBER, SharedOptions(), np.random.default_rng(0)),
    )
    assert not uniform.takes_feedback
    uniform.feedback(np.array([0]), np.array([np.nan]))  # nobody listens
    assert uniform.stale_feedback == 0


@pytest.mark.parametrize("key", ["priority_exponent", "importance_exponent"])
def test_keys_that_do_nothing_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match=f"{key} with sampler prioritized alone"):
        SequentialOptions(**{key: 0.5})
    default = SequentialOptions.model_fields[key].default
    SequentialOptions(**{key: default})
    SequentialOptions(**{key: 0.5}, sampler="prioritized")


# what it takes


def plan_of(rows: int, lanes: int = 2, shape: tuple[int, ...] = (), **options) -> SampledPlan:
    env = EnvSpec({"obs": ArraySpec(shape, np.dtype(np.uint8))}, DiscreteActions(2))
    context = MemoryContext(env, SharedOptions(num_envs=lanes), np.random.default_rng(0))
    own = SequentialOptions(memory_limit=rows, sampler="prioritized", **options)
    return SequentialMemory.plan(own, context)


@pytest.mark.parametrize("shape", [(), (40, 40)])
def test_the_plan_counts_the_tree_to_the_byte(shape: tuple[int, ...]) -> None:
    with_tree = plan_of(1_000, shape=shape)
    assert isinstance(with_tree, SampledPlan)
    plain = with_tree.__class__.__mro__[1](with_tree.columns, 2, 500)
    beside = tree_bytes(1_000) + use_bytes(1_000)
    for name in ("bytes_full", "bytes_low", "bytes_high"):
        assert getattr(with_tree, name) == getattr(plain, name) + beside
    assert dict(with_tree.tiers) == {"heap": with_tree.bytes_full}


def test_a_bound_on_bytes_bounds_the_tree_too() -> None:
    for bound in (1_000, 4_321, 9_999, 20_000):
        plan = plan_of(1_000, memory_bytes=bound)
        assert plan.bytes_high <= bound < plan.bytes_for(plan.rows_per_lane + 1)
        assert plan.bytes_for(plan.rows_per_lane) == plan.bytes_high
    assert plan_of(1_000, memory_bytes=10**6).rows_per_lane == 500
    with pytest.raises(UsageError, match="memory_bytes"):
        plan_of(1_000, memory_bytes=100)
    frames = plan_of(4_000, shape=(40, 40), memory_bytes=3_000_000)
    assert 2_800_000 < frames.bytes_high <= 3_000_000


@pytest.mark.parametrize("storage", ["heap", "shared", "disk"])
def test_usage_is_what_was_planned(storage: str) -> None:
    twins = [
        Twin(World(lanes=2, capacity=40, storage=storage, sampler=sampler))
        for sampler in ("uniform", "prioritized")
    ]
    for twin in twins:
        for _ in range(60):
            twin.tick([STEP, TERMINATE])
    plain, own = (twin.memory.usage() for twin in twins)
    tree = tree_bytes(40)
    assert own == {**plain, "heap": plain.get("heap", 0) + tree}
    plain, own = (dict(twin.memory.ring.plan.tiers) for twin in twins)
    assert own == {**plain, "heap": plain["heap"] + tree}
    if storage == "heap":
        memory = twins[1].memory
        assert sum(memory.usage().values()) == memory.bytes_full == memory.ring.plan.bytes_high


def test_waiting_lanes_are_nothing_to_draw() -> None:
    twin = Twin(World(lanes=3, capacity=30, sampler="prioritized"))
    for code in (STEP, STEP, STEP):
        twin.tick([code, WAIT, WAIT])
    assert set(twin.memory.sample(40)["id"].tolist()) == {0, 1, 2}
    assert CODES.count(STEP) > 1
