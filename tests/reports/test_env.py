"""Reports of users about environments, each kept from coming back. Named after their ids."""

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from core.envs.gym import make
from core.envs.options import GymOptions
from core.envs.vector import GymVector
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.rollout import Rollout
from core.sampling.uniform import Draw, all_starts
from core.types import Batch, ContinuousActions
from tests.core.envs.worlds import MODES, counter, counters


class Idle:
    """An actor that always does the same."""

    playing = None

    def __init__(self, env) -> None:
        self._spec, self._lanes = env.spec.actions.spec, env.lanes

    def restarts(self, first) -> None:
        return None

    def act(self, obs, first, step, *, explore):
        return np.zeros((self._lanes, *self._spec.shape), self._spec.dtype), {}


class Both:
    """A writer that tells two memories the same."""

    def __init__(self, *memories: SequentialMemory) -> None:
        self._writers = [memory.writer() for memory in memories]

    def start(self, *told) -> None:
        for writer in self._writers:
            writer.start(*told)

    def append(self, *told, **more) -> None:
        for writer in self._writers:
            writer.append(*told, **more)


def remember(env, **shared) -> SequentialMemory:
    shared = SharedOptions(num_envs=env.lanes, gamma=0.5, **shared)
    context = MemoryContext(env.spec, shared, np.random.default_rng(0))
    return SequentialMemory(SequentialOptions(memory_limit=3_000), context)


def roll(env, calls: int, writer) -> tuple[Rollout, int]:
    """Lives through so many calls; gives the steps that were."""
    rollout = Rollout(env, Idle(env), writer)
    rollout.begin(list(range(env.lanes)))
    steps = sum(rollout.step(call) for call in range(calls))
    env.close()
    return rollout, steps


def read_all(memory: SequentialMemory) -> Batch:
    lanes, rows = all_starts(memory.starts)
    return memory.reader.read(Draw(lanes, rows, np.ones(len(rows), np.float32)))


@pytest.mark.parametrize("game", ["Pendulum-v1", "MountainCar-v0"])
def test_env_02_a_time_limit_is_no_terminal(game: str) -> None:
    env = make(GymOptions(game=game), 1)  # both are cut after 200 steps
    memory, one_step = remember(env, n_step=2), remember(env)
    rollout, _ = roll(env, 400, Both(memory, one_step))
    assert isinstance(env.spec.actions, ContinuousActions) == (game == "Pendulum-v1")
    assert list(rollout.episodes.lengths) == [200, 200]
    batch = read_all(memory)
    assert len(batch["id"]) == 400
    # an episode fills 201 rows, of which the last holds no step
    last = batch["id"] % 201 == 199
    assert last.sum() == 2
    # one step is left before the cut: the target is r + gamma * the value of what was really next
    assert (batch["discount"] == np.where(last, 0.5, 0.25)).all()
    before = np.flatnonzero(last) - 1
    single = read_all(one_step)
    assert (single["discount"] == 0.5).all()
    assert np.allclose(
        batch["reward"][before], single["reward"][before] + 0.5 * single["reward"][last]
    )
    assert np.array_equal(batch["next_obs"][before], single["next_obs"][last])
    # what was really next is not what the next episode began with
    assert not np.allclose(single["next_obs"][last][0], single["obs"][200])


def lived(env, calls: int) -> tuple[SequentialMemory, int]:
    memory = remember(env)
    rollout, steps = roll(env, calls, memory.writer())
    assert steps == int(rollout.episodes.open_length.sum() + sum(rollout.episodes.lengths))
    return memory, steps


def assert_no_transition_joins_two_episodes(memory: SequentialMemory, steps: int) -> None:
    batch = read_all(memory)
    assert len(batch["id"]) == len(memory) == steps
    now, then = batch["obs"][:, -1], batch["next_obs"][:, -1]
    assert np.array_equal(then, now + np.array([0, 0, 1]))
    assert np.array_equal(batch["reward"], then[:, 2])
    assert len(np.unique(now, axis=0)) == steps


@pytest.mark.parametrize("mode", MODES)
def test_env_03_a_reset_is_never_a_step(mode: AutoresetMode) -> None:
    memory, steps = lived(counters(5, 7, 9, mode=mode), 200)
    true = 600
    if mode is AutoresetMode.NEXT_STEP:
        true -= sum(200 // (length + 1) for length in (5, 7, 9))
    assert steps == true
    assert_no_transition_joins_two_episodes(memory, steps)


@pytest.mark.parametrize("mode", MODES)
def test_env_03_nor_with_worker_processes(mode: AutoresetMode) -> None:
    makers = [counter(lane, length) for lane, length in enumerate((5, 7, 9))]
    memory, steps = lived(GymVector(AsyncVectorEnv(makers, autoreset_mode=mode)), 60)
    assert_no_transition_joins_two_episodes(memory, steps)
