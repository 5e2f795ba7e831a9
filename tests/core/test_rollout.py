"""The rollout: every step once, idle lanes not at all, and lanes begun anew."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from core.envs.vector import GymVector
from core.errors import UsageError
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.parameters.returns import CANDIDATE, ResultReader, ReturnWriter, result_ring
from core.rollout import Rollout
from core.types import ArraySpec
from tests.core.envs.worlds import MODES, counters, vector

DISABLED, SAME_STEP, NEXT_STEP = MODES


class Script:
    """An actor that plays where it is told, begins what it is told, and notes what it saw."""

    def __init__(self, lanes: int) -> None:
        self.playing: np.ndarray | None = None
        self.wanted: list = []
        self.asked: list[list[bool]] = []
        self.seen: list[tuple[np.ndarray, np.ndarray, int]] = []
        self._lanes = lanes

    def restarts(self, first):
        self.asked.append(first.tolist())
        return self.wanted.pop(0) if self.wanted else None

    def act(self, obs, first, step, *, explore):
        assert explore
        self.seen.append((obs["obs"].copy(), first.copy(), step))
        return np.arange(self._lanes) % 3, {"lane": np.arange(self._lanes, dtype=np.int64)}

    def take(self, weights) -> None:
        raise AssertionError("no weights here")


class Diary:
    """A writer that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple] = []

    def start(self, obs, lanes=None):
        every = list(range(len(obs["obs"]))) if lanes is None else lanes.tolist()
        self.told.append(("start", every, obs["obs"].tolist()))

    def append(self, action, reward, terminated, truncated, next_obs, extras=None, *,
               lost_life=None, lanes=None):  # fmt: skip
        assert extras["lane"].tolist() == lanes.tolist()
        assert action.tolist() == (lanes % 3).tolist()
        assert len(reward) == len(terminated) == len(truncated) == len(lanes)
        self.told.append(("step", lanes.tolist(), next_obs["obs"].tolist()))

    def steps(self, lane: int) -> list[list[float]]:
        """What the steps of a lane led to."""
        return [
            obs[lanes.index(lane)]
            for word, lanes, obs in self.told
            if word == "step" and lane in lanes
        ]

    def starts(self, lane: int) -> list[list[float]]:
        return [
            obs[lanes.index(lane)]
            for word, lanes, obs in self.told
            if word == "start" and lane in lanes
        ]


def begin(env: GymVector) -> tuple[Rollout, Script, Diary]:
    actor, diary = Script(env.lanes), Diary()
    rollout = Rollout(env, actor, diary)
    rollout.begin(range(env.lanes))
    return rollout, actor, diary


def mask(*lanes: int, of: int = 3) -> np.ndarray:
    return np.isin(np.arange(of), lanes)


