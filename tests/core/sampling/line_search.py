"""LineSearch of Liu and Zou (2018): an agent on a line learns a linear function from a replay."""

from typing import NamedTuple

import numpy as np

from .sampled import memory_of

STEP, BATCH, AT_RANDOM, FIRST, CLOSE = 0.01, 16, 0.1, -0.5, 0.1
NO = np.zeros(1, np.bool_)


class Learnt(NamedTuple):
    """How soon the slope was right, and how wrong it was on average, as a share of the first."""

    steps: int
    """Until it stays within a tenth of the first error."""

    error: float


def line_search(
    bias: float, seed: int, gamma: float = 0.0, steps: int = 2_000, **keys: object
) -> Learnt:
    """Q-learning, an update a step, of an agent that at first runs the wrong way.

    From s a step goes to s' = s +- 0.01, one in ten at random, and earns s' + bias.
    Q(s, a) = slope * s' + level is exact at slope 1 / (1 - gamma). The rate falls with that slope,
    so that the largest states that are reached cannot make it diverge.
    """
    memory, rng = memory_of(seed=seed, **keys), np.random.default_rng(seed)
    writer, told = memory.writer(), memory.takes_feedback
    writer.start({"obs": np.zeros(1, np.float32)})
    slope, level, at, right = FIRST, 0.0, 0.0, 1 / (1 - gamma)
    rate, wrong = 3e-3 * right, np.empty(steps)
    for step in range(steps):
        action = int(slope > 0) if rng.random() >= AT_RANDOM else int(rng.integers(2))
        at += STEP * (2 * action - 1)
        obs = {"obs": np.full(1, at, np.float32)}
        writer.append(np.full(1, action), np.full(1, at + bias), NO, NO, obs)
        batch = memory.sample(BATCH)
        states = batch["next_obs"].ravel()
        best = slope * states + abs(slope) * STEP + level
        errors = batch["reward"] + gamma * best - slope * states - level
        slope += rate * float((errors * states).mean())
        level += rate * float(errors.mean())
        if told:
            memory.feedback(batch["id"], errors)
        wrong[step] = abs(slope - right) / abs(FIRST - right)
    late = np.flatnonzero(wrong >= CLOSE)
    return Learnt(int(late[-1]) + 1, float(wrong.mean()))
