"""What a person sees of a run: the status line, and the news of its board."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from . import board
from .status_line import StatusLine


class Terminal:
    """Shows the status and, as they come, what the board has to say."""

    def __init__(self, stream: TextIO, folder: Path, options: board.BoardOptions) -> None:
        self._line = StatusLine(stream)
        self._board = board.start(folder, options)

    def update(self, status: Mapping[str, Any]) -> None:
        """See `Display.update`."""
        self._line.update(status)
        self._tell()

    def say(self, line: str) -> None:
        """See `Display.say`."""
        self._line.say(line)

    def _tell(self) -> None:
        for line in self._board.news() if self._board else []:
            self._line.say(line)

    def close(self) -> None:
        """Lets the board post what is left, a few seconds at most, and ends the line."""
        if self._board is not None:
            self._board.close()
        self._tell()
        self._line.close()
