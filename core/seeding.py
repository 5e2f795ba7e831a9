"""The seed tree: one root, a branch a purpose, a leaf an index.

Every random draw of a run comes from a generator of this tree, so that adding draws to one purpose
never moves another, and no two lanes share a stream.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

Purpose = Literal["env", "explore", "sampler", "eval", "init", "report", "preview"]
_BRANCH: Mapping[Purpose, int] = {
    "env": 0, "explore": 1, "sampler": 2, "eval": 3, "init": 4, "report": 5,
    "preview": 6,
}  # fmt: skip


class SeedTree:
    """Derives seeds and generators from a root seed; the same arguments give the same stream."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def _sequence(self, purpose: Purpose, path: tuple[int, ...]) -> np.random.SeedSequence:
        return np.random.SeedSequence(self.seed, spawn_key=(_BRANCH[purpose], *path))

    def generator(self, purpose: Purpose, *path: int) -> np.random.Generator:
        """A fresh PCG64 generator of that leaf."""
        return np.random.Generator(np.random.PCG64(self._sequence(purpose, path)))

    def integers(self, purpose: Purpose, count: int, *path: int) -> list[int]:
        """`count` seeds below 2^31, as environments and torch take them; each its own leaf."""
        leaves = [self._sequence(purpose, (*path, i)) for i in range(count)]
        return [int(leaf.generate_state(1)[0] >> 1) for leaf in leaves]


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """The generator's state as plain JSON values."""
    return dict(rng.bit_generator.state)


def restore_generator(rng: np.random.Generator, state: Mapping[str, Any]) -> None:
    """Puts the generator back into a saved state."""
    rng.bit_generator.state = dict(state)
