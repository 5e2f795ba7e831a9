"""Reports about prioritized sampling, each kept from coming back. Named after their ids."""

import math

import numpy as np
import pytest

from core.errors import RunFailedError
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.sampling.tree import SumTree
from core.sampling.uniform import all_starts
from core.types import ArraySpec, DiscreteActions, EnvSpec
from tests.harness import Run
from utils.options import CONFIGS

NUMBER = EnvSpec({"obs": ArraySpec((), np.dtype(np.float32))}, DiscreteActions(2))


def priorities(kind: str, capacity: int) -> np.ndarray:
    """Whole numbers, of which sums are exact."""
    if kind == "equal":
        return np.full(capacity, 3.0)
    return np.floor(np.random.default_rng(capacity).pareto(0.7, capacity) * 4).clip(0, 10**6) + 1


def chi_square(counts: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    """The statistic, and what it exceeds with p = 0.001 (Wilson and Hilferty)."""
    spread = 2 / (9 * (len(counts) - 1))
    bound = (len(counts) - 1) * (1 - spread + 3.09 * math.sqrt(spread)) ** 3
    return float(((counts - expected) ** 2 / expected).sum()), bound


@pytest.mark.parametrize("kind", ["equal", "skewed"])
@pytest.mark.parametrize("capacity", [3, 5, 6, 7, 1000])
def test_mem_19_sampling_is_exact_for_any_capacity(capacity: int, kind: str) -> None:
    values = priorities(kind, capacity)
    tree = SumTree(capacity)
    tree.put(np.arange(capacity), values)
    total = values.sum()
    probes = np.unique(np.concatenate([np.cumsum(values), np.linspace(0, total, 40_001)]))
    probes = np.concatenate([probes, probes - 0.25, probes + 0.25])
    probes = probes[(probes >= 0) & (probes < total)]
    assert (tree.find(probes) == np.searchsorted(np.cumsum(values), probes, "right")).all()
    draws = 50_000
    drawn = tree.find(np.random.default_rng(1).random(draws) * total)
    likely = values / total * draws >= 5  # chi-square wants some of each: the others together
    counts = np.bincount(drawn, minlength=capacity)
    found = np.append(counts[likely], counts[~likely].sum())
    expected = np.append(values[likely], values[~likely].sum()) / total * draws
    found, expected = found[expected > 0], expected[expected > 0]
    statistic, bound = chi_square(found, expected)
    assert statistic < bound


def test_mem_20_a_batch_larger_than_what_is_stored_waits(tmp_path) -> None:
    row = {**CONFIGS["dqn_cartpole_prioritized"], "visdom": "off"}
    keys = {"batch_size": 64, "learn_start": 10, "train_interval": 1, "updates": 1, "steps": 200}
    run = Run(tmp_path, row, **keys, eval_freq=0, log_freq=10).go()
    learnt = [int(line["updates"]) > 0 for line in run.rows]
    first = int(run.rows[learnt.index(True)]["step"])
    assert 64 <= first <= 90
    assert not any(learnt[: learnt.index(True)])


def test_mem_20_indices_are_in_range_for_60_000_cycles() -> None:
    shared = SharedOptions(batch_size=64)
    options = SequentialOptions(memory_limit=500, sampler="prioritized")
    memory = SequentialMemory(options, MemoryContext(NUMBER, shared, np.random.default_rng(0)))
    writer, no, rng = memory.writer(), np.zeros(1, np.bool_), np.random.default_rng(1)
    zero = {"obs": np.zeros(1, np.float32)}
    errors = rng.standard_normal((1_000, 64)) * 10.0 ** rng.uniform(-12, 12, (1_000, 1))
    writer.start(zero)
    for cycle in range(60_000):
        end = np.array([cycle % 37 == 0])
        writer.append(np.zeros(1, int), np.zeros(1), end, no, zero)
        if end[0]:
            writer.start(zero)
        ids = memory.sample(64, columns=["id"])["id"]
        assert ids.min() >= memory.ring.tails[0]
        assert ids.max() < memory.ring.heads[0] - 1
        memory.feedback(ids, errors[cycle % 1_000])
    memory.check()
    assert memory.stale_feedback == 0
    _, rows = all_starts(memory.starts)
    assert set(ids.tolist()) <= set(rows.tolist())


def test_agt_09_priority_grows_with_the_size_of_the_error() -> None:
    options = SequentialOptions(memory_limit=10, sampler="prioritized")
    context = MemoryContext(NUMBER, SharedOptions(), np.random.default_rng(0))
    memory = SequentialMemory(options, context)
    writer, no = memory.writer(), np.zeros(1, np.bool_)
    writer.start({"obs": np.zeros(1, np.float32)})
    for _ in range(3):
        writer.append(np.zeros(1, int), np.zeros(1), no, no, {"obs": np.zeros(1, np.float32)})
    units = memory.sample(3)["id"]
    memory.feedback(units, np.array([-5.0, 0.1, 0.0], np.float32))
    tree = memory._priorities._tree
    most, some, least = tree.leaves[:3].tolist()
    assert most > some > least > 0
    for wrong in (np.nan, np.inf):
        with pytest.raises(RunFailedError, match="is not finite"):
            memory.feedback(units, np.array([1.0, wrong, 1.0], np.float32))
        assert tree.leaves[:3].tolist() == [most, some, least]
        memory.check()
        assert set(memory.sample(50)["id"].tolist()) <= {0, 1, 2}
