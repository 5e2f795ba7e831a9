"""Defects of other replay memories in what they take; see `peers`."""

import gc
import json
import re
import sys
import tracemalloc
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from pydantic import ByteSize

from core.errors import UsageError
from core.limits import Usable, usable_memory
from core.memories.sequential import SequentialMemory
from core.memory import Memory, MemoryContext
from core.options import SharedOptions
from core.parameters.kept import candidate_id
from core.types import ArraySpec, DiscreteActions, EnvSpec
from tests.core.envs.worlds import MODES, counters
from tests.core.parameters.candidates import generation, play, step
from tests.harness import EMPTY, equal_trees, parts_of, python
from tests.reports.peer_worlds import (
    FRAME,
    KINDS,
    ROW,
    SIDE,
    U8,
    Told,
    arguments,
    copied,
    each_codec,
    each_draw,
    each_kind,
    every_codec,
    fill,
    make,
    pictures,
    read_all,
    units,
)
from tests.reports.peers import peers
from utils import planning
from utils.factory import MEMORIES, resolve_name

MB, GB = 10**6, 10**9
ATARI = ArraySpec((84, 84), U8)
PICTURES: dict[str, Any] = {
    **EMPTY,
    "game": "counter",
    "observation": "pixels",
    "size": SIDE,
    "frame_codec": "raw",
}
"""A row whose memory takes 273 bytes a row."""


def used(memory: Memory) -> int:
    return sum(memory.usage().values())


@cache
def child(function: str, *arguments: object) -> Any:
    """What a function of `peer_worlds` prints in a process of its own; called once."""
    code = f"from tests.reports.peer_worlds import {function} as f; f(*{arguments!r})"
    return json.loads(python(code))


