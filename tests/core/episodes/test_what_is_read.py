"""A reader asked for some columns reads little else."""

import numpy as np
import pytest

from core.memories.episodic import EpisodicMemory, EpisodicOptions
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.types import ArraySpec, DiscreteActions, EnvSpec

ENV = EnvSpec({"obs": ArraySpec((16, 16), np.dtype(np.uint8))}, DiscreteActions(3))
SINGLE: dict[str, set[str]] = {
    "obs": {"obs"},
    "next_obs": {"obs"},
    "action": {"action"},
    "reward": set(),
    "discount": set(),
    "weight": set(),
    "id": set(),
}
"""Beside the books of rows, which are always read: they say what follows a start."""


def reads(memory, column: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The columns of the ring that a sample of one column reads."""
    seen: set[str] = set()
    ring, gather, fields = memory._ring, type(memory._ring).gather, type(memory._ring).fields

    def watched(name, *rest):
        seen.add(name)
        return gather(ring, name, *rest)

    def asked(wishes):
        seen.update(wish.column for wish in wishes.values())
        return fields(ring, wishes)

    memory.sample(4)
    monkeypatch.setattr(ring, "gather", watched)
    monkeypatch.setattr(ring, "fields", asked)
    monkeypatch.setattr(memory.starts, "legal", lambda lanes, rows: np.ones(len(rows), np.bool_))
    memory.sample(4, columns=[column])
    return seen


def filled(kind, options, **shared):
    memory = kind(options, MemoryContext(ENV, SharedOptions(**shared), np.random.default_rng(0)))
    writer, no = memory.writer(), np.zeros(1, np.bool_)
    writer.start({"obs": np.zeros((1, 16, 16), np.uint8)})
    for _ in range(20):
        frame = {"obs": np.zeros((1, 16, 16), np.uint8)}
        writer.append(np.zeros(1, np.int64), np.zeros(1), no, no, frame)
    return memory


@pytest.mark.parametrize("column", SINGLE)
def test_a_transition(column: str, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = filled(SequentialMemory, SequentialOptions(memory_limit=30), window_length=2)
    assert reads(memory, column, monkeypatch) == SINGLE[column]


def test_a_later_successor_needs_to_know_how_far_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = filled(SequentialMemory, SequentialOptions(memory_limit=30), n_step=3)
    assert reads(memory, "next_obs", monkeypatch) == {"obs"}


@pytest.mark.parametrize(
    ("column", "more"),
    [("obs", {"obs"}), ("action", {"action"}), ("reward", {"reward"}),
     ("discount", {"terminal"}), ("mask", set()), ("id", set())],
)  # fmt: skip
def test_a_window(column: str, more: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    memory = filled(EpisodicMemory, EpisodicOptions(memory_limit=30), trajectory_length=4)
    assert reads(memory, column, monkeypatch) == {"age", "closing"} | more
