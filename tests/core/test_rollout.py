"""The rollout: every step once, idle lanes not at all, and lanes begun anew."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from core.checkpoint import from_bytes, to_bytes
from core.envs.options import ToyOptions
from core.envs.toy import Counter
from core.envs.vector import GymVector
from core.episodes.summary import summaries
from core.errors import UsageError
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.parameters.returns import CANDIDATE, ResultReader, ReturnWriter, result_ring
from core.rollout import Rollout
from core.types import ArraySpec
from tests.core.envs.worlds import MODES, counters, vector
from tests.harness import equal_trees

DISABLED, SAME_STEP, NEXT_STEP = MODES


class Script:
    """An actor that plays where it is told, begins what it is told, and notes what it saw."""

    def __init__(self, lanes: int) -> None:
        self.playing: np.ndarray | None = None
        self.wanted: list = []
        self.asked: list[list[bool]] = []
        self.seen: list[tuple[np.ndarray, np.ndarray, int]] = []
        self._lanes = lanes
        self.acted: int | None = None
        self.broken: list[bool] | None = None

    def restarts(self, first):
        self.asked.append(first.tolist())
        return self.wanted.pop(0) if self.wanted else None

    def act(self, obs, first, step, *, explore):
        assert explore
        self.seen.append((obs["obs"].copy(), first.copy(), step))
        return np.arange(self._lanes) % 3, {"lane": np.arange(self._lanes, dtype=np.int64)}

    def take(self, weights) -> None:
        raise AssertionError("no weights here")

    def broken_off(self, lanes) -> None:
        self.broken = lanes.tolist()

    def state(self):
        return {"acted": len(self.seen)}

    def load(self, state) -> None:
        self.acted = state["acted"]


class Diary:
    """A writer that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple] = []

    def start(self, obs, lanes=None):
        every = list(range(len(obs["obs"]))) if lanes is None else lanes.tolist()
        self.told.append(("start", every, obs["obs"].tolist()))

    def append(self, action, reward, terminated, truncated, next_obs, extras=None, *,
               lost_life=None, lanes=None):  # fmt: skip
        lanes = np.arange(len(reward)) if lanes is None else lanes
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


# Stopping, and going on.


def parted(rollout: Rollout, env: GymVector) -> tuple[Rollout, Script, Diary, bool]:
    """A rollout of another environment that goes on from the state of this one."""
    actor, diary = Script(env.lanes), Diary()
    other = Rollout(env, actor, diary)
    exact = other.resume(from_bytes(to_bytes(rollout.state()), ""), range(50, 50 + env.lanes))
    return other, actor, diary, exact


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 11])
@pytest.mark.parametrize("mode", MODES)
def test_a_resumed_rollout_goes_on_where_it_was_and_tells_the_writer_nothing(mode, steps) -> None:
    env, other_env = counters(3, 5, mode=mode), counters(3, 5, mode=mode)
    rollout, actor, diary = begin(env)
    for _ in range(steps):
        rollout.step(0)
    other, resumed, told, exact = parted(rollout, other_env)
    assert exact and told.told == [] and resumed.acted == steps and resumed.broken is None
    assert equal_trees(other.state() | {"actor": {}}, rollout.state() | {"actor": {}})
    diary.told.clear()
    actor.seen.clear()
    for _ in range(30):
        assert rollout.step(7) == other.step(7)
    assert told.told == diary.told and len(told.told) >= 30
    for (obs, first, _), (other_obs, other_first, _) in zip(actor.seen, resumed.seen, strict=True):
        assert obs.tobytes() == other_obs.tobytes() and first.tolist() == other_first.tolist()
    assert rollout.episodes == other.episodes and rollout.episodes.finished > 10
    assert equal_trees(other.state() | {"actor": {}}, rollout.state() | {"actor": {}})
    env.close()
    other_env.close()


def test_a_rollout_that_has_not_begun_is_resumed_by_beginning() -> None:
    env = counters(3, 5, mode=DISABLED)
    state = Rollout(env, Script(2), Diary()).state()
    assert state.keys() == {"actor", "episodes"}
    diary, actor = Diary(), Script(2)
    resumed = Rollout(env, actor, diary)
    assert not resumed.resume(from_bytes(to_bytes(state), ""), [5, 6])
    assert diary.told == [("start", [0, 1], [[0, 0, 0], [1, 0, 0]])]
    assert actor.broken == [False, False]
    resumed.step(0)
    assert diary.steps(0) == [[0, 0, 1]]
    env.close()


