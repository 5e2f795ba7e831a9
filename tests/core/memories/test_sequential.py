"""SequentialMemory: plan, readiness, batches by hand, and what reading and writing cost."""

import tracemalloc

import numpy as np
import pytest

from core.errors import UsageError
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.types import ArraySpec, DiscreteActions, EnvSpec, Unit

F32, U8 = np.dtype(np.float32), np.dtype(np.uint8)
NUMBER = {"obs": ArraySpec((), F32)}
PIXELS = {"obs": ArraySpec((84, 84), U8)}
SLACK = 64 * 1024


def make(
    limit: int = 20, observations=NUMBER, extras=None, options=None, **shared
) -> SequentialMemory:
    context = MemoryContext(
        EnvSpec(observations, DiscreteActions(4)),
        SharedOptions(**shared),
        np.random.default_rng(0),
        extras or {},
    )
    return SequentialMemory(SequentialOptions(memory_limit=limit, **(options or {})), context)


def tell(memory: SequentialMemory, steps: int, *, end: str = "", first: float = 0) -> None:
    """An episode of one lane whose observations are `first`, `first` + 1, and so on."""
    writer = memory.writer()
    writer.start({"obs": np.array([first], F32)})
    for at in range(steps):
        last = at == steps - 1
        writer.append(
            np.array([at % 4]),
            np.array([float(at + 1)]),
            np.array([last and end == "t"]),
            np.array([last and end == "c"]),
            {"obs": np.array([first + at + 1], F32)},
        )


def by_id(memory: SequentialMemory) -> dict[int, dict]:
    batch = memory.sample(500)
    units = {}
    for place, row in enumerate(batch["id"].tolist()):
        units[row] = {name: array[place].tolist() for name, array in batch.items()}
    return units


def test_it_gives_transitions() -> None:
    assert SequentialMemory.gives is Unit.TRANSITIONS


def test_a_batch_by_hand() -> None:
    memory = make(window_length=2, n_step=3, gamma=0.5)
    tell(memory, 4, end="c", first=10)
    units = by_id(memory)
    assert sorted(units) == [0, 1, 2, 3]
    assert units[0] == {
        "obs": [10, 10],
        "next_obs": [12, 13],
        "action": 0,
        "reward": 1 + 1 + 0.75,
        "discount": 0.125,
        "weight": 1,
        "id": 0,
    }
    # the cut-off leaves two steps, then one: they bootstrap from the true last observation
    assert (units[2]["next_obs"], units[2]["reward"], units[2]["discount"]) == ([13, 14], 5, 0.25)
    assert (units[3]["next_obs"], units[3]["reward"], units[3]["discount"]) == ([13, 14], 4, 0.5)


def test_a_terminal_leaves_nothing_to_bootstrap() -> None:
    memory = make(n_step=3, gamma=0.5)
    tell(memory, 2, end="t", first=10)
    units = by_id(memory)
    assert (units[0]["next_obs"], units[0]["reward"], units[0]["discount"]) == ([12], 2, 0)
    assert (units[1]["next_obs"], units[1]["reward"], units[1]["discount"]) == ([12], 2, 0)


def test_the_newest_steps_wait_for_nothing() -> None:
    memory = make(n_step=5, gamma=0.5)
    tell(memory, 2)
    units = by_id(memory)
    assert (units[0]["next_obs"], units[0]["reward"], units[0]["discount"]) == ([2], 2, 0.25)
    assert (units[1]["next_obs"], units[1]["reward"], units[1]["discount"]) == ([2], 2, 0.5)


def test_dtypes_of_a_batch() -> None:
    memory = make(observations=PIXELS, extras={"mark": ArraySpec((2,), F32)}, window_length=4)
    writer = memory.writer()
    writer.start({"obs": np.zeros((1, 84, 84), U8)})
    one, no = np.ones(1), np.zeros(1, np.bool_)
    writer.append(
        np.array([3]), one, no, no, {"obs": np.ones((1, 84, 84), U8)},
        {"mark": np.ones((1, 2), F32)},
    )  # fmt: skip
    batch = memory.sample(3)
    assert {name: (array.shape, array.dtype.name) for name, array in batch.items()} == {
        "obs": ((3, 4, 84, 84), "uint8"),
        "next_obs": ((3, 4, 84, 84), "uint8"),
        "action": ((3,), "int64"),
        "mark": ((3, 2), "float32"),
        "reward": ((3,), "float32"),
        "discount": ((3,), "float32"),
        "weight": ((3,), "float32"),
        "id": ((3,), "int64"),
    }


def test_an_unknown_column_is_said() -> None:
    memory = make()
    tell(memory, 2)
    with pytest.raises(ValueError, match=r"no column \['rewards'\]; there are .*'reward'"):
        memory.sample(2, columns=["obs", "rewards"])


@pytest.mark.parametrize(
    ("limit", "shared"),
    [
        (5, {"window_length": 4, "n_step": 2}),
        (9, {"num_envs": 2, "window_length": 4}),
        (3, {"num_envs": 2}),
    ],
)
def test_a_memory_that_could_never_give_anything_is_refused(limit: int, shared) -> None:
    with pytest.raises(UsageError, match=f"memory_limit {limit} gives each of .* envs"):
        make(limit, **shared)


def test_the_least_memory_gives_something() -> None:
    memory = make(5, window_length=4, n_step=1)
    tell(memory, 30)
    assert len(memory) == 1
    assert memory.sample(3)["obs"].tolist() == [[26, 27, 28, 29]] * 3


