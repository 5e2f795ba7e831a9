"""Where the bytes of a store live. Each allocator names its tier, which accounting goes by."""

from typing import Any, Protocol

import numpy as np

from ..types import Array


class Allocator(Protocol):
    """Gives zeroed arrays on one tier."""

    tier: str

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A zeroed array; raises MemoryError where the tier cannot hold it."""


class Heap:
    """Private memory of this process, taken from the system as it is first written."""

    tier = "heap"

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A zeroed array whose pages cost nothing until they are touched."""
        return np.zeros(shape, dtype)
