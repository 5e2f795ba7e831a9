"""The collectors of a run, as its loop sees them: in the place of a rollout."""

import multiprocessing as mp
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Final

import numpy as np

from ..agent import Agent
from ..errors import RunFailedError
from ..memory import Memory
from ..metrics import Episodes, Running
from ..options import LoopOptions
from ..rollout import MakePlayer
from ..seeding import SeedTree
from ..storage.shared import Shared
from ..types import Tree
from .collector import Ended, Failure, Farewell, Job, collect
from .desk import BREATH, Desk, Note, Order
from .stopping import Stopper
from .weights import Weights

SPAWN: Final = mp.get_context("spawn")
LOOK: Final = 0.25
"""Seconds between two looks at whether all are alive."""
START_SECONDS: Final = 120.0
"""What building an environment, and importing what acts in it, may take."""
LEAVE_SECONDS: Final = 5.0
"""What a collector may take to leave before it is killed."""
COLLECTED: Final = 3
"""The branch of draws of more than one collector."""


@dataclass
class Place:
    """One collector's, whoever fills it."""

    number: int
    process: BaseProcess
    messages: Connection
    heard: int = 0
    seen: tuple[int, int] = (0, 0)
    """Its steps, and whether it was ready, when it was looked at."""
    moved: float = field(default_factory=time.monotonic)
    """When that last changed, or nothing was asked of it."""