def test_capacity_rows_full_and_ready() -> None:
    memory = make(21, num_envs=2)
    assert (memory.capacity, memory.rows, memory.full) == (20, 0, False)
    writer = memory.writer()
    two = {"obs": np.zeros(2, F32)}
    assert not memory.ready(1)
    writer.start(two)
    assert not memory.ready(1)
    none = np.zeros(2, np.bool_)
    for at in range(9):
        writer.append(np.zeros(2, int), np.zeros(2), none, none, two)
        assert memory.ready(2 * at + 2)
        assert not memory.full or at == 8
        assert memory.ready(2 * at + 3) == (at == 8)  # full: as many as there can be
    assert (memory.rows, len(memory), memory.full) == (20, 18, True)
    assert memory.ready(10_000)


def test_plan_and_usage_agree_once_full() -> None:
    memory = make(10, observations=PIXELS, options={"frame_codec": "raw"})
    assert memory.bytes_full == 10 * (84 * 84 + 16 + 1), "a counter a row too"
    assert memory.usage() == {"heap": 0}
    writer = memory.writer()
    writer.start({"obs": np.zeros((1, 84, 84), U8)})
    assert memory.usage() == {"heap": 84 * 84 + 16 + 1}
    no = np.zeros(1, np.bool_)
    for _ in range(25):
        writer.append(np.zeros(1, int), np.zeros(1), no, no, {"obs": np.zeros((1, 84, 84), U8)})
    assert memory.usage() == {"heap": memory.bytes_full}


def test_float_frames_say_how_to_go_on() -> None:
    floats = {"obs": ArraySpec((16, 16), F32)}
    raw = {"frame_codec": "raw"}
    memory = make(observations=floats, options=raw)
    with pytest.raises(UsageError, match="--float_frames keep"):
        memory.writer().start({"obs": np.full((1, 16, 16), 0.5, F32)})
    kept = make(observations=floats, options={**raw, "float_frames": "keep"})
    kept.writer().start({"obs": np.full((1, 16, 16), 0.5, F32)})
    assert kept.rows == 1
    assert kept.bytes_full - memory.bytes_full == 20 * 256 * 3


def filled(n_step: int, codec: str) -> SequentialMemory:
    options = {"frame_codec": codec}
    memory = make(600, observations=PIXELS, window_length=4, n_step=n_step, options=options)
    writer = memory.writer()
    writer.start({"obs": np.zeros((1, 84, 84), U8)})
    no, rng = np.zeros(1, np.bool_), np.random.default_rng(0)
    for _ in range(300):
        frame = np.zeros((1, 84, 84), U8)
        frame[0, :20] = rng.integers(0, 256, (20, 84))
        writer.append(np.zeros(1, int), np.zeros(1), no, no, {"obs": frame})
    memory.sample(500)  # every loop is compiled by then
    return memory


def peak(work) -> tuple[int, object]:
    """The most that `work` holds at once beyond what was there, and its result."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = work()
        return tracemalloc.get_traced_memory()[1] - before, result
    finally:
        tracemalloc.stop()


CODECS = {"raw": 0, "lz4": 0, "zstd": 16 * 84 * 84}
"""What a codec may take beside the output: zstandard gives a decoded chunk as bytes of its own."""


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("n_step", [1, 3])
def test_a_sample_is_one_copy(n_step: int, codec: str) -> None:
    memory = filled(n_step, codec)
    stack, slack = 32 * 4 * 84 * 84, SLACK + CODECS[codec]
    used, batch = peak(lambda: memory.sample(32))
    assert batch["obs"].nbytes == batch["next_obs"].nbytes == stack
    assert used <= 2 * stack + slack
    used, _ = peak(lambda: memory.sample(32, columns=["obs", "action"]))
    assert stack <= used <= stack + slack
    out = {name: np.empty_like(array) for name, array in batch.items()}
    used, again = peak(lambda: memory.sample(32, out=out))
    assert again["obs"] is out["obs"]
    assert used <= slack


def test_a_sample_of_packed_rows_is_one_copy() -> None:
    memory = make(50, observations={"obs": ArraySpec((7_000,), F32)}, n_step=2)
    writer = memory.writer()
    no = np.zeros(1, np.bool_)
    writer.start({"obs": np.zeros((1, 7_000), F32)})
    for at in range(9):
        row = {"obs": np.full((1, 7_000), at, F32)}
        writer.append(np.zeros(1, int), np.zeros(1), no, no, row)
    memory.sample(2)
    used, batch = peak(lambda: memory.sample(32, columns=["obs", "next_obs"]))
    assert used <= sum(array.nbytes for array in batch.values()) + SLACK


@pytest.mark.parametrize("codec", CODECS)
def test_an_append_is_one_copy(codec: str) -> None:
    options = {"frame_codec": codec}
    memory = make(4_000, observations=PIXELS, window_length=4, num_envs=8, options=options)
    writer = memory.writer()
    rng = np.random.default_rng(0)
    frames = {"obs": rng.integers(0, 256, (8, 84, 84)).astype(U8)}
    no = np.zeros(8, np.bool_)
    writer.start(frames)
    arguments = (np.zeros(8, int), np.zeros(8), no, no, frames)
    for _ in range(100):  # priors are learnt by then
        writer.append(*arguments)
    chunk = 0 if codec == "raw" else 16 * 84 * 84
    # the ring was taken before: what an append takes is its small change, and a chunk being coded
    for _ in range(20):
        assert peak(lambda: writer.append(*arguments))[0] <= SLACK + chunk
    assert peak(lambda: writer.start(frames))[0] <= SLACK + chunk
