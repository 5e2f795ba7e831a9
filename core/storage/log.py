"""A log on disk: records in segments that are never rewritten, and commits that are whole or not.

A commit is one transaction of sqlite: it says how far the log counts, and holds a small state. What
was appended after the last commit does not count, so that a process may be killed at any byte. Each
record has a checksum; where one fails, the log is as it was at the newest commit before it.
"""

import json
import os
import sqlite3
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from ..durable import flush
from ..errors import CorruptMemoryError, RunFailedError, UsageError

MANIFEST: Final = "manifest.sqlite"
SEGMENT_BYTES: Final = 32 << 20
LEAST_SEGMENT: Final = 1 << 20
KEPT_COMMITS: Final = 2
FORMAT: Final = "1"
MAGIC: Final = 0x454E4752
HEADER: Final = struct.Struct("<IIIqiBBQI")  # magic, the fields of Key, bytes, checksum
SCHEMA: Final = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE segments (number INTEGER, lane INTEGER, next INTEGER NOT NULL,"
    " PRIMARY KEY (number, lane))",
    "CREATE TABLE commits (number INTEGER PRIMARY KEY, segment INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL, tails TEXT NOT NULL, state BLOB NOT NULL)",
)


class Key(NamedTuple):
    """What a record holds: `rows` rows of a column in a lane, from `first` on, and their form."""

    column: int
    lane: int
    first: int
    rows: int
    form: int = 0
    prior: int = 0


class Commit(NamedTuple):
    """How far a log counted: all segments before one, and `size` bytes of that; and a state."""

    number: int
    segment: int
    size: int
    tails: tuple[int, ...]
    state: bytes


