"""Collecting: an actor steps an environment, a writer remembers."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .agent import Actor
from .envs.base import Env, Step
from .memory import Writer
from .metrics import Episodes
from .types import Array, Columns, Tree, all_of, any_of
from .view import Seeing, View


class MakePlayer(Protocol):
    """Builds what plays: an environment of so many lanes, and who acts in them."""

    def __call__(self, lanes: int, branch: tuple[int, ...]) -> tuple[Env, Actor]:
        """`branch` is where its draws come from in the seed tree. Raises UsageError."""


class Collecting(Protocol):
    """Whatever steps the environments of a run and remembers what happened."""

    episodes: Episodes
    waiting: bool
    """Whether no lane plays: the actor has nothing to play before the agent learns."""

    def begin(self, seeds: Sequence[int]) -> None:
        """Begins the first episode of every lane; before the first step."""

    def state(self) -> Tree:
        """All that the next step follows from, copied; not the memory, nor the weights."""

    def resume(self, state: Tree, seeds: Sequence[int]) -> bool:
        """Goes on from a saved state, in place of `begin`; gives whether it does so exactly."""

    def step(self, clock: int) -> int:
        """More steps; gives how many there were."""

    def still(self) -> AbstractContextManager[None]:
        """While entered, nothing is written."""

    def check(self) -> None:
        """Asked now and then while nobody asks for a step; raises RunFailedError for what broke."""

    def summary(self) -> dict[str, float]:
        """Its part of `result.json`."""

    def close(self) -> None:
        """Ends it."""


class Rollout:
    """Steps all lanes of an environment, writes every step once, and counts what was written."""

    def __init__(self, env: Env, actor: Actor, writer: Writer) -> None:
        self._env = env
        self._actor = actor
        self._writer = writer
        self._lanes = np.arange(env.lanes)
        self.episodes = Episodes(env.lanes)
        self._obs: Columns = {}
        self._first = np.ones(env.lanes, np.bool_)
        self.waiting = False
        """Whether no lane plays: the actor has nothing to play before the agent learns."""

    def begin(self, seeds: Sequence[int]) -> None:
        """Begins the first episode of every lane; before the first step."""
        self._obs = self._env.reset(seeds)
        self._first = np.ones_like(self._first)
        self._writer.start(self._obs)

    def view(self) -> View | None:
        """What the actor saw and did last, and made of it; None where it does not say."""
        return self._actor.view() if isinstance(self._actor, Seeing) else None

    def state(self) -> Tree:
        """All that the next step follows from, copied; not the memory, nor the weights.

        With `env` among it where the environment can be snapshotted. Before `begin` there is none
        yet: who resumes from there begins.
        """
        state: dict[str, Any] = {"actor": self._actor.state(), "episodes": self.episodes.state()}
        if not self._obs:
            return state
        # by place, since a column's name may hold a slash, and a name in a tree may not
        columns = enumerate(self._env.spec.observations)
        state |= {
            "obs": {str(at): self._obs[name].copy() for at, name in columns},
            "first": self._first.copy(),
            "waiting": self.waiting,
        }
        env = self._env.snapshot()
        return state if env is None else {**state, "env": env}

    def resume(self, state: Tree, seeds: Sequence[int]) -> bool:
        """Goes on from a saved state, in place of `begin`; gives whether it does so exactly.

        Agent and memory have taken over theirs before, and the writer was made after that. Without
        a snapshot of the environment, episodes begin anew with `seeds`: those that were open end
        there for the memory, truncated, and do not count as finished.
        """
        self._actor.load(state["actor"])
        self.episodes.load(state["episodes"])
        if "env" not in state:
            self._actor.broken_off(self.episodes.open_length > 0)
            self.episodes.forget(self._lanes)
            self.begin(seeds)
            return False
        self._env.restore(state["env"])
        columns = enumerate(self._env.spec.observations)
        self._obs = {name: np.array(state["obs"][str(at)]) for at, name in columns}
        self._first, self.waiting = np.array(state["first"]), state["waiting"]
        return True

    def step(self, clock: int) -> int:
        """One step of every lane that plays; gives how many steps that were."""
        self._restart()
        playing = self._actor.playing
        self.waiting = playing is not None and not any_of(playing)
        actions, extras = self._actor.act(self._obs, self._first, clock, explore=True)
        step = self._env.step(actions, *(() if playing is None else (playing,)))
        if playing is not None and any_of(step.stepped & ~playing):
            step = _only(step, playing)
        stepped = self._write(step, actions, extras)
        if any_of(step.started):
            begun = self._lanes[step.started if playing is None else step.started & playing]
            if len(begun):
                self._writer.start(_pick(step.obs, begun), begun)
        self.episodes.record(step)
        self._obs, self._first = step.obs, step.started
        return stepped

    def still(self) -> AbstractContextManager[None]:
        """See `Collecting.still`: it steps only where it is told to."""
        return nullcontext()

    def check(self) -> None:
        """See `Collecting.check`."""

    def summary(self) -> dict[str, float]:
        """See `Collecting.summary`."""
        return {}

    def close(self) -> None:
        """See `Collecting.close`; the environment is its maker's."""

    def _write(self, step: Step, actions: Array, extras: Columns) -> int:
        """Remembers a step of the lanes that made one; gives how many did."""
        ends, lost = (step.terminated, step.truncated), step.lost_life
        if all_of(step.stepped):  # by far the most often, and nothing to pick
            self._writer.append(actions, step.reward, *ends, step.next_obs, extras, lost_life=lost)
            return len(self._lanes)
        lanes = self._lanes[step.stepped]
        self._writer.append(
            actions[lanes],
            step.reward[lanes],
            step.terminated[lanes],
            step.truncated[lanes],
            _pick(step.next_obs, lanes),
            _pick(extras, lanes),
            lost_life=None if lost is None else lost[lanes],
            lanes=lanes,
        )
        return len(lanes)

    def _restart(self) -> None:
        wanted = self._actor.restarts(self._first)
        if wanted is None:
            return
        lanes, seeds = wanted
        self._obs = self._env.restart(lanes, seeds)
        self._first = self._first.copy()
        self._first[lanes] = True
        self._writer.start(_pick(self._obs, lanes), lanes)
        self.episodes.forget(lanes)


def _only(step: Step, playing: NDArray[np.bool_]) -> Step:
    """The step as if the other lanes had stood still."""
    infos = {key: np.where(playing, values, np.nan) for key, values in step.infos.items()}
    return replace(step, stepped=step.stepped & playing, infos=infos)


def _pick(columns: Columns, lanes: np.ndarray) -> Columns:
    return {name: array[lanes] for name, array in columns.items()}
