"""Where the bytes of a store live. Each allocator names its tier, which accounting goes by."""

import math
import mmap
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

import numpy as np

from ..errors import UsageError
from ..types import Array

LARGE: Final = 1 << 20
BYTES: Final = np.dtype(np.uint8)


class Allocator(Protocol):
    """Gives zeroed arrays on one tier."""

    tier: str
    alone: bool
    """Whether no other process can read or write what it gave."""

    @property
    def reserved(self) -> Mapping[str, int] | None:
        """Bytes by tier that were taken as a whole; None where a byte is taken as it is written."""

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """What is small, and changes all the time: counters, indices, the newest frames.

        Raises MemoryError where the tier cannot hold it.
        """

    def bulk(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """What grows with the rows, and is written in place."""

    def kept(self, name: str, size: int) -> Array:
        """Bytes that are written once; where the tier can, they are there again after a restart."""

    def flush(self) -> None:
        """Makes what was kept survive a loss of power, where the tier can."""


class Heap:
    """Private memory of this process, taken from the system as it is first written."""

    tier = "heap"
    alone = True
    reserved: Mapping[str, int] | None = None

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A zeroed array whose pages cost nothing until they are touched."""
        size = nbytes(shape, dtype)
        if size < LARGE or not hasattr(mmap, "MAP_PRIVATE"):
            return np.zeros(shape, dtype)
        return np.frombuffer(_pages(size), dtype).reshape(shape)

    def bulk(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """See `Allocator.bulk`."""
        return self.allocate(shape, dtype)

    def kept(self, name: str, size: int) -> Array:
        """See `Allocator.kept`."""
        return self.allocate((size,), BYTES)

    def flush(self) -> None:
        """See `Allocator.flush`: nothing is kept."""

    def __reduce__(self) -> Any:
        raise UsageError("a memory of storage heap is one process's own: set storage shared")


def nbytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Bytes of an array."""
    return math.prod(shape) * dtype.itemsize


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
