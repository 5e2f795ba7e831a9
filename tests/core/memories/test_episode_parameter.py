"""EpisodeParameterMemory: generations, returns, what is kept of them and what that costs."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import CorruptMemoryError
from core.memories.episode_parameter import EpisodeParameterMemory, EpisodeParameterOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.parameters.kept import RECORD, candidate_id
from core.types import ArraySpec, DiscreteActions, EnvSpec, Unit
from tests.conftest import examples
from tests.core.parameters.candidates import (
    copied,
    episode,
    generation,
    play,
    rewards,
    same,
    step,
    total,
)

ENV = EnvSpec({"obs": ArraySpec((1,), np.dtype(np.float32))}, DiscreteActions(2))
KINDS = ["seeds", "copies", "float16"]
SIZE = 5
RESULT_BYTES = 24


def make(
    remember: str = "seeds",
    *,
    limit: int = 100,
    generations: int = 4,
    lanes: int = 1,
    size: int = SIZE,
    seed: int = 0,
) -> EpisodeParameterMemory:
    options, context = arguments(remember, limit, generations, lanes, size, seed)
    return EpisodeParameterMemory(options, context)


def arguments(remember: str, limit: int, generations: int, lanes: int, size: int, seed: int = 0):
    options = EpisodeParameterOptions(
        memory_limit=limit, remember=remember, generations=generations
    )
    shared = SharedOptions(num_envs=lanes)
    rng = np.random.default_rng(seed)
    return options, MemoryContext(ENV, shared, rng, parameters=size)


def judged(memory, numbers=range(3), *, lanes: int = 1, count: int = 6, judge=rewards) -> list:
    """Plays generations one after the other; gives their returns."""
    writer, found = memory.writer(), []
    for number in numbers:
        some = generation(number, count=count, size=SIZE)
        memory.begin(some)
        assert memory.finished() is None
        play(writer, some, lanes, judge)
        found.append(memory.finished())
    return found


def everything(memory: EpisodeParameterMemory) -> dict[str, np.ndarray]:
    return memory._kept.batch(memory._kept.slots)


def test_it_gives_parameters_and_is_always_ready() -> None:
    assert EpisodeParameterMemory.gives is Unit.PARAMETERS
    memory = make(limit=7)
    # it is the agent that begins: waiting for candidates would wait for ever
    assert memory.ready(10**9)
    assert (len(memory), memory.rows, memory.capacity, memory.full) == (0, 0, 7, False)
    for call in (lambda: memory.sample(1), lambda: memory.sample(3, columns=["id"])):
        with pytest.raises(ValueError, match="nothing that can be sampled"):
            call()
    assert len(memory.compare()) == 0
    memory.check()


@pytest.mark.parametrize("lanes", [1, 3, 8])
@pytest.mark.parametrize("remember", KINDS)
def test_the_lanes_that_candidates_played_in_leave_no_trace(remember: str, lanes: int) -> None:
    one, many = make(remember, limit=15), make(remember, limit=15, lanes=lanes)
    first = judged(one)
    found = judged(many, lanes=lanes)
    for number in range(3):
        wanted = np.array([total(rewards(number, index)) for index in range(6)])
        assert first[number].tobytes() == found[number].tobytes() == wanted.tobytes()
    assert same(everything(one), everything(many))
    assert one.compare().tobytes() == many.compare().tobytes()
    assert same(one.sample(50), many.sample(50))
    assert same(one.elites(5), many.elites(5))
    many.check()


@examples(40)
@given(
    count=st.integers(2, 12),
    lanes=st.lists(st.integers(1, 9), min_size=2, max_size=2),
    limit=st.integers(12, 40),
    generations=st.integers(1, 4),
    remember=st.sampled_from(KINDS),
    seed=st.integers(0, 10**6),
)
def test_what_is_kept_follows_from_what_was_earned(
    count: int, lanes: list[int], limit: int, generations: int, remember: str, seed: int
) -> None:
    def judge(number: int, index: int) -> list[float]:
        rng = np.random.default_rng((seed, number, index))
        earned = np.round(rng.normal(size=rng.integers(1, 6)), 1)
        if rng.random() < 0.15:
            earned[-1] = [np.nan, np.inf, -np.inf][rng.integers(3)]
        return earned.tolist()

    numbers = range(5)
    sums = {(n, i): total(judge(n, i)) for n in numbers for i in range(count)}
    finite = [key for key, earned in sums.items() if np.isfinite(earned)]
    newest = max((number for number, _ in finite), default=0)
    if remember != "copies":
        finite = [key for key in finite if key[0] > newest - generations]
    kept = finite[-limit:]
    for number_of_lanes in lanes:
        memory = make(remember, limit=limit, generations=generations, lanes=number_of_lanes)
        judged(memory, numbers, lanes=number_of_lanes, count=count, judge=judge)
        memory.check()
        found = everything(memory) if len(memory) else {"id": np.zeros(0, np.int64)}
        assert found["id"].tolist() == [candidate_id(*key) for key in kept]
        assert memory.dropped == sum(not np.isfinite(earned) for earned in sums.values())
        assert memory.rows == len(memory) == len(kept)
        ranked = sorted(kept, key=lambda key: (-sums[key], key))
        assert memory.compare()["id"].tolist() == [candidate_id(*key) for key in ranked]
        for place, (number, index) in enumerate(kept):
            assert found["total_reward"][place] == sums[number, index]
            assert found["length"][place] == len(judge(number, index))
            true = generation(number, count=count, size=SIZE).candidate(index)
            if remember == "float16":
                np.testing.assert_allclose(found["parameters"][place], true, atol=4e-3)
            else:
                assert found["parameters"][place].tobytes() == true.tobytes()
        assert sum(memory.usage().values()) <= memory.bytes_full


def test_seeds_rebuild_what_copies_hold_bit_for_bit_and_float16_nearly() -> None:
    memories = {kind: make(kind) for kind in KINDS}
    for memory in memories.values():
        judged(memory)
    batches = {kind: memory.sample(60) for kind, memory in memories.items()}
    assert same(batches["seeds"], batches["copies"])
    rounded = batches["float16"].pop("parameters")
    exact = batches["copies"].pop("parameters")
    assert same(batches["float16"], batches["copies"])
    means = np.stack([generation(int(n)).mean for n in batches["copies"]["generation"]])
    assert (np.abs(rounded - exact) <= np.abs(exact - means) * 2.0**-11 + 1e-6).all()
    assert not np.array_equal(rounded, exact)


@pytest.mark.parametrize("remember", KINDS)
def test_generations_that_cannot_be_rebuilt_any_more_go(remember: str) -> None:
    memory = make(remember, generations=2)
    judged(memory, range(5))
    held = set(memory.compare()["generation"].tolist())
    assert held == (set(range(5)) if remember == "copies" else {3, 4})
    assert set(memory.sample(200)["generation"].tolist()) == held
    memory.check()


def test_the_oldest_go_first() -> None:
    memory = make("copies", limit=8)
    judged(memory, range(3), count=3)
    ids = everything(memory)["id"].tolist()
    assert ids == [candidate_id(n, i) for n in range(3) for i in range(3)][1:]
    assert (memory.full, memory.rows, len(memory), memory.capacity) == (True, 8, 8, 8)


def test_elites() -> None:
    table = {(0, 0): 5, (0, 1): 9, (0, 2): 5, (1, 0): 5, (1, 1): 1, (1, 2): 7}
    memory = make()
    judged(memory, (0, 1), count=3, judge=lambda number, index: [table[number, index]])
    best = [candidate_id(*key) for key in ((0, 1), (1, 2), (0, 0), (0, 2), (1, 0), (1, 1))]
    assert memory.elites(4)["id"].tolist() == best[:4]
    assert memory.elites(99)["id"].tolist() == best
    assert memory.elites(2, since=1)["total_reward"].tolist() == [7, 5]
    assert memory.elites(1, since=0)["total_reward"].tolist() == [9]
    assert memory.elites(1)["parameters"][0].tobytes() == generation(0, 3).candidate(1).tobytes()
    assert memory.compare()["id"].tolist() == best
    assert memory.compare()["total_reward"].tolist() == [9, 7, 5, 5, 5, 1]
    assert memory.compare().dtype.names == ("id", "generation", "total_reward", "length")


def test_a_sample_is_drawn_with_replacement_from_all_alike() -> None:
    memory = make(limit=11)
    judged(memory)
    batch = memory.sample(11_000)
    ids, counts = np.unique(batch["id"], return_counts=True)
    assert ids.tolist() == everything(memory)["id"].tolist()
    assert (np.abs(counts - 1_000) < 6 * 1_000**0.5).all()
    truth = {int(row["id"]): row for row in memory.compare()}
    for name in ("total_reward", "length", "generation"):
        assert batch[name].tolist() == [truth[i][name] for i in batch["id"].tolist()]


def test_columns_and_out() -> None:
    memory, twin, other = make(), make(), make()
    for each in (memory, twin, other):
        judged(each)
    whole = memory.sample(20)
    out = {name: np.zeros_like(array) for name, array in whole.items()}
    filled = twin.sample(20, out=out)
    assert same(filled, whole)
    assert all(filled[name] is out[name] for name in out)
    some = other.sample(20, columns=["total_reward", "id"])
    assert list(some) == ["total_reward", "id"]
    assert same(some, {name: whole[name] for name in some})
    with pytest.raises(ValueError, match=r"no column \['obs'\]"):
        memory.sample(3, columns=["obs"])


def test_what_is_sampled_is_the_caller_s() -> None:
    memory = make("copies")
    judged(memory)
    before = everything(memory)
    for batch in (memory.sample(30), memory.elites(4)):
        for array in batch.values():
            array[...] = 1
    memory.compare()["total_reward"] = 9
    assert same(everything(memory), before)


def test_finalize_episode_keeps_a_copy() -> None:
    memory = make("copies", limit=3)
    writer, mine = memory.writer(), np.zeros(SIZE, np.float32)
    with pytest.raises(ValueError, match="no episode has ended"):
        memory.finalize_episode(mine)
    for number in range(1, 5):
        episode(writer, number, number)
        mine += 1
        assert memory.finalize_episode(mine) == 2 * number
    mine[...] = 99
    found = everything(memory)
    assert found["parameters"][:, 0].tolist() == [2, 3, 4]
    assert found["total_reward"].tolist() == [4, 6, 8]
    assert found["length"].tolist() == [2, 2, 2]
    assert found["generation"].tolist() == [-1, -1, -1]
    assert memory.elites(1)["parameters"][0].tolist() == [4] * SIZE
    memory.check()


@pytest.mark.parametrize("remember", ["seeds", "float16"])
def test_finalize_episode_is_for_copies(remember: str) -> None:
    memory = make(remember)
    episode(memory.writer(), 1)
    with pytest.raises(ValueError, match="only --remember copies"):
        memory.finalize_episode(np.zeros(SIZE, np.float32))
    assert len(memory) == 0
    memory.check()


def test_a_non_finite_episode_is_not_finalized() -> None:
    memory = make("copies")
    episode(memory.writer(), 1, np.nan)
    assert np.isnan(memory.finalize_episode(np.zeros(SIZE, np.float32)))
    assert (len(memory), memory.dropped) == (0, 1)
    memory.check()


@pytest.mark.parametrize("remember", KINDS)
@pytest.mark.parametrize("lanes", [1, 3])
def test_plan_and_usage_are_arithmetic(remember: str, lanes: int) -> None:
    limit, generations, count = 20, 3, 6
    each = {"seeds": 17, "copies": 4 * SIZE, "float16": 2 * SIZE + 8}[remember]
    mean = 0 if remember == "copies" else 2 * 4 * SIZE
    full = limit * (RECORD.itemsize + each + lanes * RESULT_BYTES) + generations * mean
    options, context = arguments(remember, limit, generations, lanes, SIZE)
    assert EpisodeParameterMemory.plan(options, context).bytes_full == full
    memory = make(remember, limit=limit, generations=generations, lanes=lanes)
    assert memory.bytes_full == full
    assert memory.usage() == {"heap": 0}
    for number in range(12):
        judged(memory, [number], lanes=lanes, count=count)
        slots = min((number + 1) * count, limit)
        means = min(number + 1, generations) * mean
        inbox = int(np.minimum(memory._results.heads, limit).sum()) * RESULT_BYTES
        used = slots * (RECORD.itemsize + each) + means + inbox
        assert memory.usage() == {"heap": used}
        assert used <= full
    if lanes == 1:
        assert memory.usage() == {"heap": full}


@pytest.mark.parametrize("remember", KINDS)
def test_usage_is_what_is_really_taken(remember: str) -> None:
    size, count, generations = 40_000, 6, 3
    # tracemalloc counts the arrays when they are made, so the plan is what it has to agree with
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        memory = make(remember, limit=24, generations=generations, size=size)
        taken = tracemalloc.get_traced_memory()[0] - before
        assert abs(taken - memory.bytes_full) < 0.02 * memory.bytes_full + 20_000
        writer = memory.writer()
        for number in range(5):
            some = generation(number, count=count, size=size)
            memory.begin(some)
            play(writer, some, 1)
            assert memory.finished() is not None
        del some
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    # beside what was planned nothing stays
    assert grown - taken < 100_000
    if remember != "copies":
        assert memory.bytes_full < 0.8 * make("copies", limit=24, size=size).bytes_full


@pytest.mark.parametrize("remember", KINDS)
@pytest.mark.parametrize("lanes", [1, 4])
def test_saved_in_the_middle_of_a_generation_it_goes_on_identically(
    remember: str, lanes: int
) -> None:
    memory = make(remember, limit=14, lanes=lanes, seed=1)
    resumed = make(remember, limit=14, lanes=lanes, seed=2)
    judged(memory, range(2), lanes=lanes)
    judged(resumed, range(1), lanes=lanes, count=4)
    some, writer = generation(2), memory.writer()
    memory.begin(some)
    for index in (4, 1, 0):
        lane = [index % lanes]
        step(writer, [index + 0.5], [True], [candidate_id(2, index)], lanes=lane)
    assert memory.finished() is None
    step(writer, [2.5], [True], [candidate_id(2, 2)], lanes=[0])  # not read yet
    memory.sample(3)
    resumed.load(copied(memory.state()))
    resumed.check()
    assert (len(resumed), resumed.rows, resumed.dropped) == (len(memory), 12, 0)
    for both in (memory, resumed):
        late = both.writer()
        for index in (3, 5):
            step(late, [index + 0.5], [True], [candidate_id(2, index)], lanes=[lanes - 1])
        assert both.finished().tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
        judged(both, (3, 4), lanes=lanes)
    assert memory.compare().tobytes() == resumed.compare().tobytes()
    assert same(memory.sample(40), resumed.sample(40))
    assert memory.usage() == resumed.usage()


def test_the_same_generator_draws_the_same_and_another_does_not() -> None:
    one, two, other = make(seed=1), make(seed=1), make(seed=2)
    for memory in (one, two, other):
        judged(memory)
    batch = one.sample(30)
    assert same(batch, two.sample(30))
    assert batch["id"].tolist() != other.sample(30)["id"].tolist()


def test_writers_of_lanes_of_their_own() -> None:
    memory = make(lanes=3)
    some = generation(0, count=3)
    memory.begin(some)
    for lane in (2, 0, 1):
        writer = memory.writer([lane])
        writer.start({"obs": np.zeros((1, 1), np.float32)})
        step(writer, [lane], [True], [candidate_id(0, lane)])
    assert memory.finished().tolist() == [0, 1, 2]


def test_check_finds_what_is_wrong() -> None:
    memory = make()
    judged(memory)
    memory.check()
    records = memory._kept._records
    before = records["total_reward"][2]
    records["total_reward"][2] = np.nan
    with pytest.raises(CorruptMemoryError, match="return is not finite"):
        memory.check()
    records["total_reward"][2] = before
    memory._kept.tail -= 100
    with pytest.raises(CorruptMemoryError, match="are held"):
        memory.check()
    memory._kept.tail += 100
    memory._kept.store._means._means[1, 0] = np.inf
    with pytest.raises(CorruptMemoryError, match="slot 6 is not finite"):
        memory.check()
    memory._kept.store._means._means[1, 0] = 0
    memory.check()
    memory._results.tails[0] = memory._results.heads[0] + 1
    with pytest.raises(CorruptMemoryError, match="lane 0 holds rows"):
        memory.check()
