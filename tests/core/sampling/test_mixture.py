"""Mixtures: whose share is how large, what weights say, who is told of errors, what is refused."""

import copy
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.memories.episodic import EpisodicMemory, EpisodicOptions
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.memory_log import MemoryLog
from core.options import SharedOptions
from core.sampling.layout import strata_bytes, tree_bytes
from core.sampling.mixture import Mixture
from core.sampling.uniform import all_starts
from tests.conftest import examples
from tests.oracles.test_sequential_oracle import LIVES, SHORT
from tests.oracles.worlds import STEP, TERMINATE

from .sampled import MIXED, NUMBER, SAMPLERS, RoundedTwin, SampledWorld, ids_of, memory_of, play


def parts_of(memory) -> dict:
    """The parts of a mixture, by name."""
    sampler = memory._sampler
    return dict(zip(memory.mixture, sampler._parts, strict=True))


def mixed(limit: int = 500, **options):
    memory = memory_of(limit, sampler="mixture", mixture=MIXED, recent_rows=50, **options)
    memory.mixture = MIXED
    return memory


def test_each_part_has_its_share_and_weights_are_those_of_the_mixture() -> None:
    memory = mixed()
    rng = np.random.default_rng(0)
    play(memory, rng.choice([0, 0, 0, 1, -1], 450), length=30)
    lanes, rows = all_starts(memory.starts)
    memory.sample(1)
    memory.feedback(rows, rng.exponential(1, len(rows)))
    memory.sample(1)
    parts = parts_of(memory)
    counts = dict.fromkeys(parts, 0)
    for name, part in parts.items():
        part.draw = counting(part.draw, counts, name)
    x = rng.normal(3, 2, 1_000)
    means = []
    for _ in range(1_500):
        batch = memory.sample(32)
        q = sum(MIXED[name] * part.chances(lanes, rows) for name, part in parts.items())
        assert math.isclose(q.sum(), 1.0, rel_tol=1e-9)
        chance = dict(zip(rows.tolist(), q.tolist(), strict=True))
        wanted = [1 / (len(rows) * chance[unit]) for unit in batch["id"].tolist()]
        np.testing.assert_allclose(batch["weight"], wanted, rtol=1e-5)
        assert batch["weight"].max() <= 1 / MIXED["uniform"] + 1e-6
        means.append((batch["weight"] * x[batch["id"]]).mean())
    drawn = sum(counts.values())
    assert drawn == 32 * 1_500
    for name, share in MIXED.items():
        assert abs(counts[name] / drawn - share) < 0.01
    error = np.std(means) / math.sqrt(len(means))
    assert abs(np.mean(means) - x[rows].mean()) < 4 * error < 0.1


@examples(200)
@given(
    size=st.integers(0, 40),
    place=st.floats(0, 1, exclude_max=True),
    shares=st.lists(st.floats(0.01, 1), min_size=1, max_size=4),
)
def test_a_share_is_whole_but_for_one_unit_which_is_drawn(size, place, shares) -> None:
    total = sum(shares)
    named = {str(number): share / total for number, share in enumerate(shares)}
    mixture = Mixture(dict.fromkeys(named), named)
    counts = mixture._counts(size, place)
    assert sum(counts) == size and min(counts) >= 0
    points = np.arange(size) + place
    ends = np.cumsum([*named.values()]) * size
    for number, end in enumerate(ends[:-1]):
        if not np.isclose(points, end, rtol=1e-9).any():  # on a bound rounding decides
            assert sum(counts[: number + 1]) == (points < end).sum()


def test_the_unit_that_is_drawn_comes_as_often_as_the_rest_of_the_share() -> None:
    shares = {"a": 0.3, "b": 0.25, "c": 0.45}
    mixture = Mixture(dict.fromkeys(shares), shares)
    counts = np.array([mixture._counts(7, (at + 0.5) / 1_000) for at in range(1_000)])
    np.testing.assert_allclose(counts.mean(axis=0), 7 * np.array([*shares.values()]), atol=0.002)


