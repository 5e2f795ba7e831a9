"""A store on disk: reserved in full when it begins, so that it cannot run out of room later."""

import mmap
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil

from ..errors import UsageError
from ..sizes import size_of
from ..types import Array
from .allocators import BYTES, Heap, nbytes

IN_MEMORY: Final = ("tmpfs", "ramfs")
SUFFIX: Final = ".bin"


class Disk:
    """Files in a folder, mapped: the system holds in memory what it has room for, and no more.

    What is written in place is in a file without a name, gone with its process; what is kept lies
    under its name. What is small stays on the heap.
    """

    tier = "disk"
    alone = True

    def __init__(self, folder: Path, tmpfs: bool = False) -> None:
        """Raises UsageError where the folder cannot be made, or is no disk but memory."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"'{folder}' cannot hold a memory: {error.strerror}") from None
        kind = file_system(folder)
        if kind in IN_MEMORY and not tmpfs:
            raise UsageError(
                f"'{folder}' is no disk but memory ({kind}): set --runs FOLDER on a disk, or "
                "--disk_tmpfs true"
            )
        self._folder = folder
        self._heap = Heap()
        self._files: list[int] = []
        self._reserved = {"disk": 0, "heap": 0}

    @property
    def reserved(self) -> Mapping[str, int]:
        """See `Allocator.reserved`."""
        return self._reserved

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """See `Allocator.allocate`: on the heap."""
        self._reserved["heap"] += nbytes(shape, dtype)
        return self._heap.allocate(shape, dtype)

    def bulk(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """See `Allocator.bulk`: in a file that no name leads to."""
        with tempfile.TemporaryFile(dir=self._folder) as file:
            pages = self._mapped(file.fileno(), nbytes(shape, dtype))
        return np.frombuffer(pages, BYTES, nbytes(shape, dtype)).view(dtype).reshape(shape)

    def kept(self, name: str, size: int) -> Array:
        """See `Allocator.kept`: in a file of that name, which may be there already."""
        path = self._folder / f"{name}{SUFFIX}"
        there = path.exists()
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self._files.append(file)
        try:
            return np.frombuffer(self._mapped(file, size), BYTES, size)
        except UsageError:
            if not there:
                path.unlink()
            raise

    def _mapped(self, file: int, size: int) -> mmap.mmap:
        size = max(size, 1)
        try:
            os.posix_fallocate(file, 0, size)
            self._reserved["disk"] += size
            return mmap.mmap(file, size)
        except OSError as error:
            free = psutil.disk_usage(str(self._folder)).free
            raise UsageError(
                f"'{self._folder}' has no room for {size_of(size)} more: {error.strerror}, "
                f"{size_of(free)} free; set --runs FOLDER on a larger disk"
            ) from None

    def flush(self) -> None:
        """See `Allocator.flush`. Raises OSError where the disk fails."""
        for file in self._files:
            os.fdatasync(file)

    def __reduce__(self) -> Any:
        raise UsageError("a memory of storage disk is one process's own: set storage shared")

    def __del__(self) -> None:
        for file in getattr(self, "_files", ()):
            os.close(file)


def file_system(path: Path) -> str:
    """The kind of the file system that a path is on, as the system names it."""
    real = path.resolve()
    mounts = {Path(part.mountpoint): part.fstype for part in psutil.disk_partitions(all=True)}
    return next((mounts[place] for place in (real, *real.parents) if place in mounts), "")
