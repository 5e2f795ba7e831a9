"""The status line of a run: one live line on a terminal, plain lines every few seconds elsewhere.

Drawn by tqdm and not by rich: one line is all there is, tqdm needs no thread for it, hides no
cursor that a killed run would leave hidden, and loads in a tenth of the time.
"""

import math
import os
import time
from collections.abc import Mapping
from typing import Any, Final, TextIO

from core.sizes import size_of

LIVE_SECONDS: Final = 0.25
PLAIN_SECONDS: Final = 5.0
UNSIZED: Final = {"ncols": 160, "nrows": 24}  # a terminal that does not say how large it is


class StatusLine:
    """Says how far a run is, on a stream that it shares with permanent lines.

    `interval` is the least time between two renewals in seconds: by default 0.25 on a terminal,
    5 elsewhere, where no control character is ever written. A stream that is closed or full makes
    it silent, never raises.
    """

    def __init__(self, stream: TextIO, interval: float | None = None) -> None:
        self._stream = stream
        self._live = _is_terminal(stream)
        self._interval = interval or (LIVE_SECONDS if self._live else PLAIN_SECONDS)
        self._due = -math.inf
        self._status: Mapping[str, Any] = {}
        self._shown: Mapping[str, Any] = {}
        self._bar: Any = None

    def update(self, status: Mapping[str, Any]) -> None:
        """Show the status if the last one is old enough; else this costs a look at the clock."""
        self._status = status
        now = time.monotonic()
        if now >= self._due:
            self._due = now + self._interval
            self._show()

    def say(self, line: str) -> None:
        """Print a line that stays, above the live one."""
        try:
            if self._bar is not None:
                self._bar.clear()
            self._stream.write(f"{line}\n")
            self._stream.flush()
            if self._bar is not None:
                self._bar.refresh()
        except (OSError, ValueError):
            self._fall_silent()

    def close(self) -> None:
        """Leave the newest status standing and end the line."""
        if self._status is not self._shown:
            self._show()
        if self._bar is not None:
            try:
                self._bar.close()
            except (OSError, ValueError):
                self._fall_silent()
            self._bar = None
        self._due = math.inf

    def _show(self) -> None:
        self._shown = self._status
        if not self._live:
            self.say(describe(self._status))
            return
        try:
            if self._bar is None:
                self._bar = _bar(self._stream)
            self._bar.set_description_str(describe(self._status), refresh=True)
        except (OSError, ValueError):
            self._fall_silent()

    def _fall_silent(self) -> None:
        """What looks at a run may not end it: the terminal may be gone."""
        self._bar, self._live = None, False
        self._due = math.inf


def describe(status: Mapping[str, Any]) -> str:
    """The status in one line; what it does not say yet is a dash.

    `steps` env steps, `seconds_left` s, `memory_fill` 0 to 1, `memory_bytes` and
    `memory_bytes_full` bytes.
    """
    step, steps = status.get("step", 0), status.get("steps", 0)
    share = 100 * step / steps if steps else 0
    parts = (
        f"{share:3.0f}%",
        f"{step:,}/{steps:,}",
        f"{_number(status.get('steps_per_second'), ',.0f')} steps/s",
        f"{_clock(status.get('seconds_left'))} left",
        f"return {_number(status.get('last_return'), '.1f')}{_fallen(status)}",
        f"epsilon {_number(status.get('epsilon'), '.2f')}",
        f"memory {_number(status.get('memory_fill'), '.0%')}:"
        f" {_size(status.get('memory_bytes'))} of {_size(status.get('memory_bytes_full'))}",
    )
    return " | ".join(parts)


def _fallen(status: Mapping[str, Any]) -> str:
    return " (evaluation far below its best)" if status.get("fallen") else ""


def _bar(stream: TextIO) -> Any:
    from tqdm import tqdm

    line = type("Line", (tqdm,), {"monitor_interval": 0})  # without tqdm's watching thread
    shape = {"dynamic_ncols": True} if _has_size(stream) else UNSIZED
    return line(file=stream, bar_format="{desc}", **shape)


def _has_size(stream: TextIO) -> bool:
    try:
        return os.get_terminal_size(stream.fileno()).columns > 0
    except (OSError, ValueError):
        return False


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def _known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _number(value: float | None, form: str) -> str:
    return format(value, form) if _known(value) else "-"


def _clock(seconds: float | None) -> str:
    if seconds is None or not _known(seconds):
        return "-"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def _size(count: float | None) -> str:
    return "-" if count is None or not _known(count) else size_of(count)
