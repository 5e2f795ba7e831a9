"""What any memory of steps has to do, whichever it is. The factory's table enrols them."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from core.errors import CorruptMemoryError
from core.memory import Memory, MemoryContext
from core.options import SharedOptions
from core.types import ArraySpec, DiscreteActions, EnvSpec, Unit
from utils.factory import MEMORIES as TABLE
from utils.factory import resolve_name

KINDS: list[type[Memory]] = [resolve_name(entry.target) for entry in TABLE.values()]
MEMORIES = [kind for kind in KINDS if kind.gives in (Unit.TRANSITIONS, Unit.TRAJECTORIES)]
ROOT = Path(__file__).resolve().parents[2]
ENV = EnvSpec(
    {
        "obs.frame": ArraySpec((16, 16), np.dtype(np.uint8)),
        "obs.body": ArraySpec((2,), np.dtype(np.float32)),
    },
    DiscreteActions(3),
)
EXTRAS = {"mark": ArraySpec((), np.dtype(np.float32))}
LANES = 2
SHARED = SharedOptions(num_envs=LANES, window_length=2, n_step=2, trajectory_length=5)

pytestmark = pytest.mark.parametrize("kind", MEMORIES, ids=lambda kind: kind.__name__)


def make(kind: type[Memory], limit: int = 60, seed: int = 0, codec: str | None = None) -> Memory:
    context = MemoryContext(ENV, SHARED, np.random.default_rng(seed), EXTRAS)
    return kind(options_of(kind, limit, codec), context)


def options_of(kind: type[Memory], limit: int, codec: str | None):
    """Options of a kind; a codec only where pictures are kept."""
    keeps = codec is not None and "frame_codec" in kind.Options.model_fields
    return kind.Options(memory_limit=limit, **({"frame_codec": codec} if keeps else {}))


def observation(number: int) -> dict[str, np.ndarray]:
    """An observation that names its moment, twice, for both lanes."""
    names = np.array([number, number + 100])
    return {
        "obs.frame": np.broadcast_to(names[:, None, None], (LANES, 16, 16)).astype(np.uint8),
        "obs.body": np.stack([names, -names], 1).astype(np.float32),
    }


def arguments(number: int, *, last: bool = False) -> dict:
    return {
        "action": np.array([number % 3] * LANES),
        "reward": np.array([number, -number], np.float64),
        "terminated": np.array([last, False]),
        "truncated": np.array([False, last]),
        "next_obs": observation(number),
        "extras": {"mark": np.array([number, number + 0.5], np.float32)},
    }


def fill(memory: Memory, steps: int, length: int = 7, spoil: bool = False) -> None:
    writer = memory.writer()
    for step in range(steps):
        if step % length == 0:
            first = observation(0)
            writer.start(first)
            if spoil:
                ruin(first)
        told = arguments(step % length + 1, last=(step + 1) % length == 0)
        writer.append(**told)
        if spoil:
            ruin(told)


def ruin(arrays: dict) -> None:
    for array in arrays.values():
        if isinstance(array, dict):
            ruin(array)
        else:
            array[...] = 1


def same(one: dict, two: dict) -> bool:
    return one.keys() == two.keys() and all(np.array_equal(one[k], two[k]) for k in one)


def copied(tree):
    if isinstance(tree, dict):
        return {key: copied(value) for key, value in tree.items()}
    return tree.copy() if isinstance(tree, np.ndarray) else tree


def test_what_is_written_is_copied(kind: type[Memory]) -> None:
    honest, spoilt = make(kind), make(kind)
    fill(honest, 100)
    fill(spoilt, 100, spoil=True)
    assert same(honest.sample(400), spoilt.sample(400))


def test_what_is_sampled_is_the_caller_s(kind: type[Memory]) -> None:
    memory, untouched = make(kind), make(kind)
    fill(memory, 100)
    fill(untouched, 100)
    for _ in range(3):
        batch = memory.sample(200)
        assert same(batch, untouched.sample(200))
        assert all(array.flags.writeable for array in batch.values())
        ruin(batch)
    memory.check()


def test_out_is_filled_and_columns_are_chosen(kind: type[Memory]) -> None:
    memory, other = make(kind), make(kind)
    fill(memory, 50)
    fill(other, 50)
    whole = memory.sample(30)
    out = {name: np.zeros_like(array) for name, array in whole.items()}
    filled = other.sample(30, out=out)
    assert same(filled, whole)
    assert all(filled[name] is out[name] for name in out)
    some = sorted(whole)[:2]
    one, two = memory.sample(30, columns=some), other.sample(30)
    assert same(one, {name: two[name] for name in some})


def test_it_is_empty_until_it_is_not(kind: type[Memory]) -> None:
    memory = make(kind)
    assert (len(memory), memory.rows, memory.full, memory.ready(1)) == (0, 0, False, False)
    with pytest.raises(ValueError, match="nothing"):
        memory.sample(1)
    memory.check()
    fill(memory, 7)
    assert memory.ready(1)
    assert len(memory) > 0
    assert isinstance(memory.gives, Unit)


def test_it_never_holds_more_than_it_says(kind: type[Memory]) -> None:
    memory = make(kind, limit=41)
    assert memory.capacity <= 41
    for _ in range(6):
        fill(memory, 21)
        assert memory.rows <= memory.capacity
        assert len(memory) <= memory.rows
        assert sum(memory.usage().values()) <= kind.plan(*_plan_arguments(kind, 41)).bytes_high
        memory.check()
    assert memory.full
    plan = kind.plan(*_plan_arguments(kind, 41))
    assert memory.bytes_full == plan.bytes_full
    assert plan.bytes_low <= plan.bytes_full <= plan.bytes_high
    assert 0 < plan.rows_full <= memory.capacity


def test_without_compression_its_bytes_are_known_exactly(kind: type[Memory]) -> None:
    memory = make(kind, limit=41, codec="raw")
    for _ in range(6):
        fill(memory, 21)
    assert sum(memory.usage().values()) == memory.bytes_full


def _plan_arguments(kind: type[Memory], limit: int):
    context = MemoryContext(ENV, SHARED, np.random.default_rng(0), EXTRAS)
    return kind.Options(memory_limit=limit), context


def test_same_generator_same_batches(kind: type[Memory]) -> None:
    one, two, other = make(kind, seed=1), make(kind, seed=1), make(kind, seed=2)
    for memory in (one, two, other):
        fill(memory, 50)
    assert same(one.sample(50), two.sample(50))
    assert not same(one.sample(50), other.sample(50))


def test_a_saved_memory_goes_on(kind: type[Memory]) -> None:
    memory = make(kind, seed=3)
    fill(memory, 90)
    memory.sample(5)
    saved = copied(memory.state())
    resumed = make(kind, seed=4)
    fill(resumed, 10)
    resumed.load(saved)
    resumed.check()
    assert (len(resumed), resumed.rows) == (len(memory), memory.rows)
    assert same(memory.sample(70), resumed.sample(70))
    fill(memory, 8)
    fill(resumed, 8)
    assert same(memory.sample(70), resumed.sample(70))


def test_a_memory_of_another_shape_is_not_loaded(kind: type[Memory]) -> None:
    memory, smaller = make(kind, 60), make(kind, 40)
    fill(memory, 90)
    fill(smaller, 90)
    before = copied(smaller.state())
    with pytest.raises(ValueError, match="a store of"):
        smaller.load(memory.state())
    assert same(before["ring"]["frames"], smaller.state()["ring"]["frames"])
    smaller.check()


@pytest.mark.parametrize("what", ["head", "tail", "row"])
def test_check_raises_on_what_is_wrong(kind: type[Memory], what: str) -> None:
    memory = make(kind)
    fill(memory, 100)
    memory.check()
    state = memory.state()["ring"]  # the arrays themselves, so that they can be broken
    if what == "head":
        state["heads"][1] += 100
    elif what == "tail":
        state["tails"][0] = state["heads"][0] + 1
    else:
        state["records"][13] ^= 255
    with pytest.raises(CorruptMemoryError, match="lane"):
        memory.check()


CHILD = """
import sys, json
import numpy as np
from tests.contracts.test_memory_contract import MEMORIES, options_of
from core.memory import MemoryContext
from core.memory_watch import private_bytes
from core.options import SharedOptions
from core.types import ArraySpec, DiscreteActions, EnvSpec

