"""Episodes in one HDF5 file: flat columns, one row an observation or a step; see docs/data.md."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from ..types import Array, ArraySpec, Columns
from .episodes import ENDINGS, Held, Source, piece_bounds
from .header import NAME, check_whole, foreign, header_json, header_of, package, reading
from .space import Space
from .sums import Summed, Sums

CHUNK_BYTES: Final = 1 << 18
"""Bytes of an HDF5 chunk, about: it is compressed, and read, as a whole."""

INDEX: Final = {
    "lane": np.int64, "first_row": np.int64, "age": np.int64, "steps": np.int64, "ended": np.uint8,
}  # fmt: skip
"""The columns of `/episodes`; `ended` is a place in `ENDINGS`."""


def places(space: Space) -> dict[str, str]:
    """Where each column lies; a slash in its name would be a group."""
    book = dict.fromkeys(("action", "reward", "terminal"), "steps")
    groups = dict.fromkeys(space.observations, "observations") | book
    return {name: f"{groups.get(name, 'extras')}/{quote(name, safe='')}" for name in space.columns}


def write(path: Path, source: Source, about: Mapping[str, Any]) -> Sums:
    """Writes a file of all episodes, a piece at a time. Raises OSError where the disk fails."""
    h5py, summed = package("h5py"), Summed(source)
    where = places(source.space)
    with h5py.File(path, "w") as file:
        columns = {
            name: _Growing(file, where[name], spec) for name, spec in source.space.columns.items()
        }
        for number in range(len(source.held)):
            for piece in summed.pieces(number):
                for name, array in piece.items():
                    columns[name].add(array)
        for column in columns.values():
            column.close()
        for name, dtype in INDEX.items():
            file.create_dataset(f"episodes/{name}", data=np.array(_index(source, name), dtype))
        sums = summed.sums()
        file.attrs[NAME] = json.dumps(header_json(source, sums, about))
    return sums


def _index(source: Source, name: str) -> list[int]:
    if name == "ended":
        return [ENDINGS.index(one.ended) for one in source.held]
    return [getattr(one, name) for one in source.held]


class _Growing:
    """A column that grows by whole chunks, so that each is compressed once."""

    def __init__(self, file: Any, place: str, spec: ArraySpec) -> None:
        self._rows = max(CHUNK_BYTES // max(spec.nbytes, 1), 1)
        self._waiting: list[Array] = []
        self._count = 0
        self._data = file.create_dataset(
            place,
            shape=(0, *spec.shape),
            maxshape=(None, *spec.shape),
            chunks=(self._rows, *spec.shape),
            dtype=spec.dtype,
            compression="gzip",
            shuffle=True,
        )

    def add(self, rows: Array) -> None:
        """Appends rows `[n, ...]`."""
        self._waiting.append(rows)
        self._count += len(rows)
        if self._count >= self._rows:
            self._write(self._count // self._rows * self._rows)

    def _write(self, count: int) -> None:
        rows = np.concatenate(self._waiting)
        end = len(self._data)
        self._data.resize(end + count, axis=0)
        self._data[end:] = rows[:count]
        self._waiting, self._count = [rows[count:]], self._count - count

    def close(self) -> None:
        """Writes what is left."""
        if self._count:
            self._write(self._count)


class HDF5Episodes:
    """The episodes of a file; opening it reads the header and the index alone."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError for a foreign file, BrokenExportError for a damaged one."""
        h5py = package("h5py")
        self._path = path
        with reading(path):
            self._file = h5py.File(path, "r")
            if NAME not in self._file.attrs:
                raise foreign(path)
            self.header = header_of(json.loads(self._file.attrs[NAME]), path)
            self.space = self.header.space
            where = places(self.space)
            self._columns = {name: self._file[place] for name, place in where.items()}
            self.held = self._read_index()
            self._check_sizes()

    def _read_index(self) -> list[Held]:
        index = [self._file[f"episodes/{name}"][:].tolist() for name in INDEX]
        return [
            Held(lane, first_row, age, steps, ENDINGS[ended])
            for lane, first_row, age, steps, ended in zip(*index, strict=True)
        ]

    def _check_sizes(self) -> None:
        steps = np.array([0, *(one.steps for one in self.held)])
        check_whole(bool((steps >= 0).all()), "an episode has less than no steps")
        self._first_step = np.cumsum(steps)
        self._first_observation = self._first_step + np.arange(len(steps))
        for name, spec in self.space.columns.items():
            first = self._first_observation if self._observed(name) else self._first_step
            found, wanted = self._columns[name], (int(first[-1]), *spec.shape)
            same = found.shape == wanted and found.dtype == spec.dtype
            check_whole(same, f"'{name}' is {found.dtype}{found.shape}, not {spec.dtype}{wanted}")

    def _observed(self, name: str) -> bool:
        return name in self.space.observations

    def pieces(self, number: int) -> Iterator[Columns]:
        """See `Source.pieces`. Raises BrokenExportError for what cannot be read."""
        one = self.held[number]
        for begin, end in piece_bounds(one, self.space):
            with reading(self._path):
                piece = {name: self._slice(name, number, begin, end) for name in self._columns}
            yield piece

    def _slice(self, name: str, number: int, begin: int, end: int) -> Array:
        first = self._first_observation if self._observed(name) else self._first_step
        begin, end = first[number] + begin, min(first[number] + end, first[number + 1])
        rows: Array = self._columns[name][begin:end]
        return rows

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
