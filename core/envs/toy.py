"""Small worlds whose right answers are known."""

from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ..errors import UsageError
from ..types import Array, Tree
from .gym import limit, vectorize
from .options import ToyOptions
from .snapshots import check_options, options_of, plain
from .vector import GymVector

FRAME_CODE: Final = 8  # pixels of a counter frame that carry its code
Reset = tuple[Array, dict[str, Any]]
Result = tuple[Array, float, bool, bool, dict[str, Any]]


class Moment(NamedTuple):
    """What a counter observation says of itself."""

    lane: int
    episode: int
    step: int


def encode(moment: Moment, side: int) -> Array:
    """A counter frame `[side, side]`: the moment in its first pixels, a pattern in the rest."""
    lane, episode, step = moment
    pattern = np.arange(side * side, dtype=np.int64) * 7 + 31 * step + 101 * episode
    frame = (pattern % 251).astype(np.uint8)
    numbers = [lane, *episode.to_bytes(3, "big"), *step.to_bytes(4, "big")]
    frame[:FRAME_CODE] = numbers
    return frame.reshape(side, side)


def decode(obs: Array) -> Moment:
    """The moment of a counter observation, vector or frame."""
    if obs.ndim == 1:
        return Moment(*(int(value) for value in obs))
    code = [int(value) for value in obs.reshape(-1)[:FRAME_CODE]]
    return Moment(code[0], int.from_bytes(code[1:4], "big"), int.from_bytes(code[4:], "big"))


class World(gym.Env[Any, Any]):
    """A toy world, whose state lies in the attributes that `STATE` names."""

    STATE: ClassVar[tuple[str, ...]]

    def __init__(self, options: ToyOptions) -> None:
        self._options = options

    def snapshot(self) -> Tree:
        """See `Snapshots.snapshot`."""
        state = {name: plain(getattr(self, name)) for name in self.STATE}
        return {"options": options_of(self._options), **state}

    def restore(self, snapshot: Tree) -> None:
        """See `Snapshots.restore`."""
        check_options(self._options, snapshot)
        for name in self.STATE:
            setattr(self, name, snapshot[name])


class Counter(World):
    """Every observation names its lane, episode and step; the reward is the step's number."""

    STATE = ("_moment",)

    def __init__(self, options: ToyOptions, lane: int) -> None:
        super().__init__(options)
        self._moment = Moment(lane, -1, 0)
        self.action_space = spaces.Discrete(3)
        side = options.size
        if options.observation == "pixels":
            if side * side < FRAME_CODE or lane > 255:
                raise UsageError(
                    f"the counter's frames name their moment in {FRAME_CODE} pixels, one of them "
                    "the lane: they take size 3 or more and num_envs up to 256"
                )
            self.observation_space = spaces.Box(0, 255, (side, side), np.uint8)
        else:
            self.observation_space = spaces.Box(0, 2**24, (3,), np.float32)

    def _observe(self) -> Array:
        if self._options.observation == "pixels":
            return encode(self._moment, self._options.size)
        return np.array(self._moment, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Begins the next episode."""
        super().reset(seed=seed)
        self._moment = Moment(self._moment.lane, self._moment.episode + 1, 0)
        return self._observe(), {}

    def step(self, action: Any) -> Result:
        """Counts on, whatever the action."""
        self._moment = self._moment._replace(step=self._moment.step + 1)
        over = self._moment.step == self._options.episode_length
        ends = self._options.ending
        done, cut = over and ends == "terminate", over and ends == "truncate"
        return (
            self._observe(),
            float(self._moment.step),
            done,
            cut,
            {"step": self._moment.step},
        )

    def restore(self, snapshot: Tree) -> None:
        """See `Snapshots.restore`."""
        super().restore(snapshot)
        self._moment = Moment(*snapshot["_moment"])


class Chain(World):
    """States in a row: right leads to 1 at the far end, left pays 0.1 at once and ends."""

    STATE = ("_at",)

    def __init__(self, options: ToyOptions, lane: int) -> None:
        super().__init__(options)
        self._states = options.size
        self._at = 0
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(0, 1, (options.size,), np.float32)

    def _observe(self) -> Array:
        state: Array = np.eye(self._states, dtype=np.float32)[self._at]
        return state

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Begins at the near end."""
        super().reset(seed=seed)
        self._at = 0
        return self._observe(), {}

    def step(self, action: Any) -> Result:
        """Action 1 goes right, 0 leaves."""
        if action == 0:
            return self._observe(), 0.1, True, False, {}
        self._at += 1
        arrived = self._at == self._states - 1
        return self._observe(), float(arrived), arrived, False, {}


class Catch(World):
    """A ball falls down a board of `size` rows and half as many columns; a paddle catches it.

    The task of bsuite (Osband et al. 2020): 1 for a catch, -1 for a miss, at the bottom row.
    """

    STATE = ("_row", "_ball", "_paddle")

    def __init__(self, options: ToyOptions, lane: int) -> None:
        super().__init__(options)
        self._shape = (options.size, max(options.size // 2, 2))
        self._row = self._ball = self._paddle = 0
        self.action_space = spaces.Discrete(3)
        self.observation_space = spaces.Box(0, 255, self._shape, np.uint8)

    def _observe(self) -> Array:
        board = np.zeros(self._shape, np.uint8)
        board[self._row, self._ball] = 255
        board[-1, self._paddle] = 255
        return board

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Drops a ball in a random column."""
        super().reset(seed=seed)
        self._row, self._paddle = 0, self._shape[1] // 2
        self._ball = int(self.np_random.integers(self._shape[1]))
        return self._observe(), {}

    def step(self, action: Any) -> Result:
        """Action 0 moves the paddle left, 2 right."""
        self._paddle = int(np.clip(self._paddle + int(action) - 1, 0, self._shape[1] - 1))
        self._row += 1
        landed = self._row == self._shape[0] - 1
        reward = (1.0 if self._ball == self._paddle else -1.0) if landed else 0.0
        return self._observe(), reward, landed, False, {}


WORLDS: Final = {"counter": Counter, "chain": Chain, "catch": Catch}


def make(options: ToyOptions, lanes: int) -> GymVector:
    """See `MakeEnv`."""

    def one(lane: int) -> gym.Env[Any, Any]:
        return limit(WORLDS[options.game](options, lane), options.time_limit)

    return vectorize([partial(one, lane) for lane in range(lanes)], options.game)
