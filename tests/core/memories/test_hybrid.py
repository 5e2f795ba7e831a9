"""HybridMemory: both units against their slow twins, over one store."""

import copy
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.memories.episodic import EpisodicMemory, EpisodicOptions
from core.memories.hybrid import HybridMemory, HybridOptions
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.sampling.uniform import Draw, all_starts
from core.types import Unit
from tests.conftest import examples
from tests.core.sampling.sampled import NUMBER, play
from tests.oracles.compare import assert_same
from tests.oracles.episodic_history import EpisodicHistory, assert_windows, plain
from tests.oracles.history import History
from tests.oracles.test_sequential_oracle import LIVES, worlds
from tests.oracles.worlds import EXTRAS, Twin, World

LENGTH = 3


class HybridHistory(History):
    """Everything that ever happened, read as transitions and as windows."""

    def __init__(self, world: World) -> None:
        arguments = (world.lanes, world.capacity, world.window)
        super().__init__(*arguments, world.n_step, world.gamma)
        self.other = EpisodicHistory(*arguments, LENGTH, world.gamma)
        self.other.episodes = self.episodes
        self.other.oldest = self.oldest  # rows go one by one


@dataclass(frozen=True)
class HybridWorld(World):
    """What a hybrid memory is made for."""

    def memory(self) -> HybridMemory:
        shared = SharedOptions(
            window_length=self.window, n_step=self.n_step, gamma=self.gamma, num_envs=self.lanes,
            trajectory_length=LENGTH,
        )  # fmt: skip
        options = HybridOptions(
            memory_limit=self.capacity, frame_codec=self.codec, chunk_frames=self.chunk_frames,
            float_frames="keep" if self.keep_floats else "exact", storage=self.storage,
            sampler=self.sampler,
        )  # fmt: skip
        rng = np.random.default_rng(self.seed)
        return HybridMemory(options, MemoryContext(self.env, shared, rng, EXTRAS[self.extras]))

    def history(self) -> HybridHistory:
        return HybridHistory(self)


class HybridTwin(Twin):
    """A hybrid memory and its slow twins."""

    def agree(self) -> None:
        memory, history = self.memory, self.history
        assert_same(memory, history)
        other = history.other
        assert [plain(x) for x in memory.episodes()] == [plain(x) for x in other.summaries()]
        newest = other.newest()
        if newest:
            units, most = [unit for unit, _ in newest], [steps for _, steps in newest]
            assert_windows(memory.latest(), other.windows(units, most))
        lanes, rows = all_starts(memory.starts)
        if len(rows):
            draw = Draw(lanes, rows, np.ones(len(rows), np.float32))
            assert_windows(memory.windows.read(draw), other.windows(history.units()))


def of(world: World) -> HybridWorld:
    names = set(World.__dataclass_fields__) - {"capacity"}
    room = world.lanes * (LENGTH + world.window)
    return HybridWorld(
        capacity=max(world.capacity, room), **{name: getattr(world, name) for name in names}
    )


@examples(25)
@given(worlds(), LIVES, st.sampled_from(["heap", "shared"]))
def test_both_units_are_what_happened(world: World, life: bytes, storage: str) -> None:
    twin = HybridTwin(of(world))
    object.__setattr__(twin.world, "storage", storage)
    twin.memory = twin.world.memory()
    twin.renew()
    twin.live(life, check_every=13)


def make(unit: Unit | None = None, **options) -> HybridMemory:
    shared = SharedOptions(trajectory_length=4, n_step=2, gamma=0.5)
    context = MemoryContext(NUMBER, shared, np.random.default_rng(0), unit=unit)
    return HybridMemory(HybridOptions(memory_limit=60, **options), context)


def same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)


def test_the_context_says_which_unit_is_sampled() -> None:
    assert HybridMemory.given({Unit.TRAJECTORIES}) is Unit.TRAJECTORIES
    assert HybridMemory.given({Unit.TRANSITIONS, Unit.TRAJECTORIES}) is Unit.TRANSITIONS
    assert HybridMemory.given({Unit.PARAMETERS}) is None
    assert SequentialMemory.given({Unit.TRAJECTORIES}) is None
    memories = [make(), make(Unit.TRANSITIONS), make(Unit.TRAJECTORIES)]
    for memory in memories:
        play(memory, np.arange(50), length=7)
    by_none, transitions, windows = memories
    drawn = [by_none.sample(9), transitions.sample(9), windows.sample(9)]
    assert same(drawn[0], drawn[1])
    assert drawn[0]["reward"].shape == (9,) and drawn[2]["reward"].shape == (4, 9)
    assert (drawn[0]["id"] == drawn[2]["id"]).all(), "either begins where the sampler says"
    assert same(windows.sample(9), transitions.trajectories(9))


