"""Processes that fill a memory and read it as they are told: the side that tells them.

What they answer is in `benchmarks.peers.serve`.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.run import HERE, installed, python_of, reason
from benchmarks.train_speed import ONE_THREAD

ROOT: Final = Path(__file__).parents[1]
OURS: Final = "ours"
FILLING, ASKING, LEAVING = 900.0, 300.0, 10.0
"""Seconds that a worker may take to fill, for a loop, and to end."""
SURROUNDINGS: Final = ONE_THREAD | {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}


class WorkerError(Exception):
    """A worker that ended, or took too long; says why."""


def command(who: str) -> list[str]:
    """What runs a peer's worker, or ours. Raises WorkerError for a peer that is not installed."""
    if who == OURS:
        return [sys.executable, "-m", "benchmarks.sample_ours"]
    if not installed(who):
        raise WorkerError("it is not installed: make bench-setup")
    return [str(python_of(who)), str(HERE / f"sample_{who}.py")]


class Worker:
    """A process with a full memory. To be closed."""

    def __init__(self, words: Sequence[str], given: Mapping[str, Any]) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed with the worker
        self._process = subprocess.Popen(
            [*words, json.dumps(given)],
            cwd=ROOT,
            env=os.environ | SURROUNDINGS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._tell, self._told = self._process.stdin, self._process.stdout

    def ready(self) -> dict[str, Any]:
        """Waits until its memory is full; gives what it says of itself. Raises WorkerError."""
        return self._answer(FILLING)

    def ask(self, loop: str, seconds: float) -> dict[str, Any]:
        """Has it run a loop for about so long; gives its figures. Raises WorkerError."""
        with suppress(BrokenPipeError):  # it ended: why is told where its answer is missed
            self._tell.write(json.dumps({"loop": loop, "seconds": seconds}) + "\n")
            self._tell.flush()
        return self._answer(ASKING)

    def _answer(self, patience: float) -> dict[str, Any]:
        """Its next line of JSON; libraries print lines of their own."""
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(patience, give_up)
        timer.start()
        try:
            for line in self._told:
                if line.startswith("{"):
                    found: dict[str, Any] = json.loads(line)
                    return found
        finally:
            timer.cancel()
        code = self._process.wait()
        if late.is_set():
            raise WorkerError(f"it took more than {patience:g} s")
        self._errors.seek(0)
        raise WorkerError(f"exit code {code}: {reason(self._errors.read())}")

    def close(self) -> None:
        """Ends it."""
        with suppress(BrokenPipeError):
            self._tell.close()
        try:
            self._process.wait(LEAVING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._told.close()
        self._errors.close()
