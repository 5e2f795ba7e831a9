"""A process that plays some lanes of a run, and writes what happens into the shared memory."""

import ctypes
import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..blas import limit_threads
from ..memory import Writer
from ..rollout import MakePlayer, Rollout
from ..types import Columns
from .desk import BREATH, Desk, Note, Order
from .stopping import Stopper
from .weights import Weights

PR_SET_PDEATHSIG: Final = 1
LOST: Final = 3
"""Exit code of a collector whose learner is gone."""
REPORT: Final = 20_000
"""Most characters of what a collector says as it fails: a pipe takes no more than 64 KiB."""


class Ended(NamedTuple):
    """The episodes that ended with a step: returns and lengths."""

    episodes: list[tuple[float, int]]


class Farewell(NamedTuple):
    """What is known of infos, as a collector leaves in order."""

    infos: dict[str, dict[str, Any]]


class Failure(NamedTuple):
    """Why a collector leaves out of order."""

    headline: str
    report: str


Message = Ended | Farewell | Failure


@dataclass(frozen=True)
class Job:
    """What a collector is told."""

    number: int
    make: MakePlayer
    branch: tuple[int, ...]
    lanes: NDArray[np.int64]
    """Of the memory."""
    seeds: Sequence[int]
    """Of the first episodes."""
    writer: Writer
    weights: Weights
    desk: Desk
    threads: int
    learner: int
    """Process id of who started it."""


class OwnLanes:
    """A writer whose lanes are numbered from 0; see `Writer`."""

    def __init__(self, writer: Writer, lanes: NDArray[np.int64]) -> None:
        self._writer, self._lanes = writer, lanes

    def start(self, obs: Columns, lanes: NDArray[np.int64] | None = None) -> None:
        """See `Writer.start`."""
        self._writer.start(obs, None if lanes is None else self._lanes[lanes])

    def append(self, *step: Any, lanes: NDArray[np.int64] | None = None, **beside: Any) -> None:
        """See `Writer.append`."""
        mine = None if lanes is None else self._lanes[lanes]
        self._writer.append(*step, lanes=mine, **beside)


def collect(job: Job, to_learner: Connection) -> None:
    """The life of a collector: what its process runs."""
    die_with(job.learner)
    for number in Stopper.SIGNALS:  # it is the learner that is stopped
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, Stopper.SIGNALS)
    try:
        infos = _play(job, to_learner.send)
        to_learner.send(Farewell(infos))
    except BaseException as error:
        headline = f"{type(error).__name__}: {error}".partition("\n")[0]
        with suppress(OSError):  # nobody listens any more
            to_learner.send(Failure(headline[-REPORT:], traceback.format_exc()[-REPORT:]))
        os._exit(1)


def die_with(learner: int) -> None:
    """Has the system kill this process as soon as the one that started it is gone."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != learner:  # it was gone before that
        os._exit(LOST)


def _play(job: Job, send: Callable[[Message], None]) -> dict[str, dict[str, Any]]:
    """Plays for as long as it may; gives the infos that it saw."""
    limit_threads(job.threads)
    env, actor = job.make(len(job.lanes), job.branch)
    notes, orders = job.desk.notes(job.number), job.desk.orders
    rollout = Rollout(env, actor, OwnLanes(job.writer, job.lanes))
    ended: list[tuple[float, int]] = []
    rollout.episodes.heard = lambda *episode: ended.append(episode)
    try:
        rollout.begin(job.seeds)
        seen = 0
        notes[Note.READY] = 1
        while _may_go_on(notes, orders):
            if job.weights.version != seen:
                seen, weights = job.weights.read()
                actor.take(weights)
                notes[Note.VERSION] = seen
            steps = rollout.step(int(orders[Order.CLOCK]))
            if ended:
                send(Ended(ended))
                ended.clear()
                notes[Note.TOLD] += 1
            notes[Note.STEPS] += steps
            notes[Note.DONE] += 1
    finally:
        env.close()
    return {key: asdict(running) for key, running in rollout.episodes.infos.items()}


def _may_go_on(notes: NDArray[np.int64], orders: NDArray[np.int64]) -> bool:
    """Waits until another step may be made; false where none will be any more."""
    while not orders[Order.STOP]:
        held = orders[Order.HOLD]
        notes[Note.HELD] = held
        if not held and notes[Note.DONE] < notes[Note.ALLOWED]:
            return True
        time.sleep(BREATH)
    return False
