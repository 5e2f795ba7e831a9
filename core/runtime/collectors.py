"""The collectors of a run, as its loop sees them: in the place of a rollout."""

import multiprocessing as mp
import os
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
from .weights import Weights

SPAWN: Final = mp.get_context("spawn")
LOOK: Final = 0.25
"""Seconds between two looks at whether all are alive."""
START_SECONDS: Final = 120.0
"""What building an environment, and importing what acts in it, may take."""
LEAVE_SECONDS: Final = 5.0
"""What a collector may take to leave before it is killed."""
COLLECTED: Final = 2
"""The branch of draws of more than one collector."""


@dataclass
class Place:
    """One collector's, whoever fills it."""

    number: int
    lanes: Sequence[int]
    process: BaseProcess
    messages: Connection
    heard: int = 0
    done: int = 0
    moved: float = field(default_factory=time.monotonic)
    """When it last made a step, or began."""


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
        self._published = [0]
        """The agent's updates in each version of its weights."""
        self._lanes = np.arange(options.num_envs).reshape(count, -1)
        self._places: dict[int, Place] = {}
        self._failures: dict[int, Failure] = {}
        self._counted, self._looked = 0, 0.0
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
        return {"episodes": self.episodes.state(), "restarts": self.restarts}

    def resume(self, state: Tree, seeds: Sequence[int]) -> bool:
        """Starts collectors that go on where others left; never exactly."""
        self.episodes.load(state["episodes"])
        self.restarts = state.get("restarts", 0)
        self.begin(seeds)
        return False

    def step(self, clock: int) -> int:
        """Waits for steps that were not counted yet; gives how many there are."""
        self._publish()
        self._desk.orders[Order.CLOCK] = clock
        done = self._desk.column(Note.DONE)
        wanted = int(done.min()) + 1
        lead = 0 if self._options.lockstep else self._options.max_policy_lag
        self._desk.column(Note.ALLOWED)[:] = wanted + lead
        while not self._due(wanted):
            self.check()
            time.sleep(BREATH)
        self.check()
        steps = int(self._desk.column(Note.STEPS).sum())
        new, self._counted = steps - self._counted, steps
        self._hear()
        self._note_lag()
        return new

    def _due(self, wanted: int) -> bool:
        if self._options.lockstep:
            return bool((self._desk.column(Note.DONE) >= wanted).all())
        return bool(self._desk.column(Note.STEPS).sum() > self._counted)

    @contextmanager
    def still(self) -> Iterator[None]:
        """While entered, nobody steps."""
        self._desk.orders[Order.HOLD] = 1
        try:
            while not (self._desk.column(Note.HELD) == 1).all():
                self.check()
                time.sleep(BREATH)
            yield
        finally:
            self._desk.orders[Order.HOLD] = 0

    # Weights

    def _publish(self) -> None:
        if self._weights.version and self._agent.updates == self._published[-1]:
            return
        self._weights.publish(self._agent.weights())
        self._published.append(self._agent.updates)

    def _note_lag(self) -> None:
        oldest = int(self._desk.column(Note.VERSION).min())
        self.lag_most = max(self.lag_most, self._agent.updates - self._published[oldest])

    # Processes

    def _start(self, number: int, seeds: Sequence[int], attempt: int) -> Place:
        lanes = self._lanes[number]
        alone = len(self._lanes) == 1 and attempt == 0
        branch = () if alone else (COLLECTED, number, attempt)
        own = [seeds[lane] for lane in lanes]
        job = Job(
            number, self._make, branch, lanes, own, self._memory.writer(lanes.tolist()),
            self._weights, self._desk, self._options.threads, os.getpid(),
        )  # fmt: skip
        ours, theirs = SPAWN.Pipe(duplex=False)
        process = SPAWN.Process(
            target=collect, args=(job, theirs), name=f"collector {number}", daemon=True
        )
        try:
            process.start()
        finally:
            theirs.close()
        return Place(number, lanes.tolist(), process, ours)

    def check(self) -> None:
        """Sees to who is dead or hangs, every quarter of a second; raises RunFailedError."""
        now = time.monotonic()
        if now - self._looked < LOOK:
            return
        self._looked = now
        for place in list(self._places.values()):
            why = self._trouble(place, now)
            if why is not None:
                self._replace(place, why)

    def _trouble(self, place: Place, now: float) -> str | None:
        """What is wrong with a collector, if anything is."""
        notes = self._desk.notes(place.number)
        if not place.process.is_alive():
            return self._last_words(place)
        done = int(notes[Note.DONE])
        idle = done >= notes[Note.ALLOWED] or self._desk.orders[Order.HOLD]
        if idle or done != place.done:
            place.done, place.moved = done, now
        limit = self._options.env_timeout if notes[Note.READY] else START_SECONDS
        if limit and now - place.moved > limit:
            what = "a step" if notes[Note.READY] else "building its environment"
            return f"{what} takes more than {limit:g} s (env_timeout)"
        return None

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
        notes[Note.READY] = notes[Note.HELD] = notes[Note.TOLD] = 0
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
            self.episodes.count(message.earned, message.length)
        elif isinstance(message, Failure):
            self._failures[place.number] = message
        elif isinstance(message, Farewell):
            for key, running in message.infos.items():
                self.episodes.infos.setdefault(key, Running()).merge(Running(**running))

    def summary(self) -> dict[str, float]:
        """See `Collecting.summary`."""
        updates = self._agent.updates - self._published[1]
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
