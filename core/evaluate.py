"""Evaluation: greedy episodes in an environment of its own, between training steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .agent import Actor
from .envs.base import Env


@dataclass(frozen=True)
class Evaluation:
    """Raw returns and lengths of the episodes, in the order they ended."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    cut: int
    """Episodes that the evaluation's own limit cut off."""

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Standard deviation of the returns over the episodes."""
        return float(np.std(self.returns))


def evaluate(
    env: Env,
    actor: Actor,
    seeds: Sequence[int],
    episodes: int,
    *,
    limit: int,
    stop: Callable[[], bool] = lambda: False,
) -> Evaluation | None:
    """Plays `episodes` greedy episodes; None if told to stop.

    Each lane plays its share, so that short episodes are no likelier to be counted than long ones.
    A lane whose episode reaches `limit` steps counts what it has and plays no more.
    """
    share = np.array([len(range(lane, episodes, env.lanes)) for lane in range(env.lanes)])
    total, length = np.zeros(env.lanes), np.zeros(env.lanes, np.int64)
    returns: list[float] = []
    lengths: list[int] = []
    cut = 0
    obs, first = env.reset(seeds), np.ones(env.lanes, np.bool_)
    while share.any() and not stop():
        actions, _ = actor.act(obs, first, 0, explore=False)
        step = env.step(actions)
        total[step.stepped] += step.reward[step.stepped]
        length += step.stepped
        over_limit = (length >= limit) & ~step.ended
        for lane in np.flatnonzero((step.ended | over_limit) & (share > 0)):
            returns.append(float(total[lane]))
            lengths.append(int(length[lane]))
            cut += int(over_limit[lane])
            share[lane] = 0 if over_limit[lane] else share[lane] - 1
        total[step.ended], length[step.ended] = 0.0, 0
        obs, first = step.obs, step.started
    return None if share.any() else Evaluation(tuple(returns), tuple(lengths), cut)
