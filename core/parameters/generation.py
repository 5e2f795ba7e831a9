"""A generation of candidates, each rebuilt from a seed bit for bit."""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from ..types import Tree

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class Generation:
    """Candidates around a mean: mean + sign * spread * noise(seed).

    `mean` and `spread` are `[D]`, or `spread` a single number `[1]`; `seeds` and `signs` are
    `[P]`. An antithetic pair has one seed and both signs.
    """

    number: int
    mean: Vector
    spread: Vector
    seeds: NDArray[np.int64]
    signs: NDArray[np.int8]

    def __len__(self) -> int:
        """P, how many candidates."""
        return len(self.seeds)

    def state(self) -> Tree:
        """Everything that makes it."""
        return asdict(self)

    @classmethod
    def of(cls, state: Tree) -> "Generation":
        """The one that was saved."""
        return cls(**state)

    def candidate(self, index: int) -> Vector:
        """The parameters `[D]` of a candidate."""
        return rebuild(self.mean, self.spread, int(self.seeds[index]), int(self.signs[index]))

    def noise(self, index: int) -> Vector:
        """The noise `[D]` of a candidate, without its sign."""
        return seeded_noise(int(self.seeds[index]), len(self.mean))


def seeded_noise(seed: int, size: int) -> Vector:
    """Standard normal numbers that depend on the seed alone."""
    return np.random.Generator(np.random.PCG64(seed)).standard_normal(size, np.float32)


def rebuild(mean: Vector, spread: Vector, seed: int, sign: int) -> Vector:
    """Parameters from what they were made of: always the same operations in the same order."""
    return mean + np.float32(sign) * spread * seeded_noise(seed, len(mean))
