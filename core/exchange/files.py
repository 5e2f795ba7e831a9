"""Files of episodes: written aside, read again, compared and renamed; or opened, of any kind."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..durable import flush
from ..errors import RunFailedError, UsageError
from . import hdf5, minari
from .episodes import Source
from .hdf5 import HDF5Episodes
from .header import BrokenExportError, Header, foreign, package
from .minari import MinariEpisodes
from .sums import Summed, Sums

if TYPE_CHECKING:
    from gymnasium import Space as GymSpace

Kind = Literal["minari", "hdf5"]
FileEpisodes = HDF5Episodes | MinariEpisodes
SIGNATURE = b"\x89HDF\r\n\x1a\n"


def require(kind: Kind) -> None:
    """Raises UsageError, with what installs it, where a package for such files is missing."""
    if kind == "minari":
        minari.require()
    else:
        package("h5py")


def open_episodes(path: Path) -> FileEpisodes:
    """The episodes of a file of either kind.

    Raises UsageError for what is not there or not ours, BrokenExportError for what is damaged.
    """
    if not path.exists():
        raise UsageError(f"no file '{path}'")
    if path.is_dir():
        return MinariEpisodes(path)
    if not _is_hdf5(path):
        raise foreign(path)
    return HDF5Episodes(path)


def _is_hdf5(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(SIGNATURE)) == SIGNATURE
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {error.strerror}") from None


def verify(summed: Summed, header: Header, path: Path) -> None:
    """Raises BrokenExportError unless the episodes of a file are those that were written."""
    if summed.sums() != header.sums:
        raise BrokenExportError(f"'{path}' is damaged: its sums are not those of what was written")


def export(
    source: Source,
    path: Path,
    kind: Kind,
    about: Mapping[str, Any],
    *,
    overwrite: bool = False,
    observed: "GymSpace[Any] | None" = None,
) -> Sums:
    """Writes a file of all episodes, and reads it again to see that nothing changed.

    Until then it has another name; what fails leaves nothing. `observed` is the environment's
    observation space. Raises UsageError for a path that cannot be written to, RunFailedError where
    the disk fails or what is read again is something else.
    """
    require(kind)
    check_free(path, kind, overwrite)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with _written_aside(temporary, path):
        if kind == "minari":
            sums = minari.write(temporary, source, about, observed)
        else:
            sums = hdf5.write(temporary, source, about)
        _compare(temporary, sums, path)
        _put(temporary, path)
    return sums


def check_free(path: Path, kind: Kind, overwrite: bool) -> None:
    """Makes the folder that a path is in; raises UsageError where the path cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"'{path.parent}' cannot hold a file: {error.strerror}") from None
    if not path.exists():
        return
    if not overwrite:
        raise UsageError(f"'{path}' is there already: set --out, or --overwrite")
    if path.is_dir():
        ours = kind == "minari" and {x.name for x in path.iterdir()} <= minari.FILES
    else:
        ours = kind == "hdf5" and _is_hdf5(path)
    if not ours:
        raise UsageError(f"'{path}' is no {kind} export, so that it is not overwritten: set --out")


@contextmanager
def _written_aside(temporary: Path, path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:  # h5py tells of a full disk by either
        why = " ".join(str(error).split())
        raise RunFailedError(f"'{path}' cannot be written: {why}") from None
    finally:
        _remove(temporary)


def _compare(temporary: Path, sums: Sums, path: Path) -> None:
    try:
        with closing(open_episodes(temporary)) as written:
            same = Summed(written).sums() == written.header.sums == sums
    except BrokenExportError:
        same = False
    if not same:
        raise RunFailedError(f"'{path}' is not written: what was read again is something else")


def _put(temporary: Path, path: Path) -> None:
    """Makes a file survive a loss of power, and renames it; a folder that is there goes first."""
    for file in sorted(temporary.iterdir()) if temporary.is_dir() else []:
        flush(file)
    flush(temporary)
    if path.is_dir():
        old = path.with_name(f".{path.name}.{os.getpid()}.old.tmp")
        path.replace(old)
        temporary.replace(path)
        _remove(old)
    else:
        temporary.replace(path)
    flush(path.parent)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
