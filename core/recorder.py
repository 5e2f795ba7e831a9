"""The recorder: what a run writes down about itself, and which weights were best."""

import math
import os
import time
from collections.abc import Mapping
from typing import Any, Protocol

from .agent import Agent
from .checkpoint import Checkpoints
from .evaluate import Evaluation
from .memory import Memory
from .memory_watch import MemoryWatch
from .metrics import Episodes, Meter, mean
from .options import LoopOptions
from .run_folder import Progress, RunFolder
from .schedules import Clock

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
    ) -> None:
        self._folder = folder
        self._options = options
        self._agent = agent
        self._memory = memory
        self._clock = clock
        self._display = display
        self._log = folder.logger()
        own = tuple(agent.metrics)
        self.meter = Meter(("loss", "q_mean", *own))
        self._progress = Progress(folder.progress, own)
        self.checkpoints = Checkpoints(folder.checkpoints, options.keep_last)
        self.watch = MemoryWatch()
        self.pace = Pace()
        self.best_step: int | None = None
        self._best: float | None = None
        self._fallen = False
        self._eval_mean: float | None = None
        self.logged_step = 0
        self._checkpoint_step = 0
        self._next_status = 0.0
        self._short = False

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

    def save(self) -> None:
        """Writes the newest checkpoint."""
        self.checkpoints.save_last(self._checkpoint(), self._clock.step)
        self._checkpoint_step = self._clock.step

    def log(self, episodes: Episodes) -> None:
        """Writes a row of progress.csv."""
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
        self._progress.append({**row, **self.meter.read()})
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
            "checkpoint_step": self._checkpoint_step,
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

    def lap(self, step: int) -> float:
        """Steps a second since the last lap."""
        busy = self.wall - self._aside
        rate = (step - self._lap_step) / max(busy - self._lap_busy, 1e-9)
        self._lap_step, self._lap_busy = step, busy
        return rate