def test_units_are_counted_once_a_batch() -> None:
    memory = mixed()
    play(memory, np.zeros(300), length=30)
    starts, asked = memory.starts, []

    class Asked:
        legal, locate = starts.legal, starts.locate

        def __len__(self) -> int:
            asked.append("len")
            return len(starts)

        def spans(self):
            asked.append("spans")
            return starts.spans()

    memory._sampler.draw(Asked(), 32, np.random.default_rng(0))
    assert sorted(asked) == ["len", "spans"]


def counting(draw, counts: dict, name: str):
    def counted(starts, size, rng):
        counts[name] += size
        return draw(starts, size, rng)

    return counted


@examples(20)
@given(st.integers(0, 99), st.integers(1, 3), LIVES, st.sampled_from(["heap", "shared"]))
def test_every_unit_of_a_mixture_happened(seed: int, lanes: int, life: bytes, storage: str) -> None:
    world = SampledWorld(
        lanes=lanes, window=2, capacity=lanes * 12, seed=seed, storage=storage,
        keys=SAMPLERS["mixture"],
    )  # fmt: skip
    twin = RoundedTwin(world)

    def look() -> None:
        units = {unit.lane * 2**40 + unit.row: unit for unit in twin.history.units()}
        if not units:
            with pytest.raises(ValueError, match="nothing that can be sampled"):
                twin.memory.sample(3)
            return
        batch = twin.memory.sample(3)
        for place, unit in enumerate(batch["id"].tolist()):
            wanted = twin.history.expected(units[unit])
            assert all((batch[n][place] == wanted[n]).all() for n in wanted if n != "weight")
        twin.memory.feedback(batch["id"], batch["reward"])

    twin.after_each = look
    twin.live(life)


@pytest.mark.parametrize("name", sorted(SAMPLERS))
@examples(8)
@given(seed=st.integers(0, 99), life=SHORT, after=SHORT)
def test_a_saved_memory_goes_on(name: str, seed: int, life: bytes, after: bytes) -> None:
    world = SampledWorld(lanes=2, window=2, capacity=24, seed=seed, keys=SAMPLERS[name])
    twin, other = RoundedTwin(world), RoundedTwin(world)

    def draw() -> None:
        if len(twin.memory):
            batch = twin.memory.sample(3)
            twin.memory.feedback(batch["id"], batch["reward"])

    twin.after_each = draw
    twin.live(life)
    other.memory.load(copy.deepcopy(twin.memory.state()))
    other.history = copy.deepcopy(twin.history)
    other.go_on_as(twin)
    other.renew()
    twin.after_each = None
    for events in twin.events(after):
        for one in (twin, other):
            one.tick(events)
        if not len(twin.memory):
            continue
        one, two = twin.memory.sample(5), other.memory.sample(5)
        assert all((one[column] == two[column]).all() for column in one)
        for memory in (twin.memory, other.memory):
            memory.feedback(one["id"], one["reward"])
    assert ids_of(twin.history.units()) == ids_of(other.history.units())


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_a_log_brings_it_back(name: str, tmp_path: Path) -> None:
    memory, other = (memory_of(120, **SAMPLERS[name]) for _ in range(2))
    log = MemoryLog(memory, tmp_path)
    play(memory, np.random.default_rng(0).choice([0, 1, -1], 100), length=9)
    memory.feedback(memory.sample(9)["id"], np.arange(9.0))
    log.commit()
    log.close()
    log = MemoryLog(other, tmp_path)
    log.load(print)
    log.close()
    for _ in range(5):
        one, two = memory.sample(20), other.sample(20)
        assert all((one[column] == two[column]).all() for column in one)


