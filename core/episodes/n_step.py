"""The n-step sum of rewards and what follows it, over windows that may end early."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class NStep(NamedTuple):
    """`steps` summed (m), their discounted `reward`, and the `discount` of what follows. `[B]`."""

    steps: NDArray[np.int64]
    reward: NDArray[np.float32]
    discount: NDArray[np.float32]


def n_step_sum(
    reward: NDArray[np.float32],
    terminal: NDArray[np.bool_],
    exists: NDArray[np.bool_],
    gamma: float,
) -> NStep:
    """Sums rewards up to and including the first terminal, or to the last step that exists.

    All `[B, n]`, oldest first; the first step of each window exists. With m steps summed,
    reward = sum over k < m of gamma^k r_k, and discount = gamma^m, or 0 after a terminal
    (Sutton and Barto, 2nd edition, equation 7.1, with the actual m).
    """
    ended_before = np.zeros_like(terminal)
    np.logical_or.accumulate(terminal[:, :-1], axis=1, out=ended_before[:, 1:])
    taken = np.logical_and.accumulate(exists, axis=1) & ~ended_before
    steps = taken.sum(axis=1)
    powers = gamma ** np.arange(reward.shape[1])
    total = np.where(taken, reward * powers, 0.0).sum(axis=1)
    ended = (terminal & taken).any(axis=1)
    discount = np.where(ended, 0.0, gamma**steps)
    return NStep(steps, total.astype(np.float32), discount.astype(np.float32))
