"""What a file of episodes says of itself, and what is said where it is none, or a damaged one."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from ..envs.packages import needed
from ..errors import EngramError, UsageError
from .episodes import Source
from .space import STORED_AS, Space
from .sums import Sums

NAME: Final = "engram"
"""The attribute, or key, that holds the header."""

FORMAT: Final = 1
INSTALL: Final = "pip install -r requirements-data.txt"


class BrokenExportError(EngramError):
    """The file is no whole export of episodes."""


class Header(NamedTuple):
    """What a file says of its episodes."""

    space: Space
    sums: Sums
    about: Mapping[str, Any]
    """Where they come from, as plain JSON; nothing is read from it."""


def package(module: str) -> ModuleType:
    """A package that files are read and written with; raises UsageError where it is missing."""
    return needed(module, "an export", INSTALL)


def header_json(source: Source, sums: Sums, about: Mapping[str, Any]) -> dict[str, Any]:
    """The header of a file that holds those episodes."""
    return {
        "format": FORMAT,
        "about": dict(about),
        "space": source.space.as_json(),
        "actions": STORED_AS[source.space.actions.kind],
        "episodes": len(source.held),
        "steps": sum(one.steps for one in source.held),
        "content_sha256": sums.content,
        "sha256": sums.whole,
    }


def header_of(content: Mapping[str, Any], path: Path) -> Header:
    """What `header_json` wrote. Raises UsageError for another format, KeyError for no header."""
    if content["format"] != FORMAT:
        raise UsageError(f"'{path}' has format {content['format']}, not {FORMAT}")
    sums = Sums(content["content_sha256"], content["sha256"])
    return Header(Space.from_json(content["space"]), sums, content["about"])


def foreign(path: Path) -> UsageError:
    """The error of a file that may be whole, but that no export of ours wrote."""
    return UsageError(f"'{path}' is no export of episodes: `main.py export` did not write it")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Says of whatever goes wrong within that it is the file: raises BrokenExportError."""
    try:
        yield
    except EngramError:
        raise
    except Exception as error:  # what a damaged file does to its readers is no short list
        why = " ".join(str(error).split()) or type(error).__name__
        raise BrokenExportError(f"'{path}' is damaged: {why}") from None


def check_whole(right: bool, what: str) -> None:
    """Raises ValueError where a file contradicts itself; `reading` says which."""
    if not right:
        raise ValueError(what)
