"""The training loop: collect, learn, look, save. One clock, environment steps over all lanes."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from .agent import Agent
from .envs.base import Env
from .evaluate import Evaluation, evaluate
from .memory import Memory
from .options import LoopOptions
from .recorder import Recorder
from .rollout import Collecting, MakePlayer
from .schedules import Clock, Every
from .seeding import SeedTree
from .voice import Voice

MAX_EVAL_LANES = 10


@dataclass(frozen=True, kw_only=True)
class Players:
    """Who acts where: a run's components, without what it learns from."""

    env: Env
    make_eval_env: Callable[[int], Env]
    agent: Agent
    seeds: SeedTree
    clock: Clock
    voice: Voice = field(default_factory=Voice)


@dataclass(frozen=True, kw_only=True)
class Parts(Players):
    """A run's components, built and ready."""

    memory: Memory
    notes: tuple[str, ...] = ()
    """What is said before the first step: what the run will take and hold."""
    make_player: MakePlayer | None = None
    """Builds what a collector plays with, where the run has collectors."""


class Saves(Protocol):
    """Writes checkpoints of a run."""

    def save(self) -> None:
        """Writes one."""

    def save_due(self) -> bool:
        """Whether one has to be written, however few steps the newest is behind."""


class Judge:
    """Evaluates an agent's weights in an environment of its own, made when first needed."""

    def __init__(
        self, parts: Parts, options: LoopOptions, stop: Callable[[], bool], count: int = 0
    ) -> None:
        """`count` evaluations came before: each has episodes of its own."""
        self._parts = parts
        self._options = options
        self._stop = stop
        self._env: Env | None = None
        self.count = count

    def __call__(self) -> Evaluation | None:
        """The agent as it is now, on fresh episodes; None if the run was told to stop."""
        if self._env is None:
            self._env = self._parts.make_eval_env(eval_lanes(self._options))
        lanes, seeds, number = self._env.lanes, self._parts.seeds, self.count + 1
        found = evaluate(
            self._env,
            self._parts.agent.actor(lanes, seeds.generator("eval", number, 1)),
            seeds.integers("eval", lanes, number, 0),
            self._options.eval_episodes,
            limit=self._options.eval_limit,
            stop=self._stop,
        )
        self.count = number if found is not None else self.count
        return found

    def close(self) -> None:
        """Closes its environment."""
        if self._env is not None:
            self._env.close()


def eval_lanes(options: LoopOptions) -> int:
    """Environments that an evaluation plays in; 0 where there are none."""
    return min(options.eval_episodes, MAX_EVAL_LANES) if options.eval_freq else 0


def train(
    parts: Parts,
    rollout: Collecting,
    options: LoopOptions,
    recorder: Recorder,
    stop: Callable[[], bool],
    saver: Saves | None = None,
) -> None:
    """Runs the loop until the clock reaches `steps`, or `stop`, asked between steps, says so.

    It goes on from where the clock stands. Checkpoints are the `saver`'s; the recorder's own leave
    out what a run goes on from.
    """
    clock = parts.clock
    learner = Learner(parts, options)
    recorder.learning &= len(parts.memory) > 0  # one that is filled anew is waited for again
    saver = saver or recorder
    judge = Judge(parts, options, stop, recorder.evaluations)
    seen = clock.step if recorder.broken_off is None else recorder.broken_off
    eval_due, log_due = Every(options.eval_freq, seen), Every(options.log_freq, seen)
    save_due = Every(options.checkpoint_freq, seen)
    while (clock.step < options.steps or recorder.broken_off is not None) and not stop():
        if recorder.broken_off is None:
            seen = clock.step
            clock.step += rollout.step(clock.step)
            learner(rollout.waiting, recorder)
        recorder.broken_off = None
        if eval_due.due(clock.step) and not look(judge, recorder):
            recorder.broken_off = seen  # a run that goes on from here looks first
            break
        if log_due.due(clock.step):
            recorder.log(rollout.episodes, rollout)
        if save_due.due(clock.step) or saver.save_due():
            saver.save()
    if recorder.checkpoint_step != clock.step:
        saver.save()  # before the last row, which a run that goes on from here would not have
    if recorder.logged_step != clock.step:
        recorder.log(rollout.episodes, rollout)
    judge.close()


class Learner:
    """Learns when it is due: from when the memory is ready, `updates` times an interval."""

    def __init__(self, parts: Parts, options: LoopOptions) -> None:
        self._parts = parts
        self._updates = options.updates
        self._due = Every(options.train_interval, parts.clock.step)
        self._least = max(options.learn_start, options.batch_size)

    def __call__(self, waiting: bool, recorder: Recorder) -> None:
        """Learns what has become due; something is where nobody plays before it has learnt."""
        due = self._due.crossings(self._parts.clock.step) or int(waiting)
        if due and not recorder.learning:
            recorder.learning = self._parts.memory.ready(self._least)
        agent = self._parts.agent
        for _ in range(due * self._updates if recorder.learning else 0):
            before = agent.updates
            recorder.meter.add(agent.learn(self._parts.memory))
            if agent.updates == before:  # it waits for what the next steps bring
                break


def look(judge: Judge, recorder: Recorder) -> bool:
    """Evaluates between two steps; the time it takes is not counted as training.

    Gives whether it came to its end.
    """
    begun = time.perf_counter()
    evaluation = judge()
    recorder.evaluations = judge.count
    recorder.pace.aside(time.perf_counter() - begun)
    if evaluation is not None:
        recorder.evaluated(evaluation)
    return evaluation is not None