kind = next(kind for kind in MEMORIES if kind.__name__ == sys.argv[1])
env = EnvSpec({"obs": ArraySpec((84, 84), np.dtype(np.uint8))}, DiscreteActions(6))
rows = 200_000_000 // 7056
context = MemoryContext(env, SharedOptions(num_envs=4), np.random.default_rng(0))
memory = kind(options_of(kind, rows, sys.argv[2]), context)
rng = np.random.default_rng(0)
noise = rng.integers(0, 256, (64, 4, 84, 84)).astype(np.uint8)
writer = memory.writer()
no = np.zeros(4, bool)
def fill(steps):
    for step in range(steps):
        frames = noise[rng.integers(64)]
        if step % 100 == 0:
            writer.start({"obs": frames})
        end = np.full(4, step % 100 == 99)
        writer.append(np.zeros(4, int), np.zeros(4), end, no, {"obs": frames})
fill(200)
before, used = private_bytes(), sum(memory.usage().values())
told = []
for _ in range(4):
    fill(rows // 4 // 3)
    told.append([sum(memory.usage().values()) - used, private_bytes() - before])
assert memory.full
print(json.dumps(told))
"""


@pytest.mark.parametrize("codec", ["raw", "lz4", "zstd"])
def test_usage_is_what_the_system_says(kind: type[Memory], codec: str) -> None:
    if codec != "raw" and "frame_codec" not in kind.Options.model_fields:
        return
    done = subprocess.run(
        [sys.executable, "-c", CHILD, kind.__name__, codec],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
        env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    told = json.loads(done.stdout)
    for claimed, private in told:
        assert abs(private - claimed) <= 0.02 * claimed + 8e6
    assert told[-1][0] > 180e6
