"""Memory that processes share: anonymous, handed over by descriptor, gone with its processes."""

import mmap
import os
from collections.abc import Mapping
from multiprocessing.reduction import DupFd
from typing import Any, Final

import numpy as np

from ..errors import UsageError
from ..limits import usable_memory
from ..sizes import size_of
from ..types import Array
from .allocators import BYTES, nbytes
from .layout import PAGE, whole

MACHINES: Final = ("x86_64", "AMD64")
"""Where stores are seen in the order in which they were made, which readers rely on."""


class Shared:
    """One anonymous file in memory, whose pages are taken as a whole when an array is.

    No name leads to it, so that nothing is left behind however its processes end, and the size of
    /dev/shm does not bound it. Pickled into a child process, it gives there the same arrays again,
    if it is asked for them in the same order.
    """

    tier = "shared"

    def __init__(self, file: int | None = None) -> None:
        """Begins one, or takes over the descriptor of another process's."""
        machine = os.uname().machine if hasattr(os, "uname") else "no such system"
        if machine not in MACHINES or not hasattr(os, "memfd_create"):
            raise UsageError(f"storage shared needs Linux on x86-64, and this is {machine}")
        self.alone = self._first = file is None
        self._file = os.memfd_create("engram") if file is None else file
        self._size = 0

    @property
    def reserved(self) -> Mapping[str, int]:
        """See `Allocator.reserved`."""
        return {self.tier: self._size}

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A zeroed array whose pages are there, so that no write can fail for want of them."""
        size, first = nbytes(shape, dtype), self._size
        length = max(whole(size, PAGE), 1) * PAGE
        if self._first:
            self._reserve(first, length)
        self._size += length
        pages = mmap.mmap(self._file, length, offset=first)
        return np.frombuffer(pages, BYTES, size).view(dtype).reshape(shape)

    def _reserve(self, first: int, size: int) -> None:
        left = usable_memory()
        if size > left.bytes:
            raise MemoryError(
                f"storage shared takes {size_of(size)} at once, and {size_of(left.bytes)} are "
                f"usable ({left.by}); storage disk takes none"
            )
        try:
            os.posix_fallocate(self._file, first, size)
        except OSError as error:
            raise MemoryError(f"no {size_of(size)} of shared memory: {error.strerror}") from None

    def bulk(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """See `Allocator.bulk`."""
        return self.allocate(shape, dtype)

    def kept(self, name: str, size: int) -> Array:
        """See `Allocator.kept`."""
        return self.allocate((size,), BYTES)

    def flush(self) -> None:
        """See `Allocator.flush`: nothing is kept."""

    def __reduce__(self) -> Any:
        self.alone = False
        return _handed_over, (DupFd(self._file),)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)


def _handed_over(file: Any) -> Shared:
    return Shared(file.detach())
