"""What an agent sees and what it makes of it, in a small file for whoever looks on."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol, runtime_checkable

import numpy as np

from .checkpoint import BrokenCheckpointError, from_bytes, to_bytes
from .types import Array, Columns

NAME: Final = "view.safetensors"
SECONDS: Final = 1.0
DUTY: Final = 2_000
"""A view that took t seconds is followed by none for DUTY * t, so that it costs nothing."""


@dataclass(frozen=True)
class View:
    """One moment of one lane. The values are those of the weights as they are when it is asked."""

    frames: Array | None
    """The stack of the first picture there is among the observations, `[W, ...]`, oldest first;
    None where they are all plain numbers."""
    padding: int
    """Its oldest frames that are the episode's first one repeated."""
    values: Array
    """`[A]`: of each action, by `meaning`."""
    meaning: Literal["Q", "probability"]
    action: int
    """The one that was taken."""


@runtime_checkable
class Seeing(Protocol):
    """An actor, or who steps one, that can be asked what it saw last, in its first lane."""

    def view(self) -> View | None:
        """None before it has acted, or where it values nothing.

        Changes nothing that acting or learning follows from.
        """


def newest_picture(stacks: Columns) -> Array | None:
    """The first column of stacks `[L, W, ...]` whose items are pictures, of lane 0."""
    for stack in stacks.values():
        if stack.ndim in (4, 5) and min(sorted(stack.shape[2:])[-2:]) > 1:
            frames: Array = stack[0]
            return frames
    return None


class Viewer:
    """Writes a view now and then, at most once in a second and in far less time than that."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._next = 0.0

    def __call__(self, step: int, who: object, *, last: bool = False) -> None:
        """Asks who sees for a view and writes it, if it is time or there will be no other.

        Who sees nothing is not asked.
        """
        begun = time.perf_counter()
        if (begun < self._next and not last) or not isinstance(who, Seeing):
            return
        if (seen := who.view()) is not None:
            with suppress(OSError):  # nothing that looks at a run can stop it
                write(self._path, step, seen)
        now = time.perf_counter()
        self._next = now + max(SECONDS, DUTY * (now - begun))


def write(path: Path, step: int, view: View) -> None:
    """Writes a view aside and renames it: a reader sees the old file or the new."""
    told: dict[str, Any] = {
        "step": step,
        "padding": view.padding,
        "values": np.asarray(view.values),
        "meaning": view.meaning,
        "action": view.action,
    }
    if view.frames is not None:
        told["frames"] = view.frames
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(to_bytes(told))
    temporary.replace(path)


def read(path: Path) -> tuple[int, View] | None:
    """A view and its step; None where there is no whole file."""
    try:
        told = from_bytes(path.read_bytes(), path.name)
        step: int = told.pop("step")
        return step, View(**{"frames": None, **told})
    except (OSError, BrokenCheckpointError, TypeError, KeyError):
        return None
