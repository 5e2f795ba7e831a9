"""Collecting: an actor steps an environment, a writer remembers."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .agent import Actor
from .envs.base import Env
from .memory import Writer
from .metrics import Episodes
from .types import Columns


class Rollout:
    """Steps all lanes of an environment and writes every step once."""

    def __init__(self, env: Env, actor: Actor, writer: Writer) -> None:
        self._env = env
        self._actor = actor
        self._writer = writer
        self._lanes = np.arange(env.lanes)
        self.episodes = Episodes(env.lanes)
        self._obs: Columns = {}
        self._first = np.ones(env.lanes, np.bool_)

    def begin(self, seeds: Sequence[int]) -> None:
        """Begins the first episode of every lane; before the first step."""
        self._obs = self._env.reset(seeds)
        self._writer.start(self._obs)

    def step(self, clock: int) -> int:
        """One step of every lane that plays; gives how many steps that were."""
        self._restart()
        playing = self._actor.playing
        actions, extras = self._actor.act(self._obs, self._first, clock, explore=True)
        step = self._env.step(actions)
        if playing is not None:
            step = replace(step, stepped=step.stepped & playing)
        lanes = self._lanes[step.stepped]
        self._writer.append(
            actions[lanes],
            step.reward[lanes],
            step.terminated[lanes],
            step.truncated[lanes],
            _pick(step.next_obs, lanes),
            _pick(extras, lanes),
            lost_life=None if step.lost_life is None else step.lost_life[lanes],
            lanes=lanes,
        )
        begun = self._lanes[step.started]
        if len(begun):
            self._writer.start(_pick(step.obs, begun), begun)
        self.episodes.record(step)
        self._obs, self._first = step.obs, step.started
        return len(lanes)

    def _restart(self) -> None:
        wanted = self._actor.restarts(self._first)
        if wanted is None:
            return
        lanes, seeds = wanted
        self._obs = self._env.restart(lanes, seeds)
        self._first = self._first.copy()
        self._first[lanes] = True
        self._writer.start(_pick(self._obs, lanes), lanes)


def _pick(columns: Columns, lanes: np.ndarray) -> Columns:
    return {name: array[lanes] for name, array in columns.items()}
