"""A little random play before a run: how long episodes are, and what pictures look like."""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np

from .envs.base import Env
from .seeding import SeedTree
from .types import Array, Columns, DiscreteActions, EnvSpec

STEPS: Final = 1_024
SECONDS: Final = 1.0
CHANGE: Final = 0.25
MOST_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class Preview:
    """`steps` steps at random, with `ended` episodes of `ended_steps` steps in all.

    `frames` has some columns of the observations, `[N, ...]` in order, of one lane.
    """

    steps: int
    ended: int
    ended_steps: int
    frames: Columns

    @property
    def episode_steps(self) -> float | None:
        """Steps of an episode, on average; None where none was seen to end."""
        return self.ended_steps / self.ended if self.ended else None


def preview(env: Env, seeds: SeedTree, columns: Iterable[str]) -> Preview:
    """Plays one lane at random, holding each action for some steps, as play that moves does.

    With `columns`, that is a fixed number of steps, so that what follows from them is the same for
    the same seed; without, no more than a second.
    """
    rng = seeds.generator("preview")
    kept: dict[str, list[Array]] = {name: [] for name in columns}
    play = _Play(env, rng, kept)
    until = time.monotonic() + SECONDS
    # a world that breaks will break the run too, which is where that belongs
    with suppress(Exception):
        play.begin(seeds.integers("preview", env.lanes, 0))
        while play.steps < _most(env.spec, kept) and (kept or time.monotonic() < until):
            play.step()
    frames = {name: np.stack(rows) for name, rows in kept.items() if rows}
    return Preview(play.steps, play.ended, play.ended_steps, frames)


class _Play:
    """One lane, played at random."""

    def __init__(self, env: Env, rng: np.random.Generator, kept: dict[str, list[Array]]) -> None:
        self._env, self._rng, self._kept = env, rng, kept
        self._action = _action(env.spec, rng)
        self._begun = self.steps = self.ended = self.ended_steps = 0

    def begin(self, seeds: Sequence[int]) -> None:
        self._keep(self._env.reset(seeds))

    def step(self) -> None:
        if self._rng.random() < CHANGE:
            self._action = _action(self._env.spec, self._rng)
        step = self._env.step(self._action)
        if step.stepped[0]:
            self.steps += 1
            self._keep(step.next_obs)
        if step.ended[0]:
            self.ended += 1
            self.ended_steps += self.steps - self._begun
            self._begun = self.steps
        if step.started[0]:
            self._keep(step.obs)

    def _keep(self, obs: Columns) -> None:
        for name, rows in self._kept.items():
            rows.append(obs[name][0].copy())


def _most(spec: EnvSpec, columns: Iterable[str]) -> int:
    """Steps to play: fewer where pictures are so large that they would fill the memory."""
    size = sum(spec.observations[name].nbytes for name in columns)
    return min(STEPS, MOST_BYTES // size) if size else STEPS


def _action(spec: EnvSpec, rng: np.random.Generator) -> Array:
    """Any action of one lane."""
    if isinstance(spec.actions, DiscreteActions):
        return rng.integers(0, spec.actions.n, 1)
    return rng.uniform(-1, 1, (1, *spec.actions.spec.shape)).astype(np.float32)
