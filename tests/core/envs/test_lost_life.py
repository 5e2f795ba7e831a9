"""A life lost travels from the infos to the memory: worth nothing more, but no episode's end."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from core.envs.vector import LOST_LIFE, GymVector
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.rollout import Rollout
from core.sampling.uniform import Draw, all_starts

from .worlds import MODES, vector

GAME = 7
LOST = (3, 5)


class Lives(gym.Env[Any, Any]):
    """Counts its steps from `base`; loses a life with some of them, and ends after `GAME`."""

    def __init__(self, base: int = 0, lost: tuple[int, ...] = LOST) -> None:
        self.observation_space = spaces.Box(0, 1e6, (1,))
        self.action_space = spaces.Discrete(2)
        self._now, self._lost = base, lost
        self._at = 0

    def _observe(self) -> np.ndarray:
        self._now += 1
        return np.array([self._now], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._at = 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self._at += 1
        infos = {LOST_LIFE: self._at in self._lost, "at": self._at}
        return self._observe(), 1.0, self._at == GAME, False, infos


class Idle:
    playing = None

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes

    def restarts(self, first) -> None:
        return None

    def act(self, obs, first, step, *, explore):
        return np.zeros(self._lanes, np.int64), {}


def test_an_env_without_lives_loses_none() -> None:
    env = vector(lambda: gym.make("CartPole-v1"))
    env.reset([1])
    assert env.step(np.zeros(1, np.int64)).lost_life is None
    env.close()


@pytest.mark.parametrize("mode", MODES)
def test_the_lanes_that_lost_a_life_are_told(mode: AutoresetMode) -> None:
    env = vector(Lives, lambda: Lives(lost=(2, GAME)), mode=mode)
    env.reset([1, 2])
    told = 0
    for _ in range(3 * GAME):
        step = env.step(np.zeros(2, np.int64))
        assert LOST_LIFE not in step.infos
        at = step.infos.get("at", np.full(2, np.nan))
        assert (step.ended == (at == GAME)).all()
        if step.lost_life is None:  # a call that only reset both
            assert not step.stepped.any()
            continue
        assert step.lost_life.dtype == np.bool_
        assert step.lost_life.tolist() == [at[0] in LOST, at[1] in (2, GAME)]
        assert not (step.lost_life & ~step.stepped).any()
        told += int(step.lost_life.sum())
    assert told >= 8
    env.close()


def remembered(env: GymVector, calls: int, **shared: Any) -> tuple[SequentialMemory, Rollout]:
    options = SharedOptions(num_envs=env.lanes, **shared)
    context = MemoryContext(env.spec, options, np.random.default_rng(0))
    memory = SequentialMemory(SequentialOptions(memory_limit=500), context)
    rollout = Rollout(env, Idle(env.lanes), memory.writer())  # type: ignore[arg-type]
    rollout.begin(list(range(env.lanes)))
    for call in range(calls):
        rollout.step(call)
    env.close()
    memory.check()
    return memory, rollout


def test_a_life_ends_the_value_and_nothing_else() -> None:
    env = vector(Lives)
    memory, rollout = remembered(env, 2 * GAME, window_length=4, n_step=3, gamma=0.5)
    lanes, rows = all_starts(memory.starts)
    batch = memory.reader.read(Draw(lanes, rows, np.ones(len(rows), np.float32)))
    assert len(rows) == 2 * GAME
    # one closing row a game: lives have none
    assert memory.rows == 2 * (GAME + 1) + 1
    assert list(rollout.episodes.returns) == list(rollout.episodes.lengths) == [GAME, GAME]
    for index, row in enumerate(rows):
        at = int(row) % (GAME + 1) + 1  # the step that begins here, from 1
        stop = min(step for step in (*LOST, GAME) if step >= at)
        m = min(3, stop - at + 1)
        assert batch["reward"][index] == sum(0.5**i for i in range(m))
        assert batch["discount"][index] == (0 if at + m - 1 == stop else 0.5**m)
        # the stack goes back over lost lives to the game's first row
        first = int(row) - (at - 1) + 1
        stack = [max(first, int(row) + 1 - back) for back in (3, 2, 1, 0)]
        assert batch["obs"][index, :, 0].tolist() == stack