def test_errors_go_to_the_prioritized_part() -> None:
    memory = mixed()
    assert memory.takes_feedback
    play(memory, np.zeros(300), length=500)
    memory.sample(1)
    memory.feedback(np.arange(300), np.where(np.arange(300) == 17, 50.0, 0.0))
    drawn = np.concatenate([memory.sample(40)["id"] for _ in range(100)])
    assert abs((drawn == 17).mean() - MIXED["prioritized"]) < 0.02
    plain = memory_of(50, sampler="mixture", mixture={"uniform": 0.5, "recent": 0.5})
    assert not plain.takes_feedback


@pytest.mark.parametrize("storage", ["heap", "shared"])
def test_what_it_takes_is_planned(storage: str) -> None:
    twins = [
        RoundedTwin(SampledWorld(lanes=2, capacity=40, storage=storage, keys=keys))
        for keys in ({}, {"sampler": "mixture", "mixture": MIXED})
    ]
    for twin in twins:
        for _ in range(60):
            twin.tick([STEP, TERMINATE])
    more = tree_bytes(40) + strata_bytes(40)
    plain, own = (twin.memory.usage() for twin in twins)
    assert own == {**plain, "heap": plain.get("heap", 0) + more}
    plain, own = (dict(twin.memory.ring.plan.tiers) for twin in twins)
    assert own == {**plain, "heap": plain["heap"] + more}


def test_a_memory_of_trajectories_has_samplers_too() -> None:
    keys = {"sampler": "mixture", "mixture": {"uniform": 0.4, "balanced": 0.3, "recent": 0.3}}
    shared = SharedOptions(trajectory_length=4)
    context = MemoryContext(NUMBER, shared, np.random.default_rng(0))
    memory = EpisodicMemory(EpisodicOptions(memory_limit=200, **keys), context)
    play(memory, np.random.default_rng(1).choice([0, 0, 0, 0, 0, 5], 180), length=20)
    batch = memory.sample(64)
    assert batch["mask"].shape == (4, 64)
    assert (batch["weight"] > 0).all()
    assert set(batch["id"].tolist()) <= set(all_starts(memory.starts)[1].tolist())


REFUSED = [
    ({"sampler": "mixture", "mixture": {"uniform": 0.5, "recent": 0.4}}, "sum to 0.9"),
    ({"sampler": "mixture", "mixture": {"uniform": 1.5, "recent": -0.5}}, "above 0"),
    ({"sampler": "mixture", "mixture": {"newest": 1.0}}, "not of 'newest'"),
    ({"sampler": "mixture"}, "mixture, as"),
    ({"mixture": {"uniform": 1.0}}, "with sampler mixture"),
    ({"recent_rows": 7}, "recent_rows with sampler recent alone, or in a mixture"),
    ({"sampler": "recent", "balance_by": "return"}, "balance_by with sampler balanced alone"),
    ({"sampler": "balanced", "balance": {"plus": 1.0}}, "not of 'plus'"),
    ({"sampler": "balanced", "balance": {"positive": 1.0}}, "a share above 0 of each"),
    ({"sampler": "balanced", "balance": {"positive": 1, "zero": 0, "negative": 1}}, "above 0 of"),
    (
        {"sampler": "mixture", "mixture": {"prioritized": 1.0}, "importance_exponent": 0.5},
        "importance_exponent with sampler prioritized alone",
    ),
]


@pytest.mark.parametrize(("keys", "why"), REFUSED)
def test_what_does_not_fit_is_refused_by_name(keys: dict, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SequentialOptions(**keys)


def test_a_sampler_that_a_kind_cannot_serve_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="not of 'prioritized'"):
        EpisodicOptions(sampler="mixture", mixture={"prioritized": 0.5, "uniform": 0.5})
    with pytest.raises(ValueError, match="draw episodes with sampler uniform alone"):
        EpisodicOptions(sampler="recent", draw="episodes")
    assert SequentialMemory.Options(sampler="mixture", mixture={"prioritized": 1.0}).takes_feedback
