"""What a run will take: what fits, how many environments do, and remedies that help."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ByteSize, TypeAdapter

from core.errors import UsageError
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext, MemoryOptions
from core.options import SharedOptions
from core.run_plan import (
    Holds,
    Machine,
    MakePlan,
    RunPlan,
    fits,
    largest,
    most_envs,
    remedies,
)
from core.storage.plan import StorePlan
from core.types import ArraySpec, DiscreteActions, EnvSpec
from tests.conftest import examples

SIDE = 84
ROW = SIDE * SIDE + 16 + 1  # a frame, a packed row of everything else, a counter of draws
ENV = EnvSpec({"obs": ArraySpec((SIDE, SIDE), np.dtype(np.uint8))}, DiscreteActions(3))
HOLDS = Holds(steps=1_000, batches=31.25, episodes=50.0, hours=0.5)


@dataclass(frozen=True)
class Cost:
    """A memory's plan of any numbers."""

    bytes_full: int
    bytes_low: int
    bytes_high: int
    rows_full: int
    tiers: Mapping[str, int] = field(default_factory=lambda: {"heap": 8_000})
    bytes_saved: int = 0


def machine(usable: int, other: int = 0, an_env: int = 0) -> Machine:
    return Machine(usable, "free memory", other, an_env)


def planner(forecast: float = 0.0, window: int = 1) -> MakePlan:
    """Plans of a memory of 84x84 pixels, compressed ones taking `forecast` bytes a frame."""

    def make(options: MemoryOptions, lanes: int) -> StorePlan:
        shared = SharedOptions(num_envs=lanes, window_length=window)
        forecasts = {"obs": forecast} if forecast else {}
        context = MemoryContext(ENV, shared, np.random.default_rng(0), forecasts=forecasts)
        return SequentialMemory.plan(options, context)

    return make


def options(limit: int, codec: str = "raw", memory_bytes: int = 0) -> SequentialOptions:
    return SequentialOptions(
        memory_limit=limit, frame_codec=codec, memory_bytes=ByteSize(memory_bytes)
    )


def run_plan(**changed) -> RunPlan:
    plan = RunPlan(
        row="row",
        memory=Cost(bytes_full=8_000, bytes_low=8_000, bytes_high=8_000, rows_full=1_000),
        limit=1_000,
        tier="heap",
        machine=machine(20_000, 3_000, 100),
        max_num_envs=7,
        holds=HOLDS,
        key="memory_limit",
        remedies=(),
    )
    return replace(plan, **changed)


def said(remedy: str) -> dict[str, str]:
    """The flags of a remedy, with their values."""
    return dict(re.findall(r"--(\w+) ([^\s)]+)", remedy))


def applied(old: SequentialOptions, remedy: str) -> SequentialOptions:
    """The options with a remedy's flags set, read as the command line reads them."""
    values = old.model_dump() | said(remedy)
    values["memory_limit"] = int(values["memory_limit"])
    values["memory_bytes"] = TypeAdapter(ByteSize).validate_python(values["memory_bytes"])
    return SequentialOptions(**values)


# What fits.


@given(most=st.integers(0, 10**12), limit=st.integers(-1, 10**12))
@examples(100)
def test_the_largest_is_found_in_few_tries(most: int, limit: int) -> None:
    tried = []

    def fit(number: int) -> bool:
        tried.append(number)
        return number <= limit

    assert largest(fit, most) == max(min(limit, most), 0)
    assert len(tried) <= most.bit_length() + 1
    assert all(0 < number <= most for number in tried)


def test_it_fits_to_the_last_byte_of_the_most_that_it_may_take() -> None:
    memory = Cost(bytes_full=50, bytes_low=10, bytes_high=100, rows_full=10)
    assert fits(memory, machine(130, other=30))
    assert not fits(memory, machine(129, other=30))
    assert fits(memory, machine(150, other=30, an_env=10), more_envs=2)
    assert not fits(memory, machine(150, other=30, an_env=10), more_envs=3)
    assert fits(memory, machine(110, other=30, an_env=10), more_envs=-2), "fewer than there are"


