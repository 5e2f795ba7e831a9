"""Where the bytes of a store live. Each allocator names its tier, which accounting goes by."""

import math
import mmap
from contextlib import suppress
from typing import Any, Final, Protocol

import numpy as np

from ..types import Array

LARGE: Final = 1 << 20


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
        size = math.prod(shape) * dtype.itemsize
        if size < LARGE or not hasattr(mmap, "MAP_PRIVATE"):
            return np.zeros(shape, dtype)
        return np.frombuffer(_pages(size), dtype).reshape(shape)


def _pages(size: int) -> mmap.mmap:
    """Fresh pages, small ones: of a huge page the first byte would cost two megabytes."""
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"no {size} bytes: {error}") from None
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a kernel without huge pages has none to forbid
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return pages
