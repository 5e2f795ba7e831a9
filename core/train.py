"""The training loop: collect, learn, look, save. One clock, environment steps over all lanes."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .agent import Agent
from .envs.base import Env
from .evaluate import Evaluation, evaluate
from .memory import Memory
from .options import LoopOptions
from .recorder import Recorder
from .rollout import Rollout
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


class Judge:
    """Evaluates an agent's weights in an environment of its own, made when first needed."""

    def __init__(self, parts: Parts, options: LoopOptions, stop: Callable[[], bool]) -> None:
        self._parts = parts
        self._options = options
        self._stop = stop
        self._env: Env | None = None
        self._count = 0

    def __call__(self) -> Evaluation | None:
        """The agent as it is now, on fresh episodes; None if the run was told to stop."""
        if self._env is None:
            self._env = self._parts.make_eval_env(eval_lanes(self._options))
        lanes, seeds = self._env.lanes, self._parts.seeds
        self._count += 1
        return evaluate(
            self._env,
            self._parts.agent.actor(lanes, seeds.generator("eval", self._count, 1)),
            seeds.integers("eval", lanes, self._count, 0),
            self._options.eval_episodes,
            limit=self._options.eval_limit,
            stop=self._stop,
        )

    def close(self) -> None:
        """Closes its environment."""
        if self._env is not None:
            self._env.close()


def eval_lanes(options: LoopOptions) -> int:
    """Environments that an evaluation plays in; 0 where there are none."""
    return min(options.eval_episodes, MAX_EVAL_LANES) if options.eval_freq else 0


def train(
    parts: Parts,
    rollout: Rollout,
    options: LoopOptions,
    recorder: Recorder,
    stop: Callable[[], bool],
) -> None:
    """Runs the loop until the clock reaches `steps`, or `stop`, asked between steps, says so."""
    clock, agent, memory = parts.clock, parts.agent, parts.memory
    learn_due, eval_due = Every(options.train_interval), Every(options.eval_freq)
    log_due, save_due = Every(options.log_freq), Every(options.checkpoint_freq)
    least = max(options.learn_start, options.batch_size)
    judge = Judge(parts, options, stop)
    learning = False
    while clock.step < options.steps and not stop():
        clock.step += rollout.step(clock.step)
        due = learn_due.crossings(clock.step) or int(rollout.waiting)
        learning = learning or (due > 0 and memory.ready(least))
        for _ in range(due * options.updates if learning else 0):
            recorder.meter.add(agent.learn(memory))
        if eval_due.due(clock.step):
            look(judge, recorder)
        if log_due.due(clock.step):
            recorder.log(rollout.episodes)
        if save_due.due(clock.step):
            recorder.save()
    if recorder.logged_step != clock.step:
        recorder.log(rollout.episodes)
    judge.close()


def look(judge: Judge, recorder: Recorder) -> None:
    """Evaluates between two steps; the time it takes is not counted as training."""
    begun = time.perf_counter()
    evaluation = judge()
    recorder.pace.aside(time.perf_counter() - begun)
    if evaluation is not None:
        recorder.evaluated(evaluation)