def traced(work: Callable[[], object]) -> tuple[int, int]:
    """Bytes of Python and numpy that stay after some work, and that it took at most."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


@peers(1)
@every_codec
@each_kind
def test_01_stacks_are_made_anew_and_kept_nowhere(kind: str, codec: str) -> None:
    # openai/baselines#896, #295: LazyFrames keep each stack that was asked for, beside its frames;
    # a million of them took 30 GB
    spec = ArraySpec((32, 32), U8)
    memory = make(kind, 1_000, codec, spec=spec, window_length=4)
    fill(memory.writer(), pictures("half", (32, 32)), 1_000, 100)
    memory.sample(32)
    claimed, stacks = used(memory), 1_000 * 4 * 32 * 32

    def sample() -> None:
        for _ in range(10):
            memory.sample(500)

    stays, _ = traced(sample)
    assert stays < stacks / 50
    assert used(memory) == claimed


@peers(2)
@pytest.mark.parametrize("window", [1, 4])
def test_02_a_million_frames_take_seven_gigabytes(window: int) -> None:
    # openai/baselines#943: 56 GB held half a million LazyFrames
    options, context = arguments(10**6, spec=ATARI, window_length=window)
    plan = SequentialMemory.plan(SequentialMemory.Options(**options), context)
    assert plan.bytes_full == plan.bytes_high == 10**6 * (84 * 84 + 16 + 1) < 7.1 * GB
    small = make(limit=300, spec=ATARI, window_length=window)
    fill(small.writer(), pictures("still", (84, 84)), 400)
    assert used(small) == 300 * (84 * 84 + 16 + 1)


@peers(3)
@each_kind
def test_03_the_memory_saves_what_a_vector_env_copies(kind: str) -> None:
    # openai/gym#2128: a vector env makes arrays of LazyFrames, and what they shared is lost; right
    # is that the memory gets single frames, and stacks them when it gives them
    env = counters(9, 9, mode=MODES[0], observation="pixels", size=SIDE)
    memory = make(kind, 200, window_length=4, num_envs=2)
    writer = memory.writer()
    writer.start(env.reset([1, 2]))
    for _ in range(8):
        done = env.step(np.zeros(2, np.int64))
        writer.append(np.zeros(2, int), done.reward, done.terminated, done.truncated, done.next_obs)
    env.close()
    assert used(memory) == 2 * 9 * ROW
    assert units(memory)[7].stack == [(0, 4), (0, 5), (0, 6), (0, 7)]


@peers(4)
def test_04_what_will_not_fit_is_refused_before_the_first_step() -> None:
    # DLR-RM/stable-baselines3#37: np.zeros takes nothing until it is written, so that a buffer too
    # large for the machine dies hours later
    with pytest.raises(UsageError, match=r"memory_limit takes up to 2\.7 GB when full"):
        parts_of(PICTURES, memory_limit=10**7, memory_cap="2GB")
    memory = parts_of(PICTURES, memory_limit=1_000, memory_cap="2GB").memory
    assert (used(memory), memory.bytes_full) == (0, 1_000 * ROW)


@peers(5)
def test_05_a_control_group_counts_and_page_cache_is_no_alarm(tmp_path: Path) -> None:
    # DLR-RM/stable-baselines3#1839: the check looks at `available` alone: it knows no control
    # group, warns where there is none to warn of, and nobody can tell it better
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text(f"{64 * MB}\n")
    (group / "memory.current").write_text(f"{60 * MB}\n")
    (group / "memory.stat").write_text(f"inactive_file {50 * MB}\n")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    assert psutil.virtual_memory().available > 64 * MB
    assert usable_memory(tmp_path) == Usable((64 - 60 + 50) * MB, "cgroup memory.max")


@peers(5)
def test_05_the_person_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "usable_memory", lambda: Usable(10_000, "free memory"))
    keys = {"memory_limit": 100_000}
    with pytest.raises(UsageError, match=r"usable \(free memory\).* --memory_cap SIZE"):
        parts_of(PICTURES, **keys)
    assert parts_of(PICTURES, memory_cap="8GB", **keys).memory.capacity == 100_000
    with pytest.raises(UsageError, match=r"usable \(memory_cap\)"):
        parts_of(PICTURES, memory_cap="1MB", **keys)


@peers(6)
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@each_kind
def test_06_compressed_frames_take_less_and_come_back_as_they_were(kind: str, codec: str) -> None:
    # DLR-RM/stable-baselines3#1936: 63 GB do not fit into 55, optimize_memory_usage or not; right
    # is each frame once, and compressed where that is asked for
    raw, small = (
        make(kind, 2_000, c, spec=ATARI, window_length=4, chunk_frames=16) for c in ("raw", codec)
    )
    for memory in (raw, small):
        fill(memory.writer(), pictures("still", (84, 84)), 2_100, 100)
    assert used(small) < used(raw) / 10
    one, two = raw.sample(100), small.sample(100)
    assert equal_trees(one, two)


@peers(7)
@every_codec
@each_kind
def test_07_pixels_stay_bytes(kind: str, codec: str) -> None:
    # DLR-RM/stable-baselines3#40, #1031: buffers of images were float32, without a word
    told = Told(kind, 64, codec, window_length=2).tell("s...")
    batch = told.memory.sample(9)
    assert {batch[name].dtype for name in ("obs", "next_obs") if name in batch} == {U8}
    if codec == "raw":
        assert used(told.memory) == 4 * ROW


@peers(7)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each_codec
def test_07_floats_are_kept_as_bytes_or_refused(codec: str, dtype: type) -> None:
    memory = make(limit=64, codec=codec, spec=ArraySpec((SIDE, SIDE), np.dtype(dtype)))
    writer, no = memory.writer(), np.zeros(1, np.bool_)
    frames = pictures("noise", (SIDE, SIDE)).astype(dtype)
    writer.start({"obs": frames[0]})
    for frame in frames[1:9]:
        writer.append(np.zeros(1, int), np.zeros(1), no, no, {"obs": frame})
    found = read_all(memory)["obs"][:, 0]
    assert found.dtype == dtype
    assert np.array_equal(found, frames[:8, 0])
    if codec == "raw":
        assert used(memory) == 9 * ROW
    with pytest.raises(UsageError, match="deliver uint8, or set --float_frames keep"):
        writer.append(np.zeros(1, int), np.zeros(1), no, no, {"obs": frames[9] / 255})


@peers(8)
def test_08_a_refusal_says_what_an_item_takes_and_how_many_would_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # DLR-RM/stable-baselines3#885: "Unable to allocate 1.89 TiB", and what to do is left to guess
    monkeypatch.setattr(planning, "private_bytes", lambda: 100 * MB)
    keys = {"memory_cap": "1GB", "steps": 10**9}
    with pytest.raises(UsageError) as raised:
        parts_of(PICTURES, memory_limit=10**10, **keys)
    told = str(raised.value)
    assert f"memory_limit takes up to 2.7 TB when full: 10,000,000,000 rows x {ROW} bytes" in told
    fits = int(re.search(r"--memory_limit (\d+) \(", told)[1])
    assert fits == 892 * MB // ROW, "what is advised leaves some megabytes free"
    assert parts_of(PICTURES, memory_limit=fits, **keys).memory.capacity == fits
    with pytest.raises(UsageError, match="memory_limit takes up to"):
        parts_of(PICTURES, memory_limit=900 * MB // ROW + 1, **keys)


@peers(9)
@each_codec
@each_kind
def test_09_an_unfinished_episode_lies_in_the_ring_and_is_counted(kind: str, codec: str) -> None:
    # thu-ml/tianshou#225: games took 30 to 48 GB, since collectors staged episodes that had not
    # ended beside the buffer, where nobody counted them
    memory = make(kind, 4_000, codec)
    writer, frames = memory.writer(), pictures("noise", (SIDE, SIDE))
    fill(writer, frames, 200)
    claimed, rows = used(memory), memory.rows
    stays, most = traced(lambda: fill(writer, frames, 2_000))
    assert (memory.rows, len(memory)) == (rows + 2_001, rows + 1_999)
    # noise takes what it takes in any codec: 512 kB, none of it anywhere but in the ring
    assert used(memory) - claimed >= 2_000 * FRAME
    assert stays <= most < 64_000


@peers(10)
@every_codec
def test_10_pictures_that_nothing_compresses_stay_within_the_budget(codec: str) -> None:
    # google-deepmind/dqn_zoo#15: 100 GB on the default settings, since what compressed frames take
    # depends on what they show; right is a bound that holds whatever that is
    told = child("print_what_noise_takes", codec, 6_000, 8 * MB)
    assert 6 * MB < told["usage"] <= 8 * MB
    assert told["private"] < 1.02 * 8 * MB + 8 * MB < 6_000 * 64 * 64
    # the oldest rows went, and the newest are there
    assert 1_200 < told["rows"] < 2_000
    assert told["full"]
    # each 100 steps took a row more for a start and for each of three ends; the last row is open
    assert told["newest"] == 60 * 104 - 2
    assert told["oldest"] >= 60 * 104 - told["rows"]


@peers(11)
@every_codec
@each_kind
def test_11_loading_twice_is_loading_once(kind: str, codec: str) -> None:
    # danijar/dreamerv3#103, #40: loading a checkpoint put the replay in a second time
    memory, other = (make(kind, 60, codec, window_length=2, seed=seed) for seed in (0, 1))
    fill(memory.writer(), pictures("half", (SIDE, SIDE)), 80, 7)
    fill(other.writer(), pictures("noise", (SIDE, SIDE)), 33, 5)
    state = copied(memory.state())
    for _ in range(2):
        other.load(state)
        other.check()
        assert (other.rows, len(other)) == (memory.rows, len(memory))
        assert other.usage() == memory.usage()
        assert equal_trees(copied(other.state()), state)
    assert equal_trees(read_all(memory), read_all(other))


@peers(15, 17)
@pytest.mark.parametrize(
    ("kind", "codec", "appends"),
    [
        ("sequential", "raw", 40_000),
        ("sequential", "lz4", 40_000),
        ("sequential", "zstd", 12_000),
        ("episodic", "lz4", 12_000),
    ],
)
def test_15_17_private_bytes_are_flat_once_full(kind: str, codec: str, appends: int) -> None:
    # ray-project/ray#10530, #8469, #6962: RAM grows step by step; facebookresearch/hanabi_SAD#14:
    # it goes on growing when the buffer is full
    assert slope_once_full(kind, codec, appends) <= 0.5 * MB


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("codec", ["raw", "lz4", "zstd"])
def test_private_bytes_are_flat_over_200_000_appends_and_20_000_samples(codec: str) -> None:
    assert slope_once_full("sequential", codec, 200_000, samples=100) <= 0.5 * MB


def slope_once_full(kind: str, codec: str, appends: int, samples: int = 1) -> float:
    """Private bytes that 10,000 appends to a full memory add, by least squares."""
    readings = child("print_private_bytes_once_full", kind, codec, appends, samples)
    assert len(readings) == appends // 1_000
    return 10 * float(np.polyfit(np.arange(len(readings)), readings, 1)[0])


@peers(15)
@pytest.mark.parametrize("remember", ["seeds", "copies", "float16"])
def test_15_generations_come_and_go_and_take_no_more(remember: str) -> None:
    memory = parameter_memory(remember, limit=60, generations=4)
    writer = memory.writer()

    def live(numbers: range) -> None:
        for number in numbers:
            some = generation(number)
            memory.begin(some)
            play(writer, some, 1)
            memory.finished()

    live(range(20))
    claimed = used(memory)
    stays, _ = traced(lambda: live(range(20, 60)))
    assert used(memory) == claimed
    assert stays < 10_000  # of 240 candidates, each with a return and a length of its own


@peers(16)
@every_codec
@each_kind
def test_16_rows_go_by_accounted_bytes_and_nobody_asks_the_system(
    kind: str, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # DeNA/HandyRL#189: a guard that asks psutil, which lags, lowers the cap, and pops nothing
    def asked(*_: object) -> None:
        raise AssertionError("the system is asked what memory there is")

    bound = 600_000
    keys = {"memory_bytes": ByteSize(bound), "chunk_frames": 16}
    memory = make(kind, 4_000, codec, **keys)
    monkeypatch.setattr(psutil, "virtual_memory", asked)
    monkeypatch.setattr(psutil, "Process", asked)
    writer, frames = memory.writer(), pictures("noise", (SIDE, SIDE))
    for count in range(1, 80):
        fill(writer, frames, 50)
        assert used(memory) <= bound
        assert memory.rows <= 51 * count
    assert memory.full
    assert 1_000 < memory.rows < bound / FRAME
    assert used(memory) > 0.7 * bound
    names = read_all(memory)["id"]
    assert names.max() == 79 * 51 - 2
    assert names.min() >= 79 * 51 - memory.rows
    memory.check()


@peers(18)
@every_codec
@each_kind
def test_18_the_state_is_the_memory_s_own_arrays(kind: str, codec: str) -> None:
    # thu-ml/tianshou#260: pickling a buffer of 2.5 GB took 17 GB
    memory = make(kind, 2_000, codec, chunk_frames=16)
    fill(memory.writer(), pictures("noise", (SIDE, SIDE)), 3_000, 100)
    assert used(memory) > 2_000 * FRAME
    state: list[object] = []
    _, most = traced(lambda: state.append(memory.state()))
    assert most < 20_000


@peers(23)
@each_codec
@each_kind
def test_23_no_object_is_kept_for_a_row(kind: str, codec: str) -> None:
    # pytorch/pytorch#5902: of rows that are Python objects a worker touches every count of
    # references, and so copies them all; right is flat arrays alone
    memory = make(kind, 8_000, codec, window_length=4)
    writer, frames = memory.writer(), pictures("half", (SIDE, SIDE))
    fill(writer, frames, 500, 20)
    memory.sample(32)
    before = objects()
    fill(writer, frames, 2_000, 20)
    memory.sample(32)
    containers, blocks = (after - then for after, then in zip(objects(), before, strict=True))
    assert containers < 100
    assert blocks < 200


def objects() -> tuple[int, int]:
    """Containers that Python knows, and small blocks of memory that are in use."""
    gc.collect()
    return len(gc.get_objects()), sys.getallocatedblocks()


@peers("a")
@each_codec
def test_3b_a_a_tier_is_where_it_says(codec: str) -> None:
    # TorchRL's LazyMmapStorage without a scratch_dir lies in /dev/shm, which is RAM, though its
    # readers think of a disk
    told = child("print_what_is_taken", codec, 4_000)
    assert list(told["usage"]) == ["heap"]
    assert told["shared"] == 0
    assert "/dev/shm" not in told["maps"]


@peers("b")
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@each_kind
def test_3b_b_successors_are_compressed_with_the_rest(kind: str, codec: str) -> None:
    # TorchRL's CompressedListStorage leaves ("next", ...) as it is; zlib, and len() of O(N)
    memory = make(kind, 1_000, codec, spec=ATARI, chunk_frames=16)
    writer, frames = memory.writer(), pictures("still", (84, 84))
    fill(writer, frames, 300, 50)
    claimed, rows = used(memory), memory.rows
    fill(writer, frames, 600, 50)
    assert used(memory) - claimed < (memory.rows - rows) * 84 * 84 / 10


@peers("d")
@each_draw
def test_3b_d_only_the_memory_s_own_generator_is_drawn_from(kind: str, keys: dict) -> None:
    # tianshou's prioritized buffer ignores the RandomState that it was seeded with
    batches = []
    for noise in (1, 2):
        memory = make(kind, 64, seed=5, **keys)
        fill(memory.writer(), pictures("noise", (SIDE, SIDE)), 50, 7)
        np.random.seed(noise)  # what others draw from
        before = np.random.get_state()[1].copy()
        batches.append(memory.sample(20))
        assert np.array_equal(np.random.get_state()[1], before)
    assert equal_trees(*batches)


@peers("i")
@each_codec
def test_3b_i_what_is_saved_is_saved_in_the_system_s_figures_too(codec: str) -> None:
    # TF-Agents' hashed buffer keeps views of whole stacks, and saves nothing
    rows = 4_000
    told = child("print_what_is_taken", codec, rows)
    claimed = told["usage"]["heap"]
    assert abs(told["private"] - claimed) <= 0.02 * claimed + 8 * MB
    raw = rows * (84 * 84 + 16 + 1)
    assert claimed == raw if codec == "raw" else claimed < raw / 5


@peers("m")
@each_draw
def test_3b_m_a_sample_costs_the_same_whatever_is_held(kind: str, keys: dict) -> None:
    # sheeprl makes a list of all rows for a sample; right is work by the batch alone
    costs = [cost(kind, keys, steps) for steps in (20, 800)]
    for few, many in zip(*costs, strict=True):
        # searching an episode by halving takes a step more for twice the rows
        assert many <= 2.5 * few


def cost(kind: str, keys: dict, steps: int) -> tuple[float, float, int, int]:
    """Of a sample, and of asking how many units there are, with so many steps in each of 50 lanes.

    Numbers that are gathered, calls of functions, bytes that a sample and that a count take.
    """
    memory = make(kind, 50 * 1_000, spec=ArraySpec((), U8), num_envs=50, window_length=2, **keys)
    writer, no = memory.writer(), np.zeros(50, np.bool_)
    for at in range(steps):
        if at % 20 == 0:
            writer.start({"obs": np.zeros(50, U8)})
        ended = np.full(50, at % 20 == 19)
        writer.append(np.zeros(50, int), np.zeros(50), ended, no, {"obs": np.zeros(50, U8)})
    ring, gathered, calls = memory._ring, [], []
    gather = ring.gather

    def counted(name: str, where: Any, out: Any = None) -> Any:
        gathered.append(where.slots.size)
        return gather(name, where, out)

    ring.gather = counted
    memory.sample(64)
    sys.setprofile(lambda frame, event, _: calls.append(1) if "call" in event else None)
    for _ in range(20):
        memory.sample(64)
        len(memory)
    sys.setprofile(None)
    bytes_sampled, bytes_counted = traced(lambda: memory.sample(64))[1], traced(memory.__len__)[1]
    return sum(gathered) / 21, len(calls) / 20, bytes_sampled, bytes_counted


def parameter_memory(remember: str, limit: int = 20, generations: int = 4) -> Any:
    kind = resolve_name(MEMORIES["episode-parameter"].target)
    env = EnvSpec({"obs": ArraySpec((1,), np.dtype(np.float32))}, DiscreteActions(2))
    context = MemoryContext(env, SharedOptions(), np.random.default_rng(0), parameters=5)
    options = kind.Options(memory_limit=limit, remember=remember, generations=generations)
    return kind(options, context)


@peers("n")
@pytest.mark.parametrize("remember", ["seeds", "copies", "float16"])
def test_3b_n_all_that_the_parameter_memory_offers_works(remember: str) -> None:
    # keras-rl's EpisodeParameterMemory: get_config calls super() of another class, a TypeError, and
    # sample an np.random function that NumPy 2 has no more (warnings are errors here)
    memory = parameter_memory(remember)
    some, writer = generation(0), memory.writer()
    memory.begin(some)
    for index in range(6):
        step(writer, [index], [True], [candidate_id(0, index)])
    assert memory.finished().tolist() == [0, 1, 2, 3, 4, 5]
    assert memory.Options(**memory.Options(remember=remember).model_dump()).remember == remember
    assert memory.sample(9)["parameters"].shape == (9, 5)
    assert memory.elites(2)["total_reward"].tolist() == [5, 4]
    assert memory.compare()["total_reward"].tolist() == [5, 4, 3, 2, 1, 0]
    assert (len(memory), memory.rows, memory.capacity, memory.full) == (6, 6, 20, False)
    assert (memory.ready(99), memory.dropped, memory.gives.value) == (True, 0, "parameters")
    assert 0 < used(memory) <= memory.bytes_full
    if remember == "copies":
        step(writer, [7], [True])
        assert memory.finalize_episode(np.ones(5, np.float32)) == 7
        assert memory.elites(1)["parameters"].tolist() == [[1] * 5]
    memory.check()
    twin = parameter_memory(remember)
    twin.load(copied(memory.state()))
    assert equal_trees(memory.sample(9), twin.sample(9))
    # nothing that it offers itself is left out, and nothing that it inherits raises when looked at
    called = {
        "Options", "begin", "bytes_full", "capacity", "check", "compare", "dropped", "elites",
        "finalize_episode", "finished", "full", "gives", "load", "plan", "ready", "rows", "sample",
        "state", "usage", "writer",
    }  # fmt: skip
    assert {name for name in vars(type(memory)) if not name.startswith("_")} <= called
    assert all(hasattr(memory, name) for name in dir(memory) if not name.startswith("__"))


@peers("o")
@pytest.mark.parametrize("shown", ["noise", "still", "half"])
@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_3b_o_no_codec_loses_a_bit_and_neither_does_the_default(
    codec: str | None, shown: str
) -> None:
    # Minari's default stores pictures as JPEG, and gives others back
    shape = (30, 20, 3)
    _, context = arguments(400, spec=ArraySpec(shape, U8))
    keys = {"frame_codec": codec} if codec else {}
    frames = pictures(shown, shape)
    for kind in KINDS.values():
        memory = kind(kind.Options(memory_limit=400, **keys), context)
        fill(memory.writer(), frames, 300)
        batch = read_all(memory)
        found = batch["obs"] if kind is SequentialMemory else batch["obs"][0]
        assert np.array_equal(found[:, 0], frames[np.arange(300) % 256, 0])
