"""Reading a growing progress.csv, and curves thinned to what a page can draw.

`Progress` follows the file of a run that may still be writing it; `Curves` makes of its rows the
curves of the board, each a `Trace` that never holds more than its limit, however long the run.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

LIMIT: Final = 1000
"""Points of a trace: a page with thousands a curve is slow (PLT-03 in the reports of users)."""

READ_BYTES: Final = 1 << 20
MARK_BYTES: Final = 256
MEGABYTE: Final = 1e6

Point = tuple[float, float]
Row = dict[str, float]


class Trace:
    """One curve: points added in the order of x, of which at most `limit` are kept.

    Every point is kept until the limit is near. From then on neighbours share a bucket, of which
    the lowest and the highest stay, so that a spike of one row is still seen; the buckets double
    in width whenever they fill the limit. The newest point is always kept.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        if limit < 8:
            raise ValueError(f"a trace needs room for at least 8 points, not {limit}")
        self.limit = limit
        self.width = 2  # points a closed bucket stands for
        self._closed: list[tuple[Point, Point]] = []
        self._open: tuple[Point, ...] = ()  # the lowest and the highest of the bucket being filled
        self._count = 0
        self._newest: Point | None = None

    def add(self, x: float, y: float) -> bool:
        """Take a point; False where it is not finite, since infinities are no JSON."""
        if not (math.isfinite(x) and math.isfinite(y)):
            return False
        self._newest = (x, y)
        self._open = _extremes(*self._open, self._newest)
        self._count += 1
        if self._count == self.width:
            self._close()
        return True

    def points(self) -> list[Point]:
        """What is kept, in the order of x."""
        kept = [point for bucket in self._closed for point in bucket]
        kept += self._open if self._count > 1 else self._open[:1]
        if self._newest is not None and kept[-1] != self._newest:
            kept.append(self._newest)
        return kept

    def _close(self) -> None:
        lowest, highest = self._open
        self._closed.append((lowest, highest))
        self._open, self._count = (), 0
        if 2 * len(self._closed) + 3 > self.limit:
            self._halve()

    def _halve(self) -> None:
        """Join the buckets two by two; an odd one out is filled further."""
        buckets = self._closed
        paired = len(buckets) - len(buckets) % 2
        self._closed = [_extremes(*buckets[i], *buckets[i + 1]) for i in range(0, paired, 2)]
        for bucket in buckets[paired:]:
            self._open, self._count = bucket, self.width
        self.width *= 2


def _extremes(*points: Point) -> tuple[Point, Point]:
    """The lowest and the highest of points given in the order of x, in that order."""
    values = [y for _, y in points]
    low = values.index(min(values))
    high = len(values) - 1 - values[::-1].index(max(values))
    return points[min(low, high)], points[max(low, high)]


class Progress:
    """The rows of a progress.csv, each given once, while the file grows.

    A line still being written waits for the next call, a damaged one is skipped. When the file was
    cut back or replaced (a run that was resumed), `restarted` is called and every row comes again.
    """

    def __init__(self, path: Path, restarted: Callable[[], None] = lambda: None) -> None:
        self.path = path
        self._restarted = restarted
        self._forget()

    def _forget(self) -> None:
        self._columns: list[str] = []
        self._offset = 0
        self._mark = b""  # what stands before the offset, to know the file again

    def rows(self) -> Iterator[Row]:
        """New rows as {column: value}, without the empty cells; none where there is no file."""
        try:
            with self.path.open("rb") as file:
                if not self._known(file):
                    self._forget()
                    self._restarted()
                yield from self._new_rows(file)
        except OSError:
            return

    def _known(self, file: BinaryIO) -> bool:
        file.seek(self._offset - len(self._mark))
        return file.read(len(self._mark)) == self._mark

    def _new_rows(self, file: BinaryIO) -> Iterator[Row]:
        file.seek(self._offset)
        while block := file.read(READ_BYTES):
            whole = block[: block.rfind(b"\n") + 1]
            if not whole:
                return
            self._offset += len(whole)
            self._mark = (self._mark + whole)[-MARK_BYTES:]
            for line in whole.decode("ascii", "replace").splitlines():
                if row := self._parse(line):
                    yield row
            file.seek(self._offset)

    def _parse(self, line: str) -> Row:
        cells = line.split(",")
        if not self._columns:
            self._columns = cells
            return {}
        if len(cells) != len(self._columns):
            return {}
        try:
            return {
                name: float(cell) for name, cell in zip(self._columns, cells, strict=True) if cell
            }
        except ValueError:
            return {}


