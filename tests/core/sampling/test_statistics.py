"""Statistics of use against plain counting."""

import copy
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given

from core.sampling.statistics import EPISODES, Use, use_bytes
from tests.conftest import examples
from tests.oracles import test_episodic_oracle as episodic
from tests.oracles.episodic_history import EpisodicTwin
from tests.oracles.test_sequential_oracle import LIVES, SHORT, worlds
from tests.oracles.worlds import World

from .sampled import Rounded, RoundedTwin, memory_of, play


class RoundedEpisodicTwin(Rounded, EpisodicTwin):
    pass


class Counting:
    """Counts draws of a twin's memory as a plain dict does, and compares."""

    def __init__(self, twin) -> None:
        self.twin = twin
        self.use = Use(twin.memory._ring, twin.memory._view)
        self.rng = np.random.default_rng(0)
        self.counts: Counter = Counter()
        self.distinct: list[float] = []
        self.ages: list[int] = []

    def look(self) -> None:
        twin, history = self.twin, self.twin.history
        if self.rng.random() < 0.8 and len(twin.memory):
            starts = twin.memory.starts
            draw = twin.memory._sampler.draw(starts, int(self.rng.integers(1, 9)), self.rng)
            self.use.tell(draw.lanes, draw.rows)
            ids = list(zip(draw.lanes.tolist(), draw.rows.tolist(), strict=True))
            self.counts.update(ids)
            self.distinct.append(len(set(ids)) / len(ids))
            self.ages += [history.written(lane) - 1 - row for lane, row in ids]
        else:
            self.use.histogram()  # whoever looks takes in what is new
        if self.rng.random() < 0.3:
            self.compare()

    def compare(self) -> None:
        history = self.twin.history
        held = [
            (lane, episode.base + at)
            for lane, episodes in enumerate(history.episodes)
            for episode in episodes
            for at in range(len(episode.steps))
            if episode.base + at >= history.oldest(lane)
        ]
        wanted = np.bincount([min(self.counts[unit], 255) for unit in held], minlength=256)
        assert self.use.histogram().tolist() == wanted.tolist()
        returns = sorted(
            sum(step.reward for step in episode.steps)
            for lane, episodes in enumerate(history.episodes)
            for episode in episodes[:-1]  # one is known to be over once a newer one has begun
            if episode.base >= history.oldest(lane)
        )
        assert sorted(self.use.returns().tolist()) == returns
        means = self.use.read()
        lanes = self.twin.world.lanes
        for name, values, factor in (
            ("sample_age", self.ages, lanes), ("sample_distinct", self.distinct, 1),
            ("never_drawn", [self.counts[unit] == 0 for unit in held], 1),
            ("memory_return_mean", returns, 1),
        ):  # fmt: skip
            assert means[name] == (pytest.approx(factor * np.mean(values)) if values else None)
        self.distinct, self.ages = [], []


@examples(25)
@given(worlds(), LIVES)
def test_counts_are_those_of_plain_counting(world: World, life: bytes) -> None:
    twin = RoundedTwin(world)
    twin.after_each = Counting(twin).look
    twin.live(life)


@examples(15)
@given(episodic.worlds(), SHORT)
def test_also_where_episodes_go_as_a_whole(world, life: bytes) -> None:
    twin = RoundedEpisodicTwin(world)
    twin.after_each = Counting(twin).look
    twin.live(life)


def use_of(memory) -> Use:
    return Use(memory._ring, memory._view)


def test_a_counter_stays_at_its_most_and_begins_anew_with_a_new_row() -> None:
    memory = memory_of(10)
    play(memory, np.zeros(9), length=100)
    use, zeros = use_of(memory), np.zeros(300, np.int64)
    use.tell(zeros, zeros + 8)
    assert use.histogram()[[0, 255]].tolist() == [8, 1]
    use.tell(zeros, zeros + 8)
    assert use.histogram()[255] == 1
    for _ in range(3):
        play(memory, np.zeros(9), length=100)
    assert use.histogram()[255] == 0


def test_diversity_is_the_share_of_different_units_and_episodes() -> None:
    memory = memory_of(50)
    play(memory, np.zeros(40), length=10)
    use = use_of(memory)
    assert use.diversity() is None
    zeros = np.zeros(4, np.int64)
    use.tell(zeros, np.array([0, 0, 3, 11]))  # the second episode begins at row 11
    use.tell(zeros[:2], np.array([5, 12]))
    assert use.diversity() == ((3 / 4 + 1) / 2, (2 / 4 + 1) / 2)


def test_only_the_newest_returns_are_remembered() -> None:
    memory = memory_of(5_000)
    play(memory, np.arange(1_201), length=1)
    use = use_of(memory)
    assert sorted(use.returns().tolist()) == list(range(1_200 - EPISODES, 1_200))


def test_a_saved_one_goes_on_and_knows_what_was_drawn() -> None:
    memory, other = memory_of(60), memory_of(60)
    play(memory, np.arange(70), length=9)
    use, resumed = use_of(memory), use_of(other)
    draw = memory._sampler.draw(memory.starts, 20, np.random.default_rng(0))
    use.tell(draw.lanes, draw.rows)
    other.load(copy.deepcopy(memory.state()))
    resumed.load(copy.deepcopy(use.state()))
    assert resumed.read() == use.read()
    for one in (memory, other):
        play(one, np.arange(20), length=6)
    for _ in range(2):
        assert resumed.read() == use.read()
    assert use.bytes == use_bytes(memory.capacity) == 60


def test_a_batch_is_counted_in_a_few_microseconds() -> None:
    memory = memory_of(20_000)
    play(memory, np.zeros(5_000), length=200)
    use, rng = use_of(memory), np.random.default_rng(0)
    draws = [memory._sampler.draw(memory.starts, 32, rng) for _ in range(200)]
    best = 1.0
    for _ in range(5):
        begun = time.perf_counter()
        for draw in draws:
            use.tell(draw.lanes, draw.rows)
        best = min(best, (time.perf_counter() - begun) / len(draws))
    assert best < 20e-6  # about 4 on a machine with nothing else to do
