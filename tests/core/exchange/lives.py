"""Memories that have lived, and what is in them: by the slow twin, and unit by unit."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from core.exchange.episodes import RingEpisodes, Source, joined
from core.memories.sequential import SequentialMemory
from core.types import ArraySpec, Columns
from tests.core.envs.optional import needs
from tests.oracles.compare import read_all
from tests.oracles.history import Episode, History
from tests.oracles.worlds import CODES, EXTRAS, Twin, World

DATA = needs("h5py", "minari", unless="ENGRAM_REQUIRE_DATA")


def lived(world: World, life: bytes) -> Twin:
    """A twin after the events of a life."""
    twin = Twin(world)
    for tick in range(len(life) // world.lanes):
        codes = life[tick * world.lanes : (tick + 1) * world.lanes]
        twin.tick([CODES[code % len(CODES)] for code in codes])
    return twin


def source_of(memory: SequentialMemory) -> RingEpisodes:
    return RingEpisodes(memory.ring, memory._env)


@dataclass(frozen=True)
class Wanted:
    """What has to be handed over of an episode."""

    lane: int
    first_row: int
    age: int
    ended: str
    columns: Columns


def wanted(world: World, history: History) -> list[Wanted]:
    """What is held by the words of `Held` and `Source.pieces`, from everything that happened."""
    found = []
    for lane, episodes in enumerate(history.episodes):
        for episode in episodes:
            age = max(history.oldest(lane) - episode.base, 0)
            if age < len(episode.observations):
                open_ = episode is episodes[-1] and not episode.over
                columns = _columns(world, episode, age)
                ended = "open" if open_ else _ending(columns)
                found.append(Wanted(lane, episode.base + age, age, ended, columns))
    return found


def _ending(columns: Columns) -> str:
    terminal = columns["terminal"]
    return "terminated" if len(terminal) and terminal[-1] else "truncated"


def _columns(world: World, episode: Episode, age: int) -> Columns:
    observations, steps = episode.observations[age:], episode.steps[age:]
    columns = {
        name: _stacked([obs[name] for obs in observations], spec)
        for name, spec in world.env.observations.items()
    }
    columns["action"] = _stacked([step.action for step in steps], world.env.actions.spec)
    columns["reward"] = np.array([step.reward for step in steps], np.float32)
    columns["terminal"] = np.array([step.terminal for step in steps], np.bool_)
    for name, spec in EXTRAS[world.extras].items():
        columns[name] = _stacked([step.extras[name] for step in steps], spec)
    return columns


def _stacked(items: list, spec: ArraySpec) -> np.ndarray:
    return np.array(items, spec.dtype).reshape(-1, *spec.shape)


def assert_hands_over(source: Source, expected: list[Wanted]) -> None:
    """Asserts that a source has exactly those episodes, each column to the bit."""
    places = [(one.lane, one.first_row, one.age, one.ended) for one in source.held]
    assert places == [(one.lane, one.first_row, one.age, one.ended) for one in expected]
    for number, one in enumerate(expected):
        found = joined(source, number)
        assert source.held[number].steps == len(one.columns["reward"])
        for name, array in one.columns.items():
            assert found[name].dtype == array.dtype, name
            assert found[name].shape == array.shape, name
            assert found[name].tobytes() == array.tobytes(), name


def units(memory: SequentialMemory) -> Counter[bytes]:
    """Every unit that a memory may give, but for its name."""
    batch = read_all(memory)
    names = sorted(batch.keys() - {"id"})
    count = len(batch["id"])
    return Counter(b"".join(batch[name][at].tobytes() for name in names) for at in range(count))