class Curve(NamedTuple):
    """One window of the board: its id, what stands on it, and (trace, column) pairs."""

    window: str
    title: str
    traces: tuple[tuple[str, str], ...]


CURVES: Final = (
    Curve("return", "return", (("train", "return_mean"), ("eval", "eval_return_mean"))),
    Curve("length", "episode length [steps]", (("train", "length_mean"),)),
    Curve("loss", "loss", (("loss", "loss"),)),
    Curve("q", "mean Q", (("Q", "q_mean"),)),
    Curve("td_error", "TD error (mean absolute)", (("TD error", "td_error_mean"),)),
    Curve("epsilon", "epsilon", (("epsilon", "epsilon"),)),
    Curve("steps_per_second", "env steps / s", (("steps/s", "steps_per_second"),)),
    Curve("updates_per_second", "updates / s", (("updates/s", "updates_per_second"),)),
    Curve("memory_fill", "memory fill [%]", (("fill", "memory_percent"),)),
    Curve("memory_bytes", "memory [MB]", (("memory", "memory_megabytes"),)),
    Curve("sample_age", "age at draw [rows]", (("age", "sample_age"),)),
    Curve(
        "sample_use",
        "share of a batch that is distinct, of steps never drawn",
        (("distinct", "sample_distinct"), ("never drawn", "never_drawn")),
    ),
    Curve("memory_return", "mean return held", (("held", "memory_return_mean"),)),
    Curve(
        "process_bytes", "private memory of the process [MB]", (("process", "private_megabytes"),)
    ),
)
"""The curves of the board; one without a value in any of its columns is not drawn."""


class Curves:
    """The curves of one run, read from its progress.csv as it grows.

    `memory_limit` is in rows and turns `memory_len` into a percentage; without it there is no such
    curve. `changed` names the windows that are newer than what was last taken out of it.
    """

    def __init__(self, path: Path, memory_limit: float | None = None, limit: int = LIMIT) -> None:
        self.memory_limit = memory_limit
        self.changed: set[str] = set()
        self._limit = limit
        self._progress = Progress(path, self._clear)
        self._clear()

    def _clear(self) -> None:
        self._traces: dict[tuple[str, str], Trace] = {}
        self._before: Row = {}

    def read(self) -> None:
        """Take in what the run has written since the last call."""
        for row in self._progress.rows():
            self._take({**row, **self._derived(row)})
            self._before = row

    def traces(self, curve: Curve) -> dict[str, list[Point]]:
        """The points of a curve's traces, (env step, value); a trace without any is left out."""
        found = ((name, self._traces.get((curve.window, name))) for name, _ in curve.traces)
        return {name: trace.points() for name, trace in found if trace is not None}

    def touch(self) -> None:
        """Mark every window as changed: the page that had them is lost."""
        self.changed = {window for window, _ in self._traces}

    def _take(self, row: Row) -> None:
        step = row.get("step", math.nan)
        for curve in CURVES:
            for name, column in curve.traces:
                if column in row and self._add((curve.window, name), step, row[column]):
                    self.changed.add(curve.window)

    def _add(self, key: tuple[str, str], step: float, value: float) -> bool:
        if not (math.isfinite(step) and math.isfinite(value)):
            return False
        return self._traces.setdefault(key, Trace(self._limit)).add(step, value)

    def _derived(self, row: Row) -> Row:
        derived = {}
        seconds = row.get("wall_seconds", 0.0) - self._before.get("wall_seconds", math.inf)
        updates = row.get("updates", 0.0) - self._before.get("updates", math.inf)
        if seconds > 0 and updates >= 0:
            derived["updates_per_second"] = updates / seconds
        if self.memory_limit and "memory_len" in row:
            derived["memory_percent"] = 100 * row["memory_len"] / self.memory_limit
        for column in ("memory", "private"):
            if (held := row.get(f"{column}_bytes")) is not None:
                derived[f"{column}_megabytes"] = held / MEGABYTE
        return derived
