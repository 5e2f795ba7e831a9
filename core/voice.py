"""The voice of a run: lines for the person, kept until there is somebody to tell."""

from collections.abc import Callable


class Voice:
    """Passes lines on to whoever listens; those said before that are passed on first."""

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self._listener: Callable[[str], None] = self._waiting.append

    def __call__(self, line: str) -> None:
        """Says a line."""
        self._listener(line)

    def connect(self, listener: Callable[[str], None]) -> None:
        """From now on `listener` is told."""
        self._listener = listener
        for line in self._waiting:
            listener(line)
        self._waiting.clear()