def test_the_most_environments_are_those_that_memory_allows() -> None:
    room, an_env = 100 * ROW, 10**6
    # two of them run already, and are part of the other 500 bytes
    for more in (0, 1, 9):
        there = machine(room + 500 + more * an_env + an_env // 2, 500, an_env)
        assert most_envs(options(100), planner(), there, lanes=2) == 2 + more
    assert most_envs(options(100), planner(), machine(room // 2), lanes=2) == 0


def test_the_most_environments_have_the_rows_that_a_lane_needs() -> None:
    plenty = machine(10**12, an_env=1)
    # of 100 rows, each lane needs a stack of 4 and the row after it
    assert most_envs(options(100), planner(window=4), plenty, lanes=1) == 100 // 5


# How it is said.


@pytest.mark.parametrize(
    ("holds", "words"),
    [
        (HOLDS, "1,000 steps, 50 episodes of random play, 31 batches, 0.5 hours of play"),
        (replace(HOLDS, episodes=None), "1,000 steps, 31 batches, 0.5 hours of play"),
        (replace(HOLDS, hours=None), "1,000 steps, 50 episodes of random play, 31 batches"),
        (
            Holds(steps=2_500_000, batches=1e6, episodes=12_345.6, hours=1_234.56),
            "2,500,000 steps, 12,346 episodes of random play, 1,000,000 batches, "
            "1,234.6 hours of play",
        ),
    ],
)
def test_what_it_holds_is_said_as_far_as_it_is_known(holds: Holds, words: str) -> None:
    assert str(holds) == words


def test_a_plan_is_one_object_of_bytes() -> None:
    memory = Cost(bytes_full=8_000, bytes_low=6_000, bytes_high=20_000, rows_full=1_000)
    plan = run_plan(memory=memory, remedies=("--a 1", "--b 2"))
    assert plan.as_dict() == {
        "row": "row",
        "fits": False,  # 20,000 beside 3,000 of 20,000
        "bytes_per_step": 8.0,
        "bytes_full": 8_000,
        "bytes_full_low": 6_000,
        "bytes_full_high": 20_000,
        "tiers": {"heap": 8_000, "disk": 0},
        "other_bytes": 3_000,
        "usable_bytes": 20_000,
        "max_num_envs": 7,
        "holds": {"steps": 1_000, "episodes": 50.0, "batches": 31.25, "hours": 0.5},
        "key": "memory_limit",
        "remedies": ["--a 1", "--b 2"],
    }
    assert run_plan().as_dict()["fits"]


def test_before_the_first_step_two_lines_say_what_it_takes() -> None:
    assert list(run_plan().lines()) == [
        "memory when full: 8.0 kB in heap memory, 8 bytes a step, memory_limit 1,000; it will "
        f"hold {HOLDS}",
        "the rest of the run: 3.0 kB, 100 B an env; 20.0 kB usable (free memory), enough for 7 "
        "envs",
    ]


def test_what_is_compressed_is_said_as_a_range() -> None:
    memory = Cost(bytes_full=8_000, bytes_low=6_000, bytes_high=15_000, rows_full=1_000)
    first, _ = run_plan(memory=memory).lines()
    assert first.startswith(
        "memory when full: about 8.0 kB, between 6.0 kB and 15.0 kB, in heap memory, 8 bytes a step"
    )


@pytest.mark.parametrize(("batches", "warned"), [(19.9, True), (0.4, True), (20.0, False)])
def test_fewer_than_twenty_batches_are_warned_of(batches: float, warned: bool) -> None:
    told = (
        f"warning: the memory holds {batches} batches; with fewer than 20, what is learnt from "
        "is nearly what has just happened"
    )
    lines = list(run_plan(holds=replace(HOLDS, batches=batches)).lines())
    assert lines[2:] == [told] * warned


def test_a_refusal_names_the_key_the_formula_and_what_helps() -> None:
    plan = run_plan(machine=machine(10_500, 3_000), remedies=("--a 1 (7 kB)", "--b 2"))
    assert plan.refusal() == (
        "memory_limit takes up to 8.0 kB when full: 1,000 rows x 8 bytes; beside the 3.0 kB of "
        "the rest of the run 7.5 kB are usable (free memory); set --a 1 (7 kB), or --b 2"
    )


# What helps.


def helpful(given: SequentialOptions, make: MakePlan, there: Machine) -> Iterator[str]:
    """The remedies with flags to set; the last is to say how much memory there is."""
    *found, last = remedies(given, make, there, 2)
    assert last == f"--memory_cap SIZE where there is more memory than that ({there.by})"
    return iter(found)


def test_remedies_of_raw_pictures_are_worked_by_hand() -> None:
    make = planner(forecast=500.0)
    there = machine(4_000 * ROW + 99_000, other=99_000)
    rows, codec, size = helpful(options(50_000), make, there)
    assert rows == f"--memory_limit 4001 ({4_000 * ROW / 1e6:.1f} MB)", "the odd row is of no lane"
    assert said(codec) == {"frame_codec": "lz4", "memory_limit": said(codec)["memory_limit"]}
    # whole megabytes: 28 of the 28.3 that are left
    held = 2 * (28_000_000 // (2 * ROW))
    assert size == f"--memory_bytes 28MB (the oldest of {held:,} rows go)"


def test_compression_alone_is_a_remedy_where_it_is_enough() -> None:
    make = planner(forecast=500.0)
    wanted = options(50_000)
    compressed = make(options(50_000, "lz4"), 2)
    assert compressed.bytes_high < make(wanted, 2).bytes_full / 4
    there = machine(compressed.bytes_high)
    _, codec, _ = helpful(wanted, make, there)
    assert said(codec) == {"frame_codec": "lz4"}
    _, codec, _ = helpful(wanted, make, machine(compressed.bytes_high - 1))
    assert said(codec).keys() == {"frame_codec", "memory_limit"}


@given(
    limit=st.integers(1_000, 10**9),
    codec=st.sampled_from(["raw", "lz4", "zstd"]),
    forecast=st.sampled_from([0.0, 30.0, 500.0, 3_000.0, 7_056.0]),
    usable=st.integers(20 * 10**6, 10**11),
    other=st.integers(0, 10 * 10**6),
)
@examples(60)
def test_with_each_remedy_it_fits(
    limit: int, codec: str, forecast: float, usable: int, other: int
) -> None:
    make, there, old = planner(forecast), machine(usable, other), options(limit, codec)
    if fits(make(old, 2), there):
        return
    found = list(helpful(old, make, there))
    assert len(found) >= 1, "beside --memory_cap"
    for remedy in found:
        new = applied(old, remedy)
        assert new != old
        plan = make(new, 2)
        assert fits(plan, there), remedy
        assert plan.rows_full >= 2
        if "memory_limit" in said(remedy):
            more = new.model_copy(update={"memory_limit": new.memory_limit + 2})
            assert not fits(make(more, 2), there), "with a row a lane more it does not"


def test_where_the_rest_of_the_run_is_too_much_no_memory_helps() -> None:
    assert list(helpful(options(5_000), planner(), machine(100, other=101))) == []


def test_of_too_few_rows_there_is_no_plan_and_more_are_tried() -> None:
    # two lanes of a stack of 60 and the row after it need 122 rows; half of 200 is too few
    make = planner(window=60)
    found = list(helpful(options(200), make, machine(150 * ROW)))
    assert said(found[0]) == {"memory_limit": "151"}


def test_what_a_remedy_holds_is_enough_to_learn_from() -> None:
    # 2 rows a lane are the least; a remedy of fewer would be refused
    make = planner(window=1)
    with pytest.raises(UsageError):
        make(options(3), 2)
    found = list(helpful(options(5_000), make, machine(4 * ROW)))
    assert [said(remedy) for remedy in found] == [{"memory_limit": "5"}]
    assert list(helpful(options(5_000), make, machine(4 * ROW - 1))) == []
