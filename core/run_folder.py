"""The folder a run leaves: written aside and renamed, or, what grows, by whole lines."""

import csv
import json
import logging
import math
import os
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from .errors import UsageError
from .names import did_you_mean, nearest

PACKAGES: Final = ("torch", "numpy", "gymnasium", "pydantic", "safetensors", "numba", "visdom")
FIRST_COLUMNS: Final = (
    "step", "episodes", "wall_seconds", "steps_per_second", "return_mean", "length_mean",
    "eval_return_mean", "loss", "q_mean", "epsilon", "updates", "memory_len", "memory_bytes",
    "private_bytes", "sample_age", "sample_distinct", "never_drawn", "memory_return_mean",
)  # fmt: skip


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes JSON under a temporary name and renames it: a reader sees the old file or the new.

    A number that is not finite becomes null: JSON has none, and strict readers refuse the file.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(_finite(content), indent=1, allow_nan=False) + "\n")
    temporary.replace(path)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def versions() -> dict[str, str]:
    """Versions of Python and of the packages whose version can change a result."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _new_folder(runs: Path, name: str) -> Path:
    path, number = runs / name, 1
    while True:
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
            path = runs / f"{name}-{number}"
        else:
            return path


class RunFolder:
    """Paths and files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.progress = path / "progress.csv"
        self.live = path / "live"
        self.replay = path / "replay"

    @classmethod
    def create(cls, runs: Path, row: str, seed: int) -> "RunFolder":
        """A new folder, named after row, time and seed; runs started together get their own.

        Raises UsageError where no folder can be made.
        """
        stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        name = f"{row}-{stamp}-s{seed}"
        try:
            runs.mkdir(parents=True, exist_ok=True)
            folder = cls(_new_folder(runs, name))
            folder.live.mkdir()
            folder.checkpoints.mkdir()
        except OSError as error:
            raise UsageError(f"runs '{runs}' cannot hold a run: {error.strerror}") from None
        return folder

    @classmethod
    def find(cls, runs: Path, name: str) -> "RunFolder":
        """An existing run, by its path or by its name under `runs`."""
        for path in (Path(name), runs / name):
            if (path / "config.json").is_file():
                return cls(path)
        known = sorted(path.parent.name for path in runs.glob("*/config.json"))
        if not known:
            raise UsageError(f"no run '{name}': {runs}/ holds none yet")
        close = nearest(name, known)
        raise UsageError(f"no run '{name}'{did_you_mean(name, [close] if close else known[-5:])}")

    def write_config(self, row: str, options: Mapping[str, Any]) -> None:
        """The resolved row, and the versions it runs with."""
        write_json(self.path / "config.json", {"row": row, "options": dict(options)})
        write_json(self.path / "versions.json", versions())

    def config(self) -> dict[str, Any]:
        """What `write_config` wrote. Raises UsageError where it cannot be read."""
        try:
            content: dict[str, Any] = json.loads((self.path / "config.json").read_text())
        except (OSError, ValueError) as error:
            raise UsageError(f"{self.path.name} has no readable config.json: {error}") from None
        return content

    def write_result(self, result: Mapping[str, Any]) -> None:
        """The outcome of the run."""
        write_json(self.path / "result.json", result)

    def reported(self, step: int) -> bool:
        """Whether it was said to be finished at that step; one killed in its report was not."""
        try:
            result = json.loads((self.path / "result.json").read_text())
        except (OSError, ValueError):
            return False
        return (result.get("status"), result.get("steps")) == ("finished", step)

    def write_status(self, status: Mapping[str, Any]) -> None:
        """The newest status, for whoever looks on."""
        write_json(self.live / "status.json", status)

    def logger(self) -> logging.Logger:
        """A logger that writes `log.txt` and nothing else."""
        logger = logging.Logger(self.path.name, logging.INFO)
        handler = logging.FileHandler(self.path / "log.txt")
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        logger.addHandler(handler)
        return logger


@contextmanager
def run_folder(
    folder: RunFolder | None, runs: Path, row: str, seed: int
) -> Iterator[Callable[[], RunFolder]]:
    """Gives a run's folder, or makes it when it is first asked for.

    A new one is gone again if what is done within fails: nothing was run.
    """
    made: list[RunFolder] = []

    def place() -> RunFolder:
        if folder is not None:
            return folder
        if not made:
            made.append(RunFolder.create(runs, row, seed))
        return made[0]

    try:
        yield place
    except BaseException:
        for new in made:
            shutil.rmtree(new.path, ignore_errors=True)
        raise


class Progress:
    """`progress.csv`: its columns are fixed when it is made, its rows are written whole."""

    def __init__(self, path: Path, own: Iterable[str] = (), until: int | None = None) -> None:
        """Begins the file; with `until`, goes on behind the rows up to that step."""
        self.columns = (*FIRST_COLUMNS, *own)
        kept = [] if until is None else rows_until(path, until)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._file = temporary.open("w", newline="")
        self._writer = csv.writer(self._file)
        self._write(self.columns)
        for row in kept:
            self._write([row.get(name, "") for name in self.columns])
        temporary.replace(path)  # whole, under the open file: until then the old one stays

    def append(self, row: Mapping[str, Any]) -> None:
        """A row; None is an empty cell. Raises KeyError for a column that was not announced."""
        if unknown := set(row) - set(self.columns):
            raise KeyError(f"progress.csv has no column {sorted(unknown)}")
        self._write([_cell(row.get(name)) for name in self.columns])

    def _write(self, cells: Iterable[Any]) -> None:
        self._writer.writerow(cells)
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def rows_until(path: Path, step: int) -> list[dict[str, str]]:
    """The rows of a progress.csv up to a step, as they stand there; a torn last line is none."""
    try:
        with path.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if (row["step"] or "").isdigit()]
    except FileNotFoundError:
        return []
    return [row for row in rows if int(row["step"]) <= step]


def _cell(value: Any) -> Any:
    return f"{value:.8g}" if isinstance(value, float) else value
