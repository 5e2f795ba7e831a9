"""Checkpoints: a tree of arrays and JSON in one safetensors file, whole or not there at all.

A file is written under a temporary name, flushed, and renamed. Its header holds a checksum of each
array and of itself, so that a damaged file is known when it is read. No pickle is written or read.
"""

import json
import os
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as load_bytes
from safetensors.numpy import save as save_bytes
from safetensors.numpy import save_file

from .durable import flush
from .errors import EngramError, RunFailedError
from .types import Array, Tree

HEADER: Final = "engram"
HEADER_SUM: Final = "crc32"
FORMAT: Final = 1
SUFFIX: Final = ".safetensors"
RUN: Final = "run"
"""The branch of a checkpoint that a run goes on from."""


class BrokenCheckpointError(EngramError):
    """The file is no whole checkpoint."""


def flatten(tree: Tree, prefix: str = "") -> tuple[dict[str, Array], dict[str, Any]]:
    """A tree's arrays by path, and its other leaves by path.

    Raises ValueError for a name that would make another tree when read back.
    """
    arrays: dict[str, Array] = {}
    plain: dict[str, Any] = {}
    for key, value in tree.items():
        if not str(key) or "/" in str(key):
            raise ValueError(f"'{prefix}{key}' cannot be saved: a name is not empty, without slash")
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            below, rest = flatten(value, f"{path}/")
            arrays |= below
            plain |= rest or ({} if below else {f"{path}/": None})
        elif isinstance(value, np.ndarray):
            arrays[path] = np.asarray(value, order="C")
        else:
            plain[path] = value
    return arrays, plain


def unflatten(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """The tree of leaves by path; a path that ends with a slash is an empty branch."""
    tree: dict[str, Any] = {}
    for path, value in leaves.items():
        *branches, leaf = path.split("/")
        node = tree
        for branch in branches:
            node = node.setdefault(branch, {})
        if leaf:
            node[leaf] = value
    return tree


def check_finite(tree: Tree, step: int) -> None:
    """Raises RunFailedError naming the first array that holds a NaN or an infinity."""
    for path, array in flatten(tree)[0].items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise RunFailedError(f"'{path}' is not finite at step {step}")


def checksum(array: Array) -> int:
    """CRC-32 of an array's bytes, and of its dtype and shape, which stand outside our header."""
    kind = zlib.crc32(f"{array.dtype}{array.shape}".encode())
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, kind)


def sealed(tree: Tree) -> tuple[dict[str, Array], dict[str, str]]:
    """A tree's arrays, and the metadata that hold its other leaves and all checksums."""
    arrays, plain = flatten(tree)
    sums = {name: checksum(array) for name, array in arrays.items()}
    header = json.dumps({"format": FORMAT, "plain": plain, "crc32": sums})
    return arrays, {HEADER: header, HEADER_SUM: str(zlib.crc32(header.encode()))}


def to_bytes(tree: Tree) -> bytes:
    """A tree as the bytes of a checkpoint."""
    arrays, metadata = sealed(tree)
    packed: bytes = save_bytes(arrays, metadata=metadata)
    return packed


def save(path: Path, tree: Tree) -> None:
    """Writes a tree; until the rename, whatever was at `path` stays."""
    arrays, metadata = sealed(tree)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        save_file(arrays, temporary, metadata=metadata)
        flush(temporary)
        temporary.replace(path)
        flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def load(path: Path) -> dict[str, Any]:
    """Reads a tree; raises BrokenCheckpointError for a file that is not whole."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata()
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return opened(arrays, metadata, path.name)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise BrokenCheckpointError(f"{path.name} is no whole checkpoint: {error}") from None


def from_bytes(data: bytes, name: str) -> dict[str, Any]:
    """The tree that `to_bytes` packed; raises BrokenCheckpointError with `name` for no such one."""
    try:
        length = int.from_bytes(data[:8], "little")  # safetensors: a header's length, and JSON
        metadata = json.loads(data[8 : 8 + length])["__metadata__"]
        return opened(load_bytes(data), metadata, name)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise BrokenCheckpointError(f"{name} is no whole state: {error}") from None


def opened(arrays: Mapping[str, Array], metadata: Mapping[str, str], name: str) -> dict[str, Any]:
    """The tree of arrays and metadata as `sealed` gave them, all checksums compared.

    Raises BrokenCheckpointError where one differs, and KeyError for metadata of something else.
    """
    text = metadata[HEADER]
    if str(zlib.crc32(text.encode())) != metadata[HEADER_SUM]:
        raise BrokenCheckpointError(f"{name} is damaged: its header fails its checksum")
    header = json.loads(text)
    if header["format"] != FORMAT:
        raise BrokenCheckpointError(f"{name} has format {header['format']}, not {FORMAT}")
    sums = {key: checksum(array) for key, array in arrays.items()}
    if wrong := sorted(n for n, kept in header["crc32"].items() if sums.get(n) != kept):
        raise BrokenCheckpointError(f"{name} is damaged: '{wrong[0]}' fails its checksum")
    return unflatten({**arrays, **header["plain"]})


class Checkpoints:
    """The checkpoints of a run: the newest few by step, and the best."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder = folder
        self._keep = keep
        folder.mkdir(parents=True, exist_ok=True)

    def save_last(self, tree: Tree, step: int) -> None:
        """Adds the newest and lets the oldest go, unless a number that was learnt is not finite.

        What stands under `RUN` was seen, not learnt: a world may show an infinity. A file of a
        later step belongs to a future that a resumed run left, be it broken: it goes.
        """
        check_finite({name: part for name, part in tree.items() if name != RUN}, step)
        newest = self.folder / f"step-{step:012d}{SUFFIX}"
        save(newest, tree)
        left = [path for path in self.by_age() if path.name > newest.name]
        unfinished = self.folder.glob(".*.tmp")  # of a run that was killed while it saved
        for path in [*left, *unfinished]:
            path.unlink(missing_ok=True)
        for old in self.by_age()[self._keep :]:
            old.unlink(missing_ok=True)

    def save_best(self, tree: Tree, step: int) -> None:
        """Replaces the best, unless a number in the new one is not finite."""
        check_finite(tree, step)
        save(self.folder / f"best{SUFFIX}", tree)

    def by_age(self) -> list[Path]:
        """The checkpoints by step, newest first."""
        return sorted(self.folder.glob(f"step-*{SUFFIX}"), reverse=True)

    def load(self, which: str, say: Callable[[str], None]) -> dict[str, Any]:
        """The `best` or the `last` whole checkpoint; a broken one is named and passed over.

        Raises BrokenCheckpointError where none is left.
        """
        best = self.folder / f"best{SUFFIX}"
        candidates = [best] if which == "best" and best.exists() else []
        for path in [*candidates, *self.by_age()]:
            try:
                return load(path)
            except BrokenCheckpointError as error:
                say(f"{error}; taking the one before")
        raise BrokenCheckpointError(f"{self.folder} holds no whole checkpoint")
