"""Training's side of the board: cheap, and never raising."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ADDRESS_SECONDS: Final = 5.0  # without a word from the board for so long, training says so
NEWS_SECONDS: Final = 0.2


class BoardHandle:
    """The board of a running run, seen from training."""

    def __init__(
        self, folder: Path, process: "subprocess.Popen[bytes] | None", note: str | None = None
    ) -> None:
        self._news = folder / "live" / "board.json"
        self._process = process
        self._lines = [note] if note else []
        self._said: set[str] = set()
        self._quiet_until = time.monotonic() + ADDRESS_SECONDS
        self._next_look = 0.0
        self._closed = False

    def news(self) -> list[str]:
        """Lines to print now, each once: the address when there is one, and what went wrong."""
        now = time.monotonic()
        if now < self._next_look:
            return []
        self._next_look = now + NEWS_SECONDS
        lines = [*self._lines, *_lines(read_json(self._news))]
        if not lines and not self._said and not self._closed:
            lines = self._silence(now)
        fresh = [line for line in dict.fromkeys(lines) if line not in self._said]
        self._said.update(fresh)
        return fresh

    def close(self, timeout: float = 5.0) -> None:
        """Wait until the board has posted the last points, `timeout` seconds at most, and end it.

        Call it after the last row is written; `news` may have last lines then.
        """
        self._closed = True
        self._next_look = 0.0
        if self._process is None or self._process.stdin is None:
            return
        with contextlib.suppress(OSError, ValueError), self._process.stdin as stdin:
            stdin.write(b"end")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        if self._process.poll() is None:
            # Its group: the board may be waiting for a download. A server has a session of its own.
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _silence(self, now: float) -> list[str]:
        if self._process is not None and self._process.poll() is not None:
            return ["board: its process has ended, live/board.log says why; training goes on"]
        if now > self._quiet_until:
            return [f"board: no page after {ADDRESS_SECONDS:.0f} s; its address follows"]
        return []


def read_json(path: Path) -> dict[str, Any]:
    """What the file says; nothing where it is not there, or is not a JSON object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _lines(news: Mapping[str, Any]) -> list[str]:
    address = news.get("address")
    return [f"board: {line}" for line in (*news.get("notes", ()), *([address] if address else ()))]