def test_a_resumed_rollout_knows_whether_it_waited() -> None:
    env = counters(3, 3, 3, mode=DISABLED)
    rollout, actor, _ = begin(env)
    assert not parted(rollout, env)[0].waiting
    actor.playing = mask()
    rollout.step(0)
    assert parted(rollout, env)[0].waiting
    env.close()


def test_the_state_of_a_rollout_is_a_copy() -> None:
    env = counters(3, 5, mode=DISABLED)
    rollout, _, _ = begin(env)
    rollout.step(0)
    state, again = rollout.state(), rollout.state()
    other = Rollout(counters(3, 5, mode=DISABLED), Script(2), Diary())
    other.resume(state, [])
    for _ in range(4):
        rollout.step(0)
        other.step(0)
    assert equal_trees(state, again) and not equal_trees(state, rollout.state())
    env.close()


class Sealed(Counter):
    """A counter that gives no snapshot."""

    def snapshot(self):
        return None


def sealed(*lengths: int, mode=DISABLED) -> GymVector:
    def one(lane: int, length: int):
        return lambda: Sealed(ToyOptions(game="counter", episode_length=length), lane)

    return vector(*(one(lane, length) for lane, length in enumerate(lengths)), mode=mode)


BROKEN = [
    (DISABLED, 3, [(3, 6, "terminated"), (0, 0, "truncated")], [True, False]),
    (DISABLED, 4, [(3, 6, "terminated"), (1, 1, "truncated")], [True, True]),
    (NEXT_STEP, 3, [(3, 6, "terminated")], [True, False]),
    (NEXT_STEP, 4, [(3, 6, "terminated"), (0, 0, "truncated")], [True, False]),
    (NEXT_STEP, 5, [(3, 6, "terminated"), (1, 1, "truncated")], [True, True]),
]
"""By mode and steps: the episodes of a lane of 3, and which of both lanes were broken off."""


@pytest.mark.parametrize("mode, steps, before, broken", BROKEN)
def test_without_a_snapshot_open_episodes_are_truncated(mode, steps, before, broken) -> None:
    spec = sealed(9, 3).spec
    shared, extras = SharedOptions(num_envs=2), {"lane": ArraySpec((), np.dtype(np.int64))}
    memories = [
        SequentialMemory(
            SequentialOptions(memory_limit=100),
            MemoryContext(spec, shared, np.random.default_rng(0), extras),
        )
        for _ in range(2)
    ]
    rollout = Rollout(sealed(9, 3, mode=mode), Script(2), memories[0].writer())
    rollout.begin([0, 1])
    for _ in range(steps):
        rollout.step(0)
    state = rollout.state()
    assert "env" not in state
    memory, actor = memories[1], Script(2)
    memory.load(memories[0].state())
    other = Rollout(sealed(9, 3, mode=mode), actor, memory.writer())
    assert not other.resume(from_bytes(to_bytes(state), ""), [5, 6])
    assert actor.acted == steps and actor.broken == broken
    assert other.step(0) == other.step(0) == 2
    memory.check()
    # the far lane was broken off after `steps` steps of 9; steps earn 1, 2, 3, ...
    own = [(steps, steps * (steps + 1) / 2, "truncated"), (2, 3, "open")]
    found = [(e.lane, e.length, e.total_reward, e.ended) for e in summaries(memory.ring)]
    theirs = [*before, (2, 3, "open")]
    assert found == [(0, *e) for e in own] + [(1, *e) for e in theirs]
    batch = memory.sample(300)
    last = (batch["obs"][:, -1] == [0, 0, steps - 1]).all(1)
    assert last.any() and (batch["discount"][last] == np.float32(shared.gamma)).all()
    assert (batch["next_obs"][last, -1] == [0, 0, steps]).all()
    assert actor.seen[0][1].all() and actor.seen[0][0][:, 2].tolist() == [0, 0]
    episodes = other.episodes
    assert (episodes.finished, list(episodes.returns), list(episodes.lengths)) == (1, [6], [3])
    assert episodes.open_return.tolist() == [3, 3] and episodes.open_length.tolist() == [2, 2]
