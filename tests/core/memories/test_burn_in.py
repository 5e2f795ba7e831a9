"""Steps before a window, against a slow twin and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.memories.episodic import EpisodicMemory, EpisodicOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.sampling.uniform import Draw, all_starts
from tests.conftest import examples
from tests.core.sampling.sampled import NUMBER, play
from tests.oracles.compare import assert_identical
from tests.oracles.episodic_history import LIVES, EpisodicTwin, worlds
from tests.oracles.history import Unit


def expected(history, unit: Unit, burn_in: int) -> dict[str, np.ndarray]:
    """The window of a unit with what comes before it, by the words of the docs."""
    at, length = unit.at, history.length
    before = 0
    while before < min(burn_in, at):
        back = at - before - 1
        if unit.episode.base + max(0, back - (history.window - 1)) < history.oldest(unit.lane):
            break
        before += 1
    after = min(length, len(unit.episode.steps) - at)
    places = [at - min(k, before) for k in range(burn_in, 0, -1)]
    places += [at + min(k, after) for k in range(length + 1)]
    left = [False] * (burn_in - before)
    warm = left + [True] * before + [False] * length
    mask = [False] * burn_in + [k < after for k in range(length)]
    wanted = {"burn_in": np.array(warm), "mask": np.array(mask)}
    steps = [unit.episode.steps[min(p, at + after - 1)] for p in places[:-1]]
    there = wanted["burn_in"] | wanted["mask"]
    wanted["reward"] = np.where(there, [x.reward for x in steps], 0).astype(np.float32)
    gammas = [0.0 if x.terminal else history.gamma for x in steps]
    wanted["discount"] = np.where(there, gammas, 1).astype(np.float32)
    for name in unit.episode.observations[0]:
        wanted[name] = np.array([history._stack(unit.episode, name, p) for p in places])
    actions = np.array([x.action for x in steps])
    wanted["action"] = actions[there]
    return wanted


@examples(30)
@given(worlds(), LIVES, st.integers(1, 6))
def test_what_comes_before_is_what_happened(world, life: bytes, burn_in: int) -> None:
    twin = EpisodicTwin(world)
    twin.live(life)
    memory = twin.memory
    reader = memory.reader
    reader.__init__(memory._view, world.env, memory.reader._stored[1:], shared_of(world), burn_in)
    lanes, rows = all_starts(memory.starts)
    if not len(rows):
        return
    batch = reader.read(Draw(lanes, rows, np.ones(len(rows), np.float32)))
    assert set(batch) == set(reader.columns)
    for place, unit in enumerate(twin.history.units()):
        wanted = expected(twin.history, unit, burn_in)
        there = wanted["burn_in"] | wanted["mask"]
        for name, array in wanted.items():
            found = batch[name][:, place]
            assert_identical(name, found[there] if name == "action" else found, array)


def shared_of(world) -> SharedOptions:
    return SharedOptions(
        window_length=world.window, trajectory_length=world.length, gamma=world.gamma,
        num_envs=world.lanes,
    )  # fmt: skip


def make(**options) -> EpisodicMemory:
    shared = SharedOptions(trajectory_length=3, gamma=0.5)
    context = MemoryContext(NUMBER, shared, np.random.default_rng(0))
    return EpisodicMemory(EpisodicOptions(memory_limit=100, **options), context)


def test_by_hand() -> None:
    # one episode of five steps, rewards 1 to 5, observation k before step k; b = 2 and T = 3
    memory = make(burn_in=2)
    play(memory, [1, 2, 3, 4, 5], length=5)
    batch = memory.sample(200)
    windows = {int(unit): place for place, unit in enumerate(batch["id"])}
    at = {unit: {name: batch[name][:, place].squeeze() for name in
                 ("obs", "reward", "discount", "mask", "burn_in")}
          for unit, place in windows.items()}  # fmt: skip
    assert at[0]["obs"].tolist() == [0, 0, 0, 1, 2, 3]
    assert at[0]["burn_in"].tolist() == [False, False, False, False, False]
    assert at[0]["reward"].tolist() == [0, 0, 1, 2, 3]
    assert at[0]["discount"].tolist() == [1, 1, 0.5, 0.5, 0.5]
    assert at[1]["obs"].tolist() == [0, 0, 1, 2, 3, 4]
    assert at[1]["burn_in"].tolist() == [False, True, False, False, False]
    assert at[4]["obs"].tolist() == [2, 3, 4, 5, 5, 5]
    assert at[4]["reward"].tolist() == [3, 4, 5, 0, 0]
    assert at[4]["discount"].tolist() == [0.5, 0.5, 0, 1, 1]
    assert at[4]["burn_in"].tolist() == [True, True, False, False, False]
    assert at[4]["mask"].tolist() == [False, False, True, False, False]


def test_the_newest_windows_have_it_too() -> None:
    memory = make(burn_in=2)
    play(memory, np.arange(10), length=100)
    batch = memory.latest()
    assert batch["obs"].squeeze().tolist() == [5, 6, 7, 8, 9, 10]
    assert batch["burn_in"].squeeze().tolist() == [True, True, False, False, False]


def test_without_it_there_is_no_such_column() -> None:
    memory = make()
    play(memory, [1, 2])
    assert "burn_in" not in memory.sample(2)
    with pytest.raises(ValueError, match="no column"):
        memory.sample(2, columns=["burn_in"])
