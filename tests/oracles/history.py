"""The slow twin of a sequential memory: a list of everything that ever happened.

Nothing is ever forgotten here and nothing of core's is called, so what a memory of limited size
still holds, and what it may give, follows from the words of docs alone:

- an episode of T steps takes T + 1 rows, its last observation being one;
- a lane holds its newest `capacity // lanes` rows, from `floor` on: what bytes are short for is
  known to the memory alone, which may only let go of whole chunks, and only the oldest;
- a step may be given as long as its successor exists and every observation of its stack is held;
- a stack begins at the episode's first observation at the earliest, which is repeated before that;
- m = min(n, steps to and with the first terminal, steps the episode has had so far);
- reward = sum of gamma^k r_k over those m, discount = gamma^m, or 0 where one was terminal.
"""

from dataclasses import dataclass, field

import numpy as np

Obs = dict[str, np.ndarray]


@dataclass
class Happened:
    """One step."""

    action: object
    reward: float
    terminated: bool
    truncated: bool
    lost_life: bool
    extras: dict[str, object]

    @property
    def terminal(self) -> bool:
        return self.terminated or self.lost_life

    @property
    def ended(self) -> bool:
        return self.terminated or self.truncated


@dataclass
class Episode:
    """One episode; observation k is the one before step k."""

    base: int
    observations: list[Obs]
    steps: list[Happened] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return bool(self.steps) and self.steps[-1].ended


@dataclass(frozen=True)
class Unit:
    """A step that may be given."""

    lane: int
    row: int
    episode: Episode
    at: int


class History:
    """Everything that ever happened in some lanes."""

    def __init__(self, lanes: int, capacity: int, window: int, n_step: int, gamma: float) -> None:
        self.episodes: list[list[Episode]] = [[] for _ in range(lanes)]
        self.rows_per_lane = capacity // lanes
        self.window = window
        self.n_step = n_step
        self.gamma = gamma
        self.floor = [0] * lanes

    def open(self, lane: int) -> bool:
        """Whether the lane is within an episode."""
        return bool(self.episodes[lane]) and not self.episodes[lane][-1].over

    def start(self, lane: int, obs: Obs) -> None:
        """An episode begins; one that was open ends there and then, cut."""
        self.episodes[lane].append(Episode(self.written(lane), [_copy(obs)]))

    def step(self, lane: int, happened: Happened, next_obs: Obs) -> None:
        """A step of the open episode."""
        assert self.open(lane)
        episode = self.episodes[lane][-1]
        episode.steps.append(happened)
        episode.observations.append(_copy(next_obs))

    def written(self, lane: int) -> int:
        """Rows that the lane ever took."""
        if not self.episodes[lane]:
            return 0
        last = self.episodes[lane][-1]
        return last.base + len(last.observations)

    def oldest(self, lane: int) -> int:
        """The oldest row that the lane holds."""
        return max(self.floor[lane], self.written(lane) - self.rows_per_lane)

    @property
    def rows(self) -> int:
        """Rows held."""
        return sum(self.written(x) - self.oldest(x) for x in range(len(self.episodes)))

    def units(self) -> list[Unit]:
        """Every step that may be given, by lane and age."""
        found = []
        for lane, episodes in enumerate(self.episodes):
            oldest = self.oldest(lane)
            for episode in episodes:
                if episode.base + len(episode.observations) <= oldest:
                    continue
                for at in range(len(episode.steps)):
                    first_of_stack = max(0, at - (self.window - 1))
                    if episode.base + first_of_stack >= oldest:
                        found.append(Unit(lane, episode.base + at, episode, at))
        return found

    def expected(self, unit: Unit) -> dict[str, np.ndarray]:
        """What has to be given for a unit, without a batch axis."""
        steps = unit.episode.steps[unit.at : unit.at + self.n_step]
        total, power, terminal, m = 0.0, 1.0, False, 0
        for happened in steps:
            total += self.gamma**m * float(np.float32(happened.reward))
            m += 1
            power = self.gamma**m
            if happened.terminal:
                terminal = True
                break
        first = steps[0]
        batch: dict[str, np.ndarray] = {
            "action": np.asarray(first.action),
            "reward": np.float32(total),
            "discount": np.float32(0.0 if terminal else power),
            "weight": np.float32(1.0),
            "id": np.int64(unit.lane * 2**40 + unit.row),
            **{name: np.asarray(value) for name, value in first.extras.items()},
        }
        for name in unit.episode.observations[0]:
            batch[name] = self._stack(unit.episode, name, unit.at)
            batch["next_" + name] = self._stack(unit.episode, name, unit.at + m)
        return batch

    def _stack(self, episode: Episode, name: str, at: int) -> np.ndarray:
        frames = []
        for back in reversed(range(self.window)):
            frames.append(episode.observations[max(0, at - back)][name])
        return np.array(frames)


def _copy(obs: Obs) -> Obs:
    return {name: np.array(value) for name, value in obs.items()}