class Log:
    """The log in a folder, written by one process. Opening it reads the manifest alone.

    Others may read what is committed while it is written.
    """

    def __init__(
        self, folder: Path, about: Mapping[str, str], segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        """Opens a log, or begins one. `about` says what its records are of.

        Raises UsageError for a folder that cannot be used, or that holds a log of something else.
        """
        self.folder = folder
        self._segment_bytes = segment_bytes
        self._file: BinaryIO | None = None
        self._next: dict[tuple[int, int], int] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._manifest = sqlite3.connect(folder / MANIFEST, isolation_level=None)
            self._manifest.execute("PRAGMA synchronous=FULL")
            self._begin({"format": FORMAT, **about})
        except (OSError, sqlite3.Error) as error:
            raise UsageError(f"'{folder}' cannot hold a memory: {error}") from None
        self._number = 0
        self._writes = False

    def _begin(self, about: dict[str, str]) -> None:
        if not self._manifest.execute("SELECT name FROM sqlite_master").fetchone():
            with self._transaction():
                for statement in SCHEMA:
                    self._manifest.execute(statement)
                self._manifest.executemany("INSERT INTO about VALUES (?, ?)", about.items())
        found = dict(self._manifest.execute("SELECT name, value FROM about"))
        for name in sorted(about.keys() | found.keys()):
            if found.get(name) != about.get(name):
                raise UsageError(
                    f"'{self.folder}' holds a memory with {name} {found.get(name)}, "
                    f"not {about.get(name)}"
                )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._manifest.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._manifest.execute("ROLLBACK")
            raise
        self._manifest.execute("COMMIT")

    def commits(self) -> list[Commit]:
        """The commits that are kept, newest first."""
        rows = self._manifest.execute("SELECT * FROM commits ORDER BY number DESC")
        return [
            Commit(number, segment, size, tuple(json.loads(tails)), state)
            for number, segment, size, tails, state in rows
        ]

    def append(self, key: Key, *parts: Any) -> None:
        """Adds a record of the bytes of `parts`, one after the other; it counts from `commit` on.

        Raises RunFailedError where the disk takes no more.
        """
        views = [memoryview(part).cast("B") for part in parts]
        size = sum(view.nbytes for view in views)
        with self._failing():
            file = self._segment()
            file.write(HEADER.pack(MAGIC, *key, size, record_sum(key, size, views)))
            for view in views:
                file.write(view)
        place = (self._number, key.lane)
        self._next[place] = max(self._next.get(place, 0), key.first + key.rows)

    def _segment(self) -> BinaryIO:
        """The segment that is written now, or a new one where it is full."""
        if self._file is not None and self._file.tell() >= self._segment_bytes:
            self._end_segment()
        if self._file is None:
            self._begin_writing()
            self._number += 1
            self._file = self._path(self._number).open("wb")
        return self._file

    def end_segment(self) -> None:
        """Has what is appended next begin a segment, to be let go apart from what came before.

        Raises RunFailedError where the disk takes no more.
        """
        with self._failing():
            self._end_segment()

    def _end_segment(self) -> None:
        if self._file is not None:
            self._sync()
            self._file.close()
            self._file = None

    def _path(self, number: int) -> Path:
        return self.folder / f"segment-{number:08d}.bin"

    def _sync(self) -> int:
        """Makes what was appended survive a loss of power; gives the bytes of the segment."""
        if self._file is None:
            return self._path(self._number).stat().st_size if self._number else 0
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def commit(self, tails: Sequence[int], state: bytes) -> None:
        """Makes everything that was appended count, together with a state; whole or not at all.

        Rows of a lane before its tail are let go: of segments that hold no others the files go too.
        Raises RunFailedError where the disk takes no more; the commit before stays.
        """
        with self._failing():
            self._begin_writing()
            size = self._sync()
            flush(self.folder)
            rows = [(*place, row) for place, row in self._next.items()]
            values = (self._number, size, json.dumps(list(tails)), state)
            with self._transaction():
                self._manifest.executemany("INSERT OR REPLACE INTO segments VALUES (?, ?, ?)", rows)
                self._manifest.execute(
                    "INSERT INTO commits (segment, bytes, tails, state) VALUES (?, ?, ?, ?)",
                    values,
                )
                self._manifest.execute(
                    "DELETE FROM commits WHERE number NOT IN "
                    "(SELECT number FROM commits ORDER BY number DESC LIMIT ?)",
                    (KEPT_COMMITS,),
                )
            self._next = {place: row for place, row in self._next.items() if self._is_open(place)}
            self._drop_segments()

    def _is_open(self, place: tuple[int, int]) -> bool:
        return self._file is not None and place[0] == self._number

    def _drop_segments(self) -> None:
        """Lets go of segments all of whose rows the oldest kept commit let go."""
        oldest = self.commits()[-1]
        alive = {
            number
            for number, lane, following in self._manifest.execute("SELECT * FROM segments")
            if number >= oldest.segment or following > oldest.tails[lane]
        }
        known = [row[0] for row in self._manifest.execute("SELECT DISTINCT number FROM segments")]
        dead = [number for number in known if number not in alive]
        with self._transaction():
            for number in dead:
                self._manifest.execute("DELETE FROM segments WHERE number = ?", (number,))
        for number in dead:
            self._path(number).unlink(missing_ok=True)

    def _begin_writing(self) -> None:
        """Removes, once, what no commit counts: of a process that was killed before it did."""
        if self._writes:
            return
        self._writes = True
        commits = self.commits()
        self._number = commits[0].segment if commits else 0
        known = {row[0] for row in self._manifest.execute("SELECT DISTINCT number FROM segments")}
        for path in self.folder.glob("segment-*.bin"):
            number = int(path.stem.partition("-")[2])
            if number not in known or number > self._number:
                path.unlink()
        if commits and self._path(self._number).exists():
            os.truncate(self._path(self._number), commits[0].size)

    def rewind(self, commit: Commit) -> None:
        """Makes a kept commit the newest again, and forgets what came after it."""
        with self._transaction():
            self._manifest.execute("DELETE FROM commits WHERE number > ?", (commit.number,))
            self._manifest.execute("DELETE FROM segments WHERE number > ?", (commit.segment,))

    def clear(self) -> None:
        """Forgets everything, so that what is written next is all there is."""
        with self._transaction():
            self._manifest.execute("DELETE FROM commits")
            self._manifest.execute("DELETE FROM segments")

    def records(self, commit: Commit) -> Iterator[tuple[Key, bytes]]:
        """Everything that a commit counts, in the order in which it was appended.

        Raises CorruptMemoryError naming the segment that is not as it was written.
        """
        rows = self._manifest.execute("SELECT DISTINCT number FROM segments ORDER BY number")
        for number in [row[0] for row in rows if row[0] <= commit.segment]:
            path = self._path(number)
            most = commit.size if number == commit.segment else None
            try:
                yield from read_segment(path, most)
            except OSError as error:
                raise CorruptMemoryError(f"{path.name} cannot be read: {error}") from None

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise RunFailedError(
                f"'{self.folder}' takes no more: {error}; the commit before stays"
            ) from None

    def close(self) -> None:
        """Closes the files; what was not committed does not count."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._manifest.close()


def record_sum(key: Key, size: int, views: Sequence[Any]) -> int:
    """CRC-32 of a record, its header included."""
    crc = zlib.crc32(HEADER.pack(MAGIC, *key, size, 0))
    for view in views:
        crc = zlib.crc32(view, crc)
    return crc


def read_segment(path: Path, most: int | None) -> Iterator[tuple[Key, bytes]]:
    """The records in the first `most` bytes of a segment, or in all of it."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        most = size if most is None else most
        if size < most:
            raise CorruptMemoryError(f"{path.name} is cut: {size} of {most} bytes")
        while file.tell() < most:
            at = file.tell()
            head = file.read(HEADER.size)
            magic, *fields, length, crc = (
                HEADER.unpack(head) if len(head) == HEADER.size else (0, 0, 0, 0)
            )
            if magic != MAGIC or at + HEADER.size + length > most:
                raise CorruptMemoryError(f"{path.name} is damaged at byte {at}")
            key, payload = Key(*fields), file.read(length)
            if record_sum(key, length, [payload]) != crc:
                raise CorruptMemoryError(f"{path.name} is damaged at byte {at}: checksum")
            yield key, payload
