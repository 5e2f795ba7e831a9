"""Priorities in a log: what changed, and all of it again once that is shorter."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.memory_log import MemoryLog
from core.options import SharedOptions
from core.types import ArraySpec, DiscreteActions, EnvSpec
from tests.harness import equal_trees

ENV = EnvSpec({"obs": ArraySpec((3,), np.dtype(np.float32))}, DiscreteActions(2))
ROWS = 4_000


def never_said(line: str) -> None:
    raise AssertionError(line)


def memory() -> SequentialMemory:
    options = SequentialOptions(memory_limit=ROWS, sampler="prioritized")
    context = MemoryContext(ENV, SharedOptions(num_envs=2), np.random.default_rng(0))
    return SequentialMemory(options, context)


class Life:
    """A memory that is written, drawn from and told errors."""

    def __init__(self, store: SequentialMemory) -> None:
        self.store = store
        self.writer = store.writer()
        self.rng = np.random.default_rng(5)
        self.writer.start({"obs": np.zeros((2, 3), np.float32)})

    def steps(self, count: int, batches: int = 0) -> None:
        no = np.zeros(2, np.bool_)
        for _ in range(count):
            obs = self.rng.normal(size=(2, 3)).astype(np.float32)
            self.writer.append(np.zeros(2, int), np.ones(2), no, no, {"obs": obs})
        for _ in range(batches):
            ids = self.store.sample(32)["id"]
            self.store.feedback(ids, self.rng.normal(size=32))


def same(one: SequentialMemory, two: SequentialMemory) -> None:
    assert equal_trees(one.state(), two.state())
    for _ in range(3):
        assert np.array_equal(one.sample(64)["id"], two.sample(64)["id"])


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("segment-*"))


@pytest.mark.parametrize("lives", [[(50, 0)], [(500, 30), (500, 30), (10, 1)], [(3_000, 100)] * 4])
def test_they_come_back(tmp_path: Path, lives: list[tuple[int, int]]) -> None:
    life = Life(memory())
    log = MemoryLog(life.store, tmp_path, 20_000)
    for steps, batches in lives:
        life.steps(steps, batches)
        log.commit()
        other = memory()
        again = MemoryLog(other, tmp_path, 20_000)
        again.load(never_said)
        again.close()
        state: Any = life.store._rng.bit_generator.state
        same(life.store, other)
        life.store._rng.bit_generator.state = state
    log.close()


def test_who_goes_on_from_a_log_saves_as_who_went_on(tmp_path: Path) -> None:
    life = Life(memory())
    log = MemoryLog(life.store, tmp_path, 20_000)
    life.steps(1_500, 40)
    log.commit()
    log.close()
    other = Life(memory())
    log = MemoryLog(other.store, tmp_path, 20_000)
    log.load(never_said)
    other.writer = other.store.writer()
    for _ in range(6):
        other.steps(100, 20)
        log.commit()
    log.close()
    third = memory()
    log = MemoryLog(third, tmp_path, 20_000)
    log.load(never_said)
    log.close()
    same(other.store, third)


def test_a_commit_writes_what_changed(tmp_path: Path) -> None:
    life = Life(memory())
    log = MemoryLog(life.store, tmp_path)
    life.steps(2_500, 10)
    log.commit()
    first = size(tmp_path)
    assert first > ROWS * 12
    life.steps(ROWS // 200, 2)  # a hundredth is new, and 64 errors were told
    log.commit()
    assert 64 * 12 < size(tmp_path) - first <= 0.05 * first
    log.close()


def test_what_was_written_before_all_of_them_is_let_go(tmp_path: Path) -> None:
    life = Life(memory())
    log = MemoryLog(life.store, tmp_path, 4_000)
    life.steps(2_500, 10)
    sizes = []
    for _ in range(60):
        life.steps(1, 20)
        log.commit()
        sizes.append(size(tmp_path))
    assert max(sizes[30:]) < 1.2 * max(sizes[:30]), "they do not pile up"
    log.close()
