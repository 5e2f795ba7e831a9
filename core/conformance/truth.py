"""What a sampled batch has to be, worked out from the record of a world alone."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .world import (
    BLANK,
    GARBLED,
    Array,
    Codes,
    World,
    actions_at,
    codes_of,
    decode,
    parts_of,
    rewards_at,
)

Bad = NDArray[np.bool_]
Padding = Literal["first", "zeros"]
"""What stands before an episode's first frame in a stack: that frame again, or zeros."""


@dataclass(frozen=True)
class Judged:
    """A batch by what is wrong with each unit, `[B]` each; later flags only of units that exist."""

    codes: Codes
    """Steps that the units are, by their newest frame."""

    invented: Bad
    """No such step happened: a frame never shown, or one from which nothing was done."""

    action: Bad
    reward: Bad
    discount: Bad
    successor: Bad
    stack: Bad
    """Of the observation, but for its newest frame."""

    next_stack: Bad
    """The same of the successor."""

    foreign: Bad
    """One of its frames was never shown, or in another lane than its newest observation."""

    terminal: Bad
    """A terminal lies within the unit's steps. Says what the unit is, not that it is wrong."""

    crossed: Bad
    """The successor that it should have is an episode's last frame, without a terminal."""

    counts: Bad
    """Its successor's value counts, by the discount that it came with."""

    @property
    def strayed(self) -> Bad:
        """A successor whose value counts is not what it has to be, in any of its frames."""
        return self.next_stack & self.counts


class Truth:
    """What happened in a world so far, as arrays."""

    def __init__(self, world: World, padding: Padding = "first") -> None:
        self.setting, self._padding = world.setting, padding
        episodes = max(len(taken) for taken in world.taken)
        self._taken = np.zeros((self.setting.lanes, episodes), np.int64)
        self._ended = np.zeros((self.setting.lanes, episodes), np.int64)
        for lane, taken in enumerate(world.taken):
            self._taken[lane, : len(taken)] = taken
            self._ended[lane, : len(taken)] = [_KINDS.index(end) for end in world.ends[lane]]

    def steps(self, lane: int) -> Codes:
        """Every step of a lane, oldest first."""
        taken = self._taken[lane]
        episodes = np.repeat(np.arange(len(taken)), taken)
        steps = np.arange(len(episodes)) - np.repeat(np.cumsum(taken) - taken, taken)
        return codes_of(np.full(len(episodes), lane), episodes, steps)

    def ends_within(self, codes: Codes, steps: int) -> Bad:
        """Which of those steps have their episode's end within so many steps, themselves one."""
        lanes, episodes, at = parts_of(codes)
        over = self._ended[lanes, episodes] > 0
        return over & (at + steps >= self._taken[lanes, episodes])

    def judge(self, batch: dict[str, Array]) -> Judged:
        """A batch of `obs next_obs` `[B, W, ...]` and `action reward discount` `[B]`."""
        stacks, nexts = decode(batch["obs"]), decode(batch["next_obs"])
        codes = stacks[:, -1]
        real = self._happened(codes)
        safe = np.where(real, codes, self.steps(int(np.argmax(self._taken.sum(1) > 0)))[0])
        span, terminal, last = self._span(safe)
        reward, discount = self._earned(safe, span, terminal)
        stack, next_stack = (self._stack(at) for at in (safe, safe + span))
        return Judged(
            codes=np.where(real, codes, GARBLED),
            invented=~real,
            action=real & (batch["action"].reshape(-1) != actions_at(safe)),
            reward=real & (batch["reward"].reshape(-1) != reward),
            discount=real & (batch["discount"].reshape(-1) != discount),
            successor=real & (nexts[:, -1] != next_stack[:, -1]),
            stack=real & (stacks != stack).any(1),
            next_stack=real & (nexts != next_stack).any(1),
            foreign=real & (_lanes_apart(stacks, codes) | _lanes_apart(nexts, codes)),
            terminal=real & terminal,
            crossed=real & last & ~terminal,
            counts=real & (batch["discount"].reshape(-1) != 0),
        )

    def _happened(self, codes: Codes) -> Bad:
        lanes, episodes, steps = parts_of(np.maximum(codes, 0))
        known = (codes >= 0) & (lanes < len(self._taken)) & (episodes < self._taken.shape[1])
        taken = self._taken[np.where(known, lanes, 0), np.where(known, episodes, 0)]
        return known & (steps < taken)

    def _span(self, codes: Codes) -> tuple[Codes, Bad, Bad]:
        """Steps that a unit sums, whether a terminal is among them, and whether they end with one.

        An episode is terminal at its last step alone.
        """
        lanes, episodes, steps = parts_of(codes)
        left = self._taken[lanes, episodes] - steps
        span = np.minimum(self.setting.n_step, left)
        ended = self._ended[lanes, episodes]
        return span, (span == left) & (ended == 1), (span == left) & (ended > 0)

    def _earned(self, codes: Codes, span: Codes, terminal: Bad) -> tuple[Array, Array]:
        gamma, reward = self.setting.gamma, np.zeros(len(codes))
        for k in range(self.setting.n_step):
            reward += np.where(k < span, gamma**k * rewards_at(codes + k), 0)
        discount = np.where(terminal, 0, gamma**span)
        return reward.astype(np.float32), discount.astype(np.float32)

    def _stack(self, codes: Codes) -> Codes:
        window = self.setting.window
        _, _, steps = parts_of(codes)
        back = np.arange(window - 1, -1, -1)
        stack = codes[:, None] - np.minimum(back, steps[:, None])
        if self._padding == "zeros":
            stack = np.where(back > steps[:, None], BLANK, stack)
        return stack


def _lanes_apart(stacks: Codes, codes: Codes) -> Bad:
    strange = (stacks != BLANK) & ((stacks == GARBLED) | (stacks >> 32 != codes[:, None] >> 32))
    apart: Bad = strange.any(1)
    return apart


_KINDS = ("", "terminated", "truncated")