class Collectors:
    """Processes that step the environments of a run; see `Rollout`, whose place they take.

    Each has its own lanes, and writes them. They are ahead of what was counted by at most
    `max_policy_lag` steps of all lanes, or, in lockstep, not at all: then a run is reproducible.
    """

    def __init__(
        self,
        make: MakePlayer,
        agent: Agent,
        memory: Memory,
        seeds: SeedTree,
        options: LoopOptions,
        say: Callable[[str], None],
    ) -> None:
        self._make, self._agent, self._memory = make, agent, memory
        self._seeds, self._options, self._say = seeds, options, say
        count = options.num_collectors
        self._desk = Desk(count, Shared())
        self._weights = Weights(agent.weights(), Shared())
        self._published: dict[int, int] = {}
        """The agent's updates in each version of its weights that somebody may act with."""
        self._begun = agent.updates
        self._legs = self._holds = 0
        self._lanes = np.arange(options.num_envs).reshape(count, -1)
        self._places: dict[int, Place] = {}
        self._failures: dict[int, Failure] = {}
        self._counted, self._looked = 0, time.monotonic()
        self.episodes = Episodes(options.num_envs)
        self.waiting = False
        self.restarts = 0
        self.lag_most = 0
        """Most updates that the weights of a counted step were behind those that learnt of it."""

    # In the place of a rollout

    def begin(self, seeds: Sequence[int]) -> None:
        """Starts every collector; they begin the first episodes."""
        self._publish()
        for number in range(len(self._lanes)):
            self._places[number] = self._start(number, seeds, 0)

    def state(self) -> Tree:
        """What the run goes on from: environments and actors begin anew."""
        return {
            "episodes": self.episodes.state(),
            "restarts": self.restarts,
            "legs": self._legs + 1,
            "lag_most": self.lag_most,
        }

    def resume(self, state: Tree, seeds: Sequence[int]) -> bool:
        """Starts collectors that go on where others left; never exactly."""
        self.episodes.load(state["episodes"])
        # of a run that was serial before there is none of these
        self.restarts, self.lag_most = state.get("restarts", 0), state.get("lag_most", 0)
        self._legs = state.get("legs", 1)
        self.begin(seeds)
        return False

    def step(self, clock: int) -> int:
        """Waits for steps that were not counted yet; gives how many there are.

        Now and then it gives 0, so that whoever asks can look up.
        """
        oldest = self._oldest()
        self._publish()
        self._desk.orders[Order.CLOCK] = clock
        done = self._desk.column(Note.DONE)
        wanted = int(done.min()) + 1
        lead = 0 if self._options.lockstep else self._options.max_policy_lag
        self._desk.column(Note.ALLOWED)[:] = wanted + lead
        until = time.monotonic() + LOOK
        while not self._due(wanted):
            self.check()
            if time.monotonic() > until:
                return 0
            time.sleep(BREATH)
        self.check()
        steps = int(self._desk.column(Note.STEPS).sum())
        new, self._counted = steps - self._counted, steps
        self._hear()
        self._note_lag(self._oldest() if self._options.lockstep else oldest)
        return new

    def _due(self, wanted: int) -> bool:
        if self._options.lockstep:
            return bool((self._desk.column(Note.DONE) >= wanted).all())
        return bool(self._desk.column(Note.STEPS).sum() > self._counted)

    @contextmanager
    def still(self) -> Iterator[None]:
        """While entered, nobody steps."""
        self._holds += 1
        self._desk.orders[Order.HOLD] = self._holds
        held = self._desk.column(Note.HELD)
        try:
            while any(held[number] != self._holds for number in self._places):
                self.check()
                time.sleep(BREATH)
            yield
        finally:
            self._desk.orders[Order.HOLD] = 0

    # Weights

    def _publish(self) -> None:
        updates = self._agent.updates
        if self._published.get(self._weights.version) != updates:
            self._published[self._weights.publish(self._agent.weights())] = updates

    def _oldest(self) -> int:
        """The oldest version that somebody acts with; 0 where nobody acts yet."""
        versions = self._desk.column(Note.VERSION)
        return int(versions[versions > 0].min()) if versions.any() else 0

    def _note_lag(self, oldest: int) -> None:
        if oldest:
            behind = self._agent.updates - self._published[oldest]
            self.lag_most = max(self.lag_most, behind)
            for version in [known for known in self._published if known < oldest]:
                del self._published[version]

    # Processes

    def _start(self, number: int, seeds: Sequence[int], attempt: int) -> Place:
        lanes = self._lanes[number]
        first = attempt == self._legs == 0
        as_serial = first and len(self._lanes) == 1
        branch = () if as_serial else (COLLECTED, number, attempt, self._legs)
        own = [seeds[lane] for lane in lanes]
        job = Job(
            number, self._make, branch, lanes, own, self._memory.writer(lanes.tolist()),
            self._weights, self._desk, self._options.threads, os.getpid(),
        )  # fmt: skip
        ours, theirs = SPAWN.Pipe(duplex=False)
        process = SPAWN.Process(
            target=collect, args=(job, theirs), name=f"collector {number}", daemon=True
        )
        # a signal to all of a run's processes is the learner's to answer, from the first moment on
        before = signal.pthread_sigmask(signal.SIG_BLOCK, Stopper.SIGNALS)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        return Place(number, process, ours)

    def check(self) -> None:
        """Sees to who is dead or hangs, every quarter of a second; raises RunFailedError."""
        now = time.monotonic()
        since = now - self._looked
        if since < LOOK:
            return
        self._looked = now
        for place in list(self._places.values()):
            place.moved += since - LOOK  # while nobody looked, nobody can have been too slow
            if not self._options.lockstep:
                self._hear_one(place)  # who waits to be heard goes on
            why = self._trouble(place, now)
            if why is not None:
                self._replace(place, why)

    def _trouble(self, place: Place, now: float) -> str | None:
        """What is wrong with a collector, if anything is."""
        notes = self._desk.notes(place.number)
        if not place.process.is_alive():
            return self._last_words(place)
        seen = int(notes[Note.DONE]), int(notes[Note.READY])
        asked = not notes[Note.READY] or notes[Note.DONE] < notes[Note.ALLOWED]
        if seen != place.seen or notes[Note.HELD] or not asked:
            place.seen, place.moved = seen, now
        limit = self._options.env_timeout
        if not limit or now - place.moved <= limit:
            return None
        if notes[Note.READY]:
            return f"a step takes more than {limit} s (env_timeout)"
        if now - place.moved <= START_SECONDS:
            return None
        return f"building its environment takes more than {START_SECONDS:g} s"

    def _last_words(self, place: Place) -> str:
        """Why a collector that is gone says it went, or how it was ended."""
        self._hear_one(place)
        failure = self._failures.pop(place.number, None)
        if failure is not None:
            self._say(failure.report.rstrip())
            return failure.headline
        code = place.process.exitcode
        return f"killed by signal {-code}" if code and code < 0 else f"exit code {code}"

    def _replace(self, place: Place, why: str) -> None:
        """Puts another process in the place of one that is no good; raises RunFailedError."""
        self._end(self._places.pop(place.number))
        if self.restarts >= self._options.max_restarts:
            raise RunFailedError(f"collector {place.number} failed: {why}")
        self.restarts += 1
        self._say(
            f"collector {place.number} failed ({why}): restart {self.restarts} of "
            f"{self._options.max_restarts}; its open episodes end there, truncated"
        )
        notes = self._desk.notes(place.number)
        for note in (Note.READY, Note.HELD, Note.TOLD, Note.VERSION):
            notes[note] = 0
        seeds = self._seeds.integers("env", self._options.num_envs, COLLECTED, self.restarts)
        self._places[place.number] = self._start(place.number, seeds, self.restarts)

    def _end(self, place: Place) -> None:
        place.process.kill()
        place.process.join()
        place.process.close()
        place.messages.close()

    # Messages

    def _hear(self) -> None:
        for place in self._places.values():
            if self._desk.notes(place.number)[Note.TOLD] != place.heard:
                self._hear_one(place)

    def _hear_one(self, place: Place) -> None:
        try:
            while place.messages.poll():
                message = place.messages.recv()
                place.heard += isinstance(message, Ended)
                self._take(place, message)
        except (EOFError, OSError):
            return

    def _take(self, place: Place, message: object) -> None:
        if isinstance(message, Ended):
            for earned, length in message.episodes:
                self.episodes.count(earned, length)
        elif isinstance(message, Failure):
            self._failures[place.number] = message
        elif isinstance(message, Farewell):
            for key, running in message.infos.items():
                self.episodes.infos.setdefault(key, Running()).merge(Running(**running))

    def summary(self) -> dict[str, float]:
        """See `Collecting.summary`."""
        updates = self._agent.updates - self._begun
        return {
            "policy_lag_max": self.lag_most,
            "updates_per_step": updates / self._counted if self._counted else 0.0,
            "restarts": self.restarts,
        }

    def close(self) -> None:
        """Has all leave; who does not is killed. Nothing of them is left."""
        self._desk.orders[Order.STOP] = 1
        until = time.monotonic() + LEAVE_SECONDS
        for place in self._places.values():
            while place.process.is_alive() and time.monotonic() < until:
                self._hear_one(place)
                place.process.join(BREATH)
            self._hear_one(place)
            self._end(place)
        self._places = {}
