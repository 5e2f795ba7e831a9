"""Collecting: an actor steps an environment, a writer remembers."""

from collections.abc import Sequence

import numpy as np

from .agent import Actor
from .envs.base import Env
from .memory import Writer
from .metrics import Episodes
from .types import Columns


class Rollout:
    """Steps all lanes of an environment and writes every step once."""

    def __init__(self, env: Env, actor: Actor, writer: Writer, seeds: Sequence[int]) -> None:
        self._env = env
        self._actor = actor
        self._writer = writer
        self._lanes = np.arange(env.lanes)
        self.episodes = Episodes(env.lanes)
        self._obs = env.reset(seeds)
        self._first = np.ones(env.lanes, np.bool_)
        writer.start(self._obs)

    def step(self, clock: int) -> int:
        """One step of every lane; gives how many steps that were."""
        actions, extras = self._actor.act(self._obs, self._first, clock, explore=True)
        step = self._env.step(actions)
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


def _pick(columns: Columns, lanes: np.ndarray) -> Columns:
    return {name: array[lanes] for name, array in columns.items()}