@pytest.mark.parametrize("sampler", ["uniform", "balanced", "recent"])
def test_until_it_is_full_its_windows_are_those_of_an_episodic_memory(sampler: str) -> None:
    shared = SharedOptions(trajectory_length=4)
    kinds = (HybridMemory, HybridOptions), (EpisodicMemory, EpisodicOptions)
    memories = [
        kind(
            options(memory_limit=60, sampler=sampler, burn_in=1),
            MemoryContext(NUMBER, shared, np.random.default_rng(3), unit=Unit.TRAJECTORIES),
        )
        for kind, options in kinds
    ]
    for memory in memories:
        play(memory, np.random.default_rng(0).choice([0, 1, -1], 50), length=7)
    one, other = memories
    for _ in range(5):
        assert same(one.sample(9), other.sample(9))
        assert same(one.latest(), other.latest())
    assert same(one.sample(9, columns=["obs", "mask"]), other.sample(9, columns=["obs", "mask"]))


def test_windows_are_read_ahead_too() -> None:
    plain, ahead = make(Unit.TRAJECTORIES), make(Unit.TRAJECTORIES, prefetch=2)
    for memory in (plain, ahead):
        play(memory, np.arange(50), length=7)
    for _ in range(5):
        assert same(plain.sample(9), ahead.sample(9))


@examples(25)
@given(st.integers(0, 99), st.integers(1, 3), LIVES, st.sampled_from(["heap", "shared"]))
def test_windows_by_priority_stay_within_an_episode_in_a_full_ring_too(
    seed: int, lanes: int, life: bytes, storage: str
) -> None:
    # pytorch/rl#2208, #1969, #2193: prioritized slices cross trajectories, or break at capacity
    world = HybridWorld(
        lanes=lanes, window=2, capacity=lanes * 9, seed=seed, storage=storage,
        sampler="prioritized",
    )  # fmt: skip
    twin = HybridTwin(world)

    def look() -> None:
        units = {unit.lane * 2**40 + unit.row: unit for unit in twin.history.units()}
        if not units:
            return
        batch = twin.memory.trajectories(4)
        drawn = [units[unit] for unit in batch["id"].tolist()]
        wanted = twin.history.other.windows(drawn)
        assert_windows(batch, {**wanted, "weight": batch["weight"]})
        twin.memory.feedback(batch["id"], batch["reward"][0])
        twin.memory.check()

    twin.after_each = look
    twin.live(life)


def test_in_a_full_ring_windows_begin_as_often_as_priorities_say() -> None:
    memory = make(Unit.TRAJECTORIES, sampler="prioritized", priority_exponent=1.0)
    play(memory, np.arange(500), length=7)
    assert memory.full
    _, rows = all_starts(memory.starts)
    memory.sample(1)
    memory.feedback(rows, (rows % 5 + 1).astype(float))
    batches = [memory.sample(50) for _ in range(400)]
    drawn = np.concatenate([batch["id"] for batch in batches])
    chance = (rows % 5 + 1) / (rows % 5 + 1).sum()
    counts = np.array([(drawn == row).sum() for row in rows])
    assert counts.sum() == len(drawn), "nothing but legal starts"
    assert np.abs(counts / len(drawn) - chance).max() < 0.004
    for batch in batches[:20]:
        steps, there = batch["reward"], batch["mask"]
        assert (there[1:] <= there[:-1]).all(), "padding is to the right"
        assert (np.diff(steps, axis=0)[there[1:]] == 1).all()
        assert (np.ptp(np.where(there, steps // 7, steps[0] // 7), axis=0) == 0).all()


def test_trajectories_are_drawn_and_read_as_asked() -> None:
    memory = make(burn_in=1)
    play(memory, np.arange(50), length=7)
    transitions, windows = memory.sample(40), memory.trajectories(40)
    assert transitions["obs"].shape == (40, 1)
    assert windows["obs"].shape == (6, 40, 1)
    legal = set(all_starts(memory.starts)[1].tolist())
    assert set(windows["id"].tolist()) <= legal
    # rows and steps of episodes of 7: a window's first reward names its row
    first = windows["reward"][1]
    assert (windows["id"] == first + first // 7).all()
    assert set(memory.trajectories(3, columns=["mask"])) == {"mask"}
    out = {name: np.zeros_like(array) for name, array in windows.items()}
    assert memory.trajectories(40, out=out)["obs"] is out["obs"]


def test_errors_of_either_unit_change_what_is_drawn_of_both() -> None:
    memory = make(sampler="prioritized", priority_exponent=1.0)
    play(memory, np.arange(50), length=100)
    memory.sample(1)
    memory.feedback(np.arange(50), np.where(np.arange(50) == 9, 1e3, 0.0))
    assert set(memory.sample(30)["id"].tolist()) == {9}
    assert set(memory.trajectories(30)["id"].tolist()) == {9}


def test_a_saved_one_goes_on_with_both() -> None:
    memory, other = make(), make()
    play(memory, np.arange(50), length=7)
    memory.trajectories(3)
    other.load(copy.deepcopy(memory.state()))
    for _ in range(3):
        for name in ("sample", "trajectories"):
            one, two = getattr(memory, name)(9), getattr(other, name)(9)
            assert all((one[column] == two[column]).all() for column in one)


def test_it_takes_what_one_memory_takes() -> None:
    shared = SharedOptions(trajectory_length=4)
    context = MemoryContext(NUMBER, shared, np.random.default_rng(0))
    one = HybridMemory.plan(HybridOptions(memory_limit=500), context)
    assert (
        one.bytes_full
        == SequentialMemory.plan(SequentialOptions(memory_limit=500), context).bytes_full
    )
