"""The recorder: what a run writes down about itself, and which weights were best."""

import math
import os
import time
from collections.abc import Mapping
from typing import Any, Protocol

from .agent import Agent
from .checkpoint import RUN, Checkpoints
from .evaluate import Evaluation
from .memory import Memory
from .memory_watch import MemoryWatch
from .metrics import Episodes, Meter, mean
from .options import LoopOptions
from .run_folder import Progress, RunFolder
from .schedules import Clock
from .types import Tree
from .view import Viewer

STATUS_SECONDS = 0.5
FALL = 0.2


class Display(Protocol):
    """What shows a run to the person at the terminal; it cannot stop or slow the run."""

    def update(self, status: Mapping[str, Any]) -> None:
        """The newest status."""

    def say(self, line: str) -> None:
        """A line that stays."""


class Recorder:
    """Collects the numbers of a run and writes them: rows, status, checkpoints, log."""

    def __init__(
        self,
        folder: RunFolder,
        options: LoopOptions,
        agent: Agent,
        memory: Memory,
        clock: Clock,
        display: Display,
        past: Tree | None = None,
    ) -> None:
        """Begins a run's files; with the `past` that `state` gave, goes on in them."""
        self._folder = folder
        self._options = options
        self._agent = agent
        self._memory = memory
        self._clock = clock
        self._display = display
        self._log = folder.logger()
        own = tuple(agent.metrics)
        self.meter = Meter(("loss", "q_mean", *own))
        until = None if past is None else past["logged_step"]
        self._progress = Progress(folder.progress, own, until)
        self.checkpoints = Checkpoints(folder.checkpoints, options.keep_last)
        self._viewer = Viewer(folder.live)
        self.watch = MemoryWatch()
        self.pace = Pace()
        self._saved_at = time.monotonic()
        self._next_status = 0.0
        self._begin()
        if past is not None:
            self._load(past)

    def _begin(self) -> None:
        """What is known before the first step; see `state`."""
        self.best_step: int | None = None
        self._best: float | None = None
        self._fallen = False
        self._eval_mean: float | None = None
        self._short = False
        self.logged_step = 0
        self.evaluations = 0
        self.broken_off: int | None = None
        """Where an evaluation was broken off: the step before the one that it came after."""

        self.learning = False
        """Whether the memory was ready once: from then on it is learnt from, whatever goes."""

        self.save_seconds = 0.0
        """Time that saving took, of the memory too."""

        self.checkpoint_step: int | None = None
        """Step of the newest checkpoint, if there is one."""

    def say(self, line: str) -> None:
        """A line for the log and the terminal."""
        self._log.info(line)
        self._display.say(line)

    def evaluated(self, evaluation: Evaluation) -> None:
        """Keeps the best weights apart, and says when the score has fallen far below them."""
        score = self._eval_mean = evaluation.mean
        if evaluation.cut:
            self.say(f"{evaluation.cut} evaluation episodes were cut at {self._options.eval_limit}")
        if not math.isfinite(score):
            self.say(f"evaluation at step {self._clock.step} has no finite mean: {score}")
        elif self._best is None or score >= self._best:
            self._best, self.best_step, self._fallen = score, self._clock.step, False
            self.checkpoints.save_best(self._checkpoint(), self._clock.step)
        elif score <= self._best - FALL * abs(self._best):
            if not self._fallen:
                self.say(
                    f"evaluation fell to {score:.4g} at step {self._clock.step}, from "
                    f"{self._best:.4g} at step {self.best_step}; the best weights are kept"
                )
            self._fallen = True
        else:
            self._fallen = False

    def _checkpoint(self) -> dict[str, Any]:
        return {**self._agent.state(), "step": self._clock.step}

    def save(self, run: Tree | None = None) -> None:
        """Writes the newest checkpoint, with what the run goes on from."""
        going_on = {} if run is None else {RUN: {**run, "recorder": self.state()}}
        self.checkpoints.save_last({**self._checkpoint(), **going_on}, self._clock.step)
        self.checkpoint_step = self._clock.step
        self._saved_at = time.monotonic()

    def save_due(self) -> bool:
        """Whether the newest checkpoint is older than it may be, by the clock on the wall."""
        most = self._options.checkpoint_seconds
        return most > 0 and time.monotonic() - self._saved_at >= most

    def state(self) -> Tree:
        """What the recorder has to know to go on."""
        return {
            "best": self._best,
            "best_step": self.best_step,
            "fallen": self._fallen,
            "eval_mean": self._eval_mean,
            "logged_step": self.logged_step,
            "evaluations": self.evaluations,
            "broken_off": self.broken_off,
            "learning": self.learning,
            "save_seconds": self.save_seconds,
            "short": self._short,
            "meter": self.meter.state(),
            "pace": self.pace.state(),
        }

    def _load(self, state: Tree) -> None:
        self._best, self.best_step = state["best"], state["best_step"]
        self._fallen, self._eval_mean = state["fallen"], state["eval_mean"]
        self.logged_step = state["logged_step"]
        self.evaluations, self._short = state["evaluations"], state["short"]
        self.broken_off = state["broken_off"]
        self.learning = state.get("learning", False)
        self.save_seconds = state.get("save_seconds", 0.0)
        self.checkpoint_step = self._clock.step
        self.meter.load(state["meter"])
        self.pace.load(state["pace"])

    def log(self, episodes: Episodes, who: object = None) -> None:
        """Writes a row of progress.csv, and now and then what `who` sees, for the board."""
        step = self.logged_step = self._clock.step
        row = {
            "step": step,
            "episodes": episodes.finished,
            "wall_seconds": self.pace.wall,
            "steps_per_second": self.pace.lap(step),
            "return_mean": mean(episodes.returns),
            "length_mean": mean(episodes.lengths),
            "eval_return_mean": self._eval_mean,
            "epsilon": self._agent.exploration(step),
            "updates": self._agent.updates,
            "memory_len": len(self._memory),
            "memory_bytes": sum(self._memory.usage().values()),
            "private_bytes": self.watch.read(),
        }
        self._progress.append({**row, **self._memory.statistics(), **self.meter.read()})
        self._viewer(step, who, last=step >= self._options.steps)
        self._tell_if_short()
        self._eval_mean = None

    def _tell_if_short(self) -> None:
        """Says once that the memory holds fewer rows than it might, and how many."""
        if self._memory.short_of_bytes and not self._short:
            self._short = True
            self.say(
                f"the memory has reached its bytes: it holds {self._memory.rows:,} of "
                f"{self._memory.capacity:,} rows, and the oldest go from here on"
            )

    def status(self, state: str, episodes: Episodes) -> None:
        """Shows the status, at most every half second while the run goes on."""
        now = time.monotonic()
        if state == "running" and now < self._next_status:
            return
        self._next_status = now + STATUS_SECONDS
        step, steps = self._clock.step, self._options.steps
        pace = self.pace.mean(step)
        status = {
            "state": state,
            "pid": os.getpid(),
            "step": step,
            "steps": steps,
            "steps_per_second": pace,
            "seconds_left": max(steps - step, 0) / pace if pace else None,
            "last_return": episodes.last_return,
            "epsilon": self._agent.exploration(step),
            "memory_fill": self._memory.rows / self._memory.capacity,
            "memory_bytes": sum(self._memory.usage().values()),
            "memory_bytes_full": self._memory.bytes_full,
            "private_bytes": self.watch.read(),
            "updates": self._agent.updates,
            "checkpoint_step": self.checkpoint_step or 0,
            "fallen": self._fallen,
        }
        self._folder.write_status(status)
        self._display.update(status)

    def summary(self) -> dict[str, Any]:
        """The run's part of `result.json`: how far, how fast, how large."""
        self.watch.read()
        step = self._clock.step
        return {
            "steps": step,
            "wall_seconds": self.pace.wall,
            "save_seconds": self.save_seconds,
            "steps_per_second": self.pace.mean(step),
            "updates": self._agent.updates,
            "peak_private_bytes": self.watch.peak,
            "memory_len": len(self._memory),
            "memory_rows": self._memory.rows,
            "memory_bytes": sum(self._memory.usage().values()),
        }

    def close(self) -> None:
        """Closes the files."""
        self._progress.close()
        for handler in self._log.handlers:
            handler.close()


class Pace:
    """Wall time, and training steps a second without the time spent in evaluation."""

    def __init__(self) -> None:
        self._begun = time.perf_counter()
        self._aside = 0.0
        self._lap_step, self._lap_busy = 0, 0.0

    @property
    def wall(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._begun

    def aside(self, seconds: float) -> None:
        """Seconds that were not training."""
        self._aside += seconds

    def mean(self, step: int) -> float:
        """Steps a second since the start."""
        return step / max(self.wall - self._aside, 1e-9)

    def state(self) -> Tree:
        """What is measured so far; the time until it is loaded again does not count."""
        return {
            "wall": self.wall,
            "aside": self._aside,
            "lap_step": self._lap_step,
            "lap_busy": self._lap_busy,
        }

    def load(self, state: Tree) -> None:
        """Goes on from there."""
        self._begun = time.perf_counter() - state["wall"]
        self._aside = state["aside"]
        self._lap_step, self._lap_busy = state["lap_step"], state["lap_busy"]

    def lap(self, step: int) -> float:
        """Steps a second since the last lap."""
        busy = self.wall - self._aside
        rate = (step - self._lap_step) / max(busy - self._lap_busy, 1e-9)
        self._lap_step, self._lap_busy = step, busy
        return rate
