"""A world whose frames name their moment, and a record of all that happened in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Codes = NDArray[np.int64]
"""Moments, each a number: lane, episode and step, 16 bits for each of the last two."""

BLANK: Final = -1
"""The code of a frame of zeros, which some memories put before an episode's first frame."""
GARBLED: Final = -2
"""The code of a frame that was never shown."""
ACTIONS: Final = 5
_BYTES: Final = 8


@dataclass(frozen=True)
class Setting:
    """What a memory under test is built for. Frames are uint8 `[side, side]`, actions below 5."""

    lanes: int = 1
    capacity: int = 64
    """Steps, of all lanes together; a memory that counts rows may hold somewhat fewer."""

    window: int = 1
    """Frames that an observation stacks."""

    n_step: int = 1
    gamma: float = 0.5
    seed: int = 0
    side: int = 16


class Episode(NamedTuple):
    """How an episode goes."""

    length: int
    ends: Literal["terminated", "truncated"]


class Tick(NamedTuple):
    """One step of every lane, `[L, ...]`, and what follows where an episode is over."""

    action: Array
    reward: Array
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    next_obs: Array
    """True frames after the step, at an episode's end too."""

    over: NDArray[np.bool_]
    first: Array
    """First frames of the episodes that begin where one is over; elsewhere zeros."""


def codes_of(lanes: Codes, episodes: Codes, steps: Codes) -> Codes:
    """The numbers of moments."""
    return np.asarray((lanes << 32) | (episodes << 16) | steps, np.int64)


def parts_of(codes: Codes) -> tuple[Codes, Codes, Codes]:
    """Lane, episode and step of moments."""
    return codes >> 32, (codes >> 16) & 0xFFFF, codes & 0xFFFF


def encode(codes: Codes, side: int) -> Array:
    """Frames `[N, side, side]`: eight bytes that name the moment, over and over."""
    lanes, episodes, steps = parts_of(codes)
    name = np.stack(
        [lanes, episodes >> 8, episodes & 255, steps >> 8, steps & 255, 255 - (steps & 255)], 1
    )
    check = np.full((len(codes), 1), 165)
    named = np.concatenate([name, (name @ np.array([1, 3, 5, 7, 11, 0]))[:, None], check], 1)
    whole = np.tile((named & 255).astype(np.uint8), side * side // _BYTES)
    return whole.reshape(len(codes), side, side)


def decode(frames: Array) -> Codes:
    """The moments of frames `[..., side, side]`; `BLANK` for zeros, `GARBLED` for what is none."""
    side = frames.shape[-1]
    flat = frames.reshape(-1, side * side)
    name = flat[:, :_BYTES].astype(np.int64)
    codes = codes_of(name[:, 0], name[:, 1] * 256 + name[:, 2], name[:, 3] * 256 + name[:, 4])
    known = frames.dtype == np.uint8 and (encode(codes, side).reshape(flat.shape) == flat).all(1)
    codes = np.where(known, codes, GARBLED)
    return np.where(flat.any(1), codes, BLANK).reshape(frames.shape[:-2])


def actions_at(codes: Codes) -> Codes:
    """The action taken at each moment."""
    lanes, episodes, steps = parts_of(codes)
    return (lanes + 2 * episodes + 3 * steps) % ACTIONS


def rewards_at(codes: Codes) -> NDArray[np.float32]:
    """The reward of the step taken at each moment: whole, positive, zero or negative."""
    lanes, episodes, steps = parts_of(codes)
    return ((7 * lanes + 13 * episodes + 5 * steps) % 61 - 30).astype(np.float32)


class World:
    """Lanes that play the episodes of a script, each its own, over and over."""

    def __init__(self, setting: Setting, script: Sequence[Sequence[Episode]]) -> None:
        self.setting = setting
        self._script = script
        self.taken: list[list[int]] = [[] for _ in range(setting.lanes)]
        """Steps that each episode of a lane has had."""

        self.ends: list[list[str]] = [[] for _ in range(setting.lanes)]
        """How each ended: terminated, truncated, or not yet, which is empty."""

    def begin(self) -> Array:
        """First frames `[L, ...]` of new episodes; those that were open are broken off there."""
        return self._frames([self._renew(lane) for lane in range(self.setting.lanes)])

    def _renew(self, lane: int) -> int:
        if self.ends[lane] and not self.ends[lane][-1]:
            self.ends[lane][-1] = "truncated"
        self.taken[lane].append(0)
        self.ends[lane].append("")
        return self.now(lane)

    def now(self, lane: int) -> int:
        """The code of the lane's newest frame."""
        episode = len(self.taken[lane]) - 1
        return (lane << 32) | (episode << 16) | self.taken[lane][-1]

    def _frames(self, codes: list[int]) -> Array:
        return encode(np.array(codes, np.int64), self.setting.side)

    def tick(self) -> Tick:
        """A step of every lane."""
        lanes = range(self.setting.lanes)
        before = np.array([self.now(lane) for lane in lanes], np.int64)
        ends = [self._step(lane) for lane in lanes]
        next_obs = self._frames([self.now(lane) for lane in lanes])
        first = np.zeros_like(next_obs)
        for lane in lanes:
            if ends[lane]:
                self.ends[lane][-1] = ends[lane]
                first[lane] = self._frames([self._renew(lane)])[0]
        terminated, truncated = (np.array([end == how for end in ends]) for how in _ENDS)
        reward = rewards_at(before).astype(np.float64)
        over = terminated | truncated
        return Tick(actions_at(before), reward, terminated, truncated, next_obs, over, first)

    def _step(self, lane: int) -> str:
        script = self._script[lane % len(self._script)]
        episode = script[(len(self.taken[lane]) - 1) % len(script)]
        self.taken[lane][-1] += 1
        return episode.ends if self.taken[lane][-1] == episode.length else ""


_ENDS: Final = ("terminated", "truncated")
