"""The slow twin of an episodic memory, and worlds in which both live.

What `history.py` says holds; from the words of the docs alone these rules are added:

- an episode that lost its first row is let go as a whole as soon as a newer one has a step, or is
  itself followed by another: until then it is the newest there is;
- a window begins at a step that may be given, and has the T steps from there, or as many as its
  episode has had so far; its observations are those before each step and after the last;
- past the last step the last observation stands again, reward is 0 and discount 1;
- discount is gamma, and 0 at every terminal, a lost life too, after which the window goes on.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from core.episodes.summary import Episode as Summary
from core.memories.episodic import EpisodicMemory, EpisodicOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.sampling.uniform import Draw, all_starts
from core.types import Batch

from .compare import assert_identical
from .history import Episode, History, Unit
from .worlds import ACTIONS, CODES, EXTRAS, OBSERVATIONS, STEP, Twin, World

PADDED = ("reward", "discount", "mask")


class EpisodicHistory(History):
    """Everything that ever happened, read as an episodic memory has to give it."""

    def __init__(self, lanes: int, capacity: int, window: int, length: int, gamma: float) -> None:
        super().__init__(lanes, capacity, window, 1, gamma)
        self.length = length

    def oldest(self, lane: int) -> int:
        """The oldest row held: a cut episode goes once a newer one has more than its first row."""
        oldest = super().oldest(lane)
        episodes = self.episodes[lane]
        for episode, newer in pairwise(episodes):
            cut = episode.base < oldest < newer.base
            if cut and newer.base + 1 < self.written(lane):
                return newer.base
        return oldest

    def windows(self, units: list[Unit], most: list[int] | None = None) -> Batch:
        """The windows of some units, batched; `None` where the padding is left open."""
        found = [
            self._window(unit, self.length if most is None else most[place])
            for place, unit in enumerate(units)
        ]
        return {
            name: np.stack([window[name] for window in found], axis=found[0][name].ndim and 1)
            for name in found[0]
        }

    def _window(self, unit: Unit, most: int) -> Batch:
        steps = unit.episode.steps[unit.at : unit.at + min(self.length, most)]
        there = len(steps)
        short = self.length - there
        terminal = [0.0 if happened.terminal else self.gamma for happened in steps]
        window: Batch = {
            "reward": np.array([x.reward for x in steps] + [0] * short, np.float32),
            "discount": np.array(terminal + [1.0] * short, np.float32),
            "mask": np.array([True] * there + [False] * short),
            "weight": np.float32(1),
            "id": np.int64(unit.lane * 2**40 + unit.row),
        }
        for name in unit.episode.observations[0]:
            at = [unit.at + min(step, there) for step in range(self.length + 1)]
            window[name] = np.array([self._stack(unit.episode, name, x) for x in at])
        # what stands in the padding of these is nobody's business: the last step's is as good
        last = steps + steps[-1:] * short
        window["action"] = np.array([happened.action for happened in last])
        for name in steps[0].extras:
            window[name] = np.array([happened.extras[name] for happened in last])
        return window

    def newest(self) -> list[tuple[Unit, int]]:
        """The newest T steps of each lane that may be given, as first units and steps each."""
        found, every = [], self.units()
        for lane in range(len(self.episodes)):
            runs: list[list[Unit]] = []
            for unit in [unit for unit in every if unit.lane == lane][-self.length :]:
                if runs and runs[-1][-1].episode is unit.episode:
                    runs[-1].append(unit)
                else:
                    runs.append([unit])
            found += [(run[0], len(run)) for run in runs]
        return found

    def summaries(self) -> list[Summary]:
        """What is held of each episode."""
        return [
            self._summary(lane, episode)
            for lane, episodes in enumerate(self.episodes)
            for episode in episodes
            if episode.base + len(episode.observations) > self.oldest(lane)
        ]

    def _summary(self, lane: int, episode: Episode) -> Summary:
        first = max(episode.base, self.oldest(lane))
        steps = episode.steps[first - episode.base :]
        ended = "open"
        if episode.over or episode is not self.episodes[lane][-1]:
            # a row tells no life from another: the last step's terminal is what is known
            ended = "terminated" if steps and steps[-1].terminal else "truncated"
        total = sum(float(np.float32(happened.reward)) for happened in steps)
        whole = first == episode.base
        return Summary(lane, lane * 2**40 + first, len(steps), total, ended, whole)  # type: ignore[arg-type]


@dataclass(frozen=True)
class EpisodicWorld(World):
    """What an episodic memory is made for."""

    length: int = 4
    draw: str = "steps"

    def memory(self) -> EpisodicMemory:  # type: ignore[override]
        """A memory of this world."""
        options = EpisodicOptions(
            memory_limit=self.capacity,
            draw=self.draw,
            float_frames="keep" if self.keep_floats else "exact",
        )
        shared = SharedOptions(
            window_length=self.window,
            trajectory_length=self.length,
            gamma=self.gamma,
            num_envs=self.lanes,
        )
        rng = np.random.default_rng(self.seed)
        return EpisodicMemory(options, MemoryContext(self.env, shared, rng, EXTRAS[self.extras]))

    def history(self) -> EpisodicHistory:
        """Its slow twin."""
        return EpisodicHistory(self.lanes, self.capacity, self.window, self.length, self.gamma)


class EpisodicTwin(Twin):
    """An episodic memory and its slow twin, living through the same events."""

    memory: EpisodicMemory
    history: EpisodicHistory

    def agree(self) -> None:
        """Asserts that the memory gives exactly what its twin says it has to."""
        memory, history = self.memory, self.history
        memory.check()
        assert memory.rows == history.rows
        assert memory.rows <= memory.capacity
        assert_whole(memory)
        units = history.units()
        lanes, rows = all_starts(memory.starts)
        found = list(zip(lanes.tolist(), rows.tolist(), strict=True))
        assert found == [(unit.lane, unit.row) for unit in units]
        assert len(memory) == len(units)
        self._agree_on_episodes()
        self._agree_on_latest()
        if units:
            assert_windows(read_all(memory), history.windows(units))

    def _agree_on_episodes(self) -> None:
        found, wanted = self.memory.episodes(), self.history.summaries()
        assert len(found) == len(wanted)
        for one, two in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.total_reward, two.total_reward, rtol=1e-12, atol=1e-12)
            assert plain(one) == plain(two)

    def _agree_on_latest(self) -> None:
        before = self.memory._rng.bit_generator.state
        found, newest = self.memory.latest(), self.history.newest()
        assert self.memory._rng.bit_generator.state == before
        if newest:
            units, most = [unit for unit, _ in newest], [steps for _, steps in newest]
            assert_windows(found, self.history.windows(units, most))
        else:
            assert found["id"].shape == (0,)
            assert found["mask"].shape == (self.history.length, 0)


def plain(summary: Summary) -> tuple:
    """A summary without its sum, whose last bits hang on the order of adding."""
    return (summary.lane, summary.first_id, summary.length, summary.ended, summary.whole)


def assert_whole(memory: EpisodicMemory) -> None:
    """No lane holds a part of an episode, but of its newest, or of that before a bare start."""
    by_lane: dict[int, list[Summary]] = {}
    for episode in memory.episodes():
        by_lane.setdefault(episode.lane, []).append(episode)
    for episodes in by_lane.values():
        parts = [place for place, episode in enumerate(episodes) if not episode.whole]
        assert parts in ([], [0])
        if parts and len(episodes) > 1:
            assert len(episodes) == 2
            assert (episodes[1].length, episodes[1].ended) == (0, "open")


def assert_windows(found: Batch, wanted: Batch) -> None:
    """Same to the bit, in the padding too where that is promised."""
    assert set(found) == set(wanted)
    mask = wanted["mask"]
    for name, array in found.items():
        want = wanted[name]
        open_ = name not in PADDED and array.shape[:2] == mask.shape and not name.startswith("obs")
        if open_:
            assert array.shape == want.shape
            array, want = array[mask], want[mask]  # noqa: PLW2901
        assert_identical(name, array, want)


def read_all(memory: EpisodicMemory, **how) -> Batch:
    """The window of every legal start, in order."""
    lanes, rows = all_starts(memory.starts)
    return memory.reader.read(Draw(lanes, rows, np.ones(len(rows), np.float32)), **how)


@st.composite
def worlds(draw: st.DrawFn) -> EpisodicWorld:
    """Worlds of every kind, their rings short enough to wrap many times."""
    lanes = draw(st.integers(1, 5))
    window, length = draw(st.integers(1, 4)), draw(st.integers(1, 8))
    rows_per_lane = draw(st.integers(window + length, 24))
    return EpisodicWorld(
        observation=draw(st.sampled_from(sorted(OBSERVATIONS))),
        action=draw(st.sampled_from(sorted(ACTIONS))),
        extras=draw(st.sampled_from(sorted(EXTRAS))),
        lanes=lanes,
        window=window,
        length=length,
        gamma=draw(st.sampled_from([0.0, 0.5, 0.99, 1.0])),
        capacity=rows_per_lane * lanes + draw(st.integers(0, lanes - 1)),
        keep_floats=draw(st.booleans()),
        seed=draw(st.integers(0, 1000)),
        draw=draw(st.sampled_from(["steps", "episodes"])),
    )


@st.composite
def long_lives(draw: st.DrawFn) -> bytes:
    """Hundreds of events, from restless to episodes longer than any ring."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    life = rng.integers(0, len(CODES), draw(st.integers(150, 400)))
    calm = rng.random(len(life)) > draw(st.sampled_from([0.03, 0.1, 0.3, 1.0]))
    return bytes(np.where(calm, CODES.index(STEP), life).tolist())


SHORT = st.binary(min_size=10, max_size=120)
LIVES = st.one_of(long_lives(), SHORT)
