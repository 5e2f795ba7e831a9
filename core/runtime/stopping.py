"""Stopping a run from outside: the first signal ends it in order, later ones change nothing."""

import signal
import threading
from types import FrameType
from typing import Any

from ..errors import EngramError


class InterruptedRunError(EngramError):
    """A signal came before there was anything to keep."""

    def __init__(self, exit_code: int) -> None:
        super().__init__("interrupted")
        self.exit_code = exit_code


class Stopper:
    """While entered, SIGINT and SIGTERM set a flag that the loops look at between steps.

    Once told to stop, the program is on its way out: signals that come after it was left are
    ignored, so that none turns an orderly end into a crash.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.signum: int | None = None
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.signum is not None

    @property
    def exit_code(self) -> int:
        """What a shell expects of a program that ended by this signal; 0 without one."""
        return 0 if self.signum is None else 128 + self.signum

    def check(self) -> None:
        """Raises InterruptedRunError if told to stop: for what has no steps to stop between."""
        if self():
            raise InterruptedRunError(self.exit_code)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is None:
            self.signum = signum

    def __enter__(self) -> "Stopper":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in self.SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if self.signum is None else signal.SIG_IGN)