@pytest.mark.parametrize("mode", MODES)
def test_every_step_is_written_once_whatever_the_mode(mode) -> None:
    env = counters(3, 5, mode=mode)
    rollout, actor, diary = begin(env)
    clock = 0
    for _ in range(20):
        clock += rollout.step(clock)
    assert clock == sum(len(diary.steps(lane)) for lane in (0, 1))
    for lane, length in ((0, 3), (1, 5)):
        steps, starts = diary.steps(lane), diary.starts(lane)
        assert steps == [[lane, at // length, at % length + 1] for at in range(len(steps))]
        assert starts == [[lane, episode, 0] for episode in range(len(starts))]
        assert len(starts) in (len(steps) // length, len(steps) // length + 1)
    assert actor.seen[0][1].tolist() == [True, True]
    steps_acted = [step for _, _, step in actor.seen]
    assert steps_acted == sorted(steps_acted)
    env.close()


def test_idle_lanes_are_neither_written_nor_counted() -> None:
    env = counters(4, 2, 4, mode=DISABLED)
    rollout, actor, diary = begin(env)
    actor.playing = mask(0, 2)
    for _ in range(6):
        assert rollout.step(0) == 2
    # the idle lane's env went on and ended three times; none of that happened
    assert diary.steps(1) == []
    assert diary.starts(1) == [[1, 0, 0]]
    assert len(diary.steps(0)) == len(diary.steps(2)) == 6
    assert rollout.episodes.finished == 2
    assert rollout.episodes.open_length.tolist() == [2, 0, 2]
    assert rollout.episodes.open_return.tolist() == [1 + 2, 0, 1 + 2]
    env.close()


def test_infos_of_idle_lanes_are_not_counted() -> None:
    env = counters(9, 9, mode=DISABLED)
    rollout, actor, _ = begin(env)
    actor.playing = mask(1, of=2)
    for _ in range(3):
        rollout.step(0)
    seen = rollout.episodes.infos["step"]
    assert (seen.count, seen.low, seen.high) == (3, 1, 3)
    env.close()


def test_where_nobody_plays_nothing_happens() -> None:
    env = counters(3, 3, 3, mode=DISABLED)
    rollout, actor, diary = begin(env)
    assert rollout.step(0) == 3
    before = len(diary.steps(0))
    actor.playing = mask()
    for _ in range(5):
        assert rollout.step(3) == 0
        assert rollout.waiting
    assert len(diary.steps(0)) == before
    assert rollout.episodes.finished == 0
    actor.playing = mask(1)
    actor.wanted = [(np.array([1]), [5])]
    assert rollout.step(3) == 1
    assert not rollout.waiting
    env.close()


def test_a_lane_that_plays_all_the_time_is_not_waiting() -> None:
    env = counters(3, mode=DISABLED)
    rollout, _, _ = begin(env)
    assert not rollout.waiting
    rollout.step(0)
    assert not rollout.waiting
    env.close()


def test_a_lane_begun_anew_goes_on_from_there() -> None:
    env = counters(9, 9, 9, mode=DISABLED)
    rollout, actor, diary = begin(env)
    for _ in range(3):
        rollout.step(0)
    actor.wanted = [(np.array([2, 0]), [7, 8])]
    rollout.step(9)
    obs, first, _ = actor.seen[-1]
    assert obs.tolist() == [[0, 1, 0], [1, 0, 3], [2, 1, 0]]
    assert first.tolist() == [True, False, True]
    word, lanes, told = diary.told[-2]
    assert (word, lanes, told) == ("start", [2, 0], [[2, 1, 0], [0, 1, 0]])
    assert diary.steps(0)[-1] == [0, 1, 1]
    assert diary.steps(1)[-1] == [1, 0, 4]
    # what was broken off counts neither as an episode nor into the next one
    assert rollout.episodes.finished == 0
    assert rollout.episodes.open_return.tolist() == [1, 1 + 2 + 3 + 4, 1]
    assert rollout.episodes.open_length.tolist() == [1, 4, 1]
    rollout.step(9)
    assert actor.seen[-1][1].tolist() == [False] * 3
    env.close()


def test_the_actor_is_asked_before_every_step_with_what_it_will_see() -> None:
    env = counters(2, 3, mode=DISABLED)
    rollout, actor, _ = begin(env)
    for _ in range(6):
        rollout.step(0)
    assert actor.asked == [first.tolist() for _, first, _ in actor.seen]
    assert actor.asked == [
        [True, True], [False, False], [True, False],
        [False, True], [True, False], [False, False],
    ]  # fmt: skip
    env.close()


def test_what_ends_with_a_step_is_begun_for_the_writer_even_if_the_lane_is_idle_after_it() -> None:
    env = counters(2, 2, mode=DISABLED)
    rollout, actor, diary = begin(env)
    rollout.step(0)
    rollout.step(0)
    assert diary.starts(0) == [[0, 0, 0], [0, 1, 0]]
    actor.playing = mask(1, of=2)
    for _ in range(4):
        rollout.step(0)
    assert diary.starts(0) == [[0, 0, 0], [0, 1, 0]]
    assert len(diary.starts(1)) == 4
    env.close()


class Seeded(gym.Env):
    """Its observation is a draw from its seed."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 1, (1,), np.float64)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random(1), {}

    def step(self, action):
        return self.np_random.random(1), 1.0, False, False, {}


def draws(seed: int) -> list[float]:
    env = Seeded()
    first, _ = env.reset(seed=seed)
    return [float(first[0]), float(env.step(0)[0][0])]


def test_a_lane_begins_with_the_seed_it_was_given_and_the_others_are_left_alone() -> None:
    one, other = vector(Seeded, Seeded, Seeded), vector(Seeded, Seeded, Seeded)
    (rollout, actor, diary), (plain, _, untouched) = begin(one), begin(other)
    rollout.step(0)
    plain.step(0)
    actor.wanted = [(np.array([2, 0]), [77, 88])]
    for _ in range(3):
        rollout.step(0)
        plain.step(0)
    assert [diary.starts(2)[-1][0], diary.steps(2)[-3][0]] == draws(77)
    assert [diary.starts(0)[-1][0], diary.steps(0)[-3][0]] == draws(88)
    assert diary.steps(1) == untouched.steps(1)
    assert diary.starts(1) == untouched.starts(1)


@pytest.mark.parametrize("mode", [SAME_STEP, NEXT_STEP])
def test_an_env_that_resets_by_itself_refuses_to_restart(mode) -> None:
    env = counters(5, 5, mode=mode)
    rollout, actor, diary = begin(env)
    rollout.step(0)
    actor.wanted = [(np.array([1]), [7])]
    told = len(diary.told)
    with pytest.raises(UsageError, match=r"resets by itself .* no lane can restart"):
        rollout.step(2)
    assert len(diary.told) == told
    env.close()


def test_candidates_are_summed_over_uneven_lanes() -> None:
    env = counters(3, 5, mode=DISABLED)
    results = result_ring(2, 20)
    reader = ResultReader(results)

    class Candidates(Script):
        def act(self, obs, first, step, *, explore):
            actions, _ = super().act(obs, first, step, explore=explore)
            return actions, {CANDIDATE: 10 * np.arange(1, 3) + obs["obs"][:, 1].astype(int)}

    actor = Candidates(2)
    rollout = Rollout(env, actor, ReturnWriter(results, np.arange(2)))
    rollout.begin([0, 1])
    for _ in range(7):
        rollout.step(0)
    found = reader.new()
    assert found[CANDIDATE].tolist() == [10, 11, 20]
    assert found["total_reward"].tolist() == [6, 6, 15]
    assert found["length"].tolist() == [3, 3, 5]
    env.close()


def test_a_memory_of_steps_holds_no_trace_of_an_idle_lane() -> None:
    env = counters(2, 2, mode=DISABLED)
    context = MemoryContext(env.spec, SharedOptions(num_envs=2), np.random.default_rng(0), {
        "lane": ArraySpec((), np.dtype(np.int64))
    })  # fmt: skip
    memory = SequentialMemory(SequentialOptions(memory_limit=60), context)
    actor = Script(2)
    rollout = Rollout(env, actor, memory.writer())
    rollout.begin([0, 1])
    actor.playing = mask(0, of=2)
    for _ in range(9):
        rollout.step(0)
    memory.check()
    assert set(memory.sample(100)["lane"].tolist()) == {0}
    # lane 0: nine steps, four closing rows, one open; lane 1: the row it began with
    assert (len(memory), memory.rows) == (9, 14 + 1)
    env.close()
