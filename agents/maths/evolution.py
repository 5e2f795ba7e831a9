"""Evolution strategies: from returns to a step. Numpy arrays in, numpy arrays out."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def centred_ranks(returns: Numbers) -> Numbers:
    """Ranks `[P]` in [-1/2, 1/2], equal returns sharing the mean of their ranks.

    Salimans et al. (2017), section 2: only the order of the returns counts, not their size.
    """
    if returns.ndim != 1 or len(returns) < 2:
        raise ValueError(f"returns {returns.shape} cannot be ranked")
    _, inverse, counts = np.unique(returns, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean_rank = last - (counts + 1) / 2
    ranks: Numbers = mean_rank[inverse] / (len(returns) - 1) - 0.5
    return ranks


def es_gradient(shaped: Numbers, signs: NDArray[np.int8], noise: NDArray[np.float32]) -> Numbers:
    """Ascent direction `[D]`: the mean over candidates of shaped return * sign * noise.

    `shaped` and `signs` are `[P]`, `noise` is `[P, D]`. With pairs of opposite sign that is the
    mean of (F+ - F-) noise / 2 over pairs (Salimans et al. 2017, algorithm 1 with mirrored
    sampling); 1 / sigma is left to the step size, as in their code.
    """
    if not len(shaped) == len(signs) == len(noise):
        raise ValueError(f"{len(shaped)} returns, {len(signs)} signs, {len(noise)} noises")
    gradient: Numbers = (shaped * signs) @ noise.astype(np.float64) / len(shaped)
    return gradient


def refit(elites: NDArray[np.float32], extra: float) -> tuple[Numbers, Numbers]:
    """Mean and spread `[D]` of elites `[E, D]` (de Boer et al. 2005, section 3.1).

    `extra` is added to the variance, so that the search does not stop too early (Szita and Lorincz
    2006).
    """
    if elites.ndim != 2 or not len(elites):
        raise ValueError(f"elites {elites.shape}")
    wide = elites.astype(np.float64)
    return wide.mean(axis=0), np.sqrt(wide.var(axis=0) + extra)


class Adam:
    """Adam on one vector (Kingma and Ba 2015, algorithm 1); a step is what to add to ascend."""

    def __init__(self, size: int, lr: float) -> None:
        self._lr = lr
        self.mean = np.zeros(size)
        self.square = np.zeros(size)
        self.count = 0

    def state(self) -> dict[str, Numbers | int]:
        """Everything that changes."""
        return {"mean": self.mean.copy(), "square": self.square.copy(), "count": self.count}

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes over a saved state."""
        self.mean, self.square = np.array(state["mean"]), np.array(state["square"])
        self.count = state["count"]

    def step(self, gradient: Numbers) -> Numbers:
        """The step for a gradient of what is to grow."""
        self.count += 1
        self.mean += 0.1 * (gradient - self.mean)
        self.square += 0.001 * (gradient**2 - self.square)
        mean = self.mean / (1 - 0.9**self.count)
        square = self.square / (1 - 0.999**self.count)
        return self._lr * mean / (np.sqrt(square) + 1e-8)
