"""How fast a training loop goes, the same way for every peer and for us.

A `train_*.py` beside this file is run by the Python of its peer's own venv, so this file asks for
the standard library only. A loop tells each step; what is before `begin` does not count. One line
of JSON is printed:

    {"who", "version", "threads", "steps", "updates", "cpu_seconds", "wall_seconds", "rate"}

`rate` is env steps a second by processor time, which other work on the machine disturbs least; all
that run here have one thread. A `Race` gives, in place of the rate, when a score was reached.
"""

import json
import sys
import time
from collections import deque
from importlib.metadata import version
from typing import Any


class EnoughError(Exception):
    """Raised at the step after which nothing more is measured."""


class Pace:
    """Measures from step `begin` to step `end`."""

    def __init__(self, begin: int, end: int) -> None:
        self._begin, self._end = begin, end
        self._at: tuple[int, float, float, int] | None = None
        self.figures: dict[str, Any] = {}

    def at(self, step: int, updates: int = 0) -> None:
        """So many steps and updates were made; raises EnoughError at the end."""
        if self._at is None:
            if step >= self._begin:
                self._at = step, time.process_time(), time.perf_counter(), updates
        elif step >= self._end:
            first, cpu, wall, before = self._at
            seconds = time.process_time() - cpu
            self.figures = {
                "steps": step - first,
                "updates": updates - before,
                "cpu_seconds": round(seconds, 3),
                "wall_seconds": round(time.perf_counter() - wall, 3),
                "rate": round((step - first) / seconds, 1),
            }
            raise EnoughError


class Race:
    """Measures from the beginning to where the newest `window` returns have a mean of `goal`.

    Where that is not so by step `limit`, `reached` is false and the figures are those of its end.
    """

    def __init__(self, goal: float, window: int, limit: int) -> None:
        self._goal, self._limit = goal, limit
        self._returns: deque[float] = deque(maxlen=window)
        self._begun = time.process_time(), time.perf_counter()
        self.figures: dict[str, Any] = {}

    def ended(self, earned: float) -> None:
        """An episode of training earned so much."""
        self._returns.append(earned)

    def at(self, step: int, updates: int = 0) -> None:
        """So many steps and updates were made; raises EnoughError at the end."""
        full = len(self._returns) == self._returns.maxlen
        mean = sum(self._returns) / max(1, len(self._returns))
        reached = full and mean >= self._goal
        if not reached and step < self._limit:
            return
        cpu, wall = self._begun
        self.figures = {
            "reached": reached,
            "score": round(mean, 2),
            "steps": step,
            "updates": updates,
            "cpu_seconds": round(time.process_time() - cpu, 1),
            "wall_seconds": round(time.perf_counter() - wall, 1),
        }
        raise EnoughError


def watch(given: dict[str, Any]) -> "Pace | Race":
    """What the settings ask to be measured: a race where they name a goal."""
    if "goal" in given:
        return Race(given["goal"], given["window"], given["end"])
    return Pace(given["begin"], given["end"])


def settings() -> dict[str, Any]:
    """The settings that this process was started with."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    return given


def report(who: str, package: str, threads: int, pace: "Pace | Race") -> None:
    """Prints the line of JSON."""
    line = {"who": who, "version": version(package) if package else "", "threads": threads}
    print(json.dumps(line | pace.figures), flush=True)
