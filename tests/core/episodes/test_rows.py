"""Rows of episodes: what a writer leaves in the ring, and what it refuses."""

import numpy as np
import pytest

from core.episodes.rows import OLDEST, RowWriter, check_rows, plan_rows, unit_id
from core.errors import CorruptMemoryError, UsageError
from core.storage.plan import plan_store
from core.storage.ring import RingBuffer
from core.types import ArraySpec, ContinuousActions, DiscreteActions, EnvSpec

F32, U8, I64 = np.dtype(np.float32), np.dtype(np.uint8), np.dtype(np.int64)
OBS = {"obs": ArraySpec((1,), F32)}
ENV = EnvSpec(OBS, DiscreteActions(3))
EXTRAS = {"mark": ArraySpec((), F32)}


def make(lanes: int = 1, rows: int = 8, env: EnvSpec = ENV, extras=None) -> RingBuffer:
    return RingBuffer(
        plan_store(plan_rows(env, extras or {}, "auto", "exact"), lanes, rows * lanes)
    )


def obs(*values: float) -> dict[str, np.ndarray]:
    return {"obs": np.array(values, np.float32)[:, None]}


def flags(*values: int) -> np.ndarray:
    return np.array(values, np.bool_)


def step(
    writer: RowWriter, to: float, *, end: str = "", lanes=None, action: int = 0, **more
) -> None:
    writer.append(
        np.array([action]),
        np.array([to * 10]),
        flags("t" in end),
        flags("c" in end),
        obs(to),
        lanes=None if lanes is None else np.array(lanes),
        **more,
    )


def column(ring: RingBuffer, name: str, lane: int = 0) -> list:
    rows = np.arange(ring.tails[lane], ring.heads[lane])
    return ring.gather(name, ring.where(np.full(len(rows), lane), rows)).reshape(-1).tolist()


def test_an_episode_of_three_steps_fills_four_rows() -> None:
    ring = make()
    writer = RowWriter(ring, ENV, np.array([0]))
    writer.start(obs(0))
    step(writer, 1, action=2)
    step(writer, 2, action=1)
    step(writer, 3, end="t")
    writer.start(obs(7))
    assert column(ring, "obs") == [0, 1, 2, 3, 7]
    assert column(ring, "action")[:3] == [2, 1, 0]
    assert column(ring, "reward")[:3] == [10, 20, 30]
    assert column(ring, "terminal")[:3] == [False, False, True]
    assert column(ring, "closing") == [False, False, False, True, False]
    assert column(ring, "age") == [0, 1, 2, 3, 0]
    assert column(ring, "episode") == [0, 0, 0, 0, 1]
    check_rows(ring)


@pytest.mark.parametrize(
    ("end", "lost", "terminal", "closing"),
    [
        ("", False, False, False),
        ("t", False, True, True),
        ("c", False, False, True),
        ("tc", False, True, True),
        ("", True, True, False),
        ("c", True, True, True),
        ("t", True, True, True),
    ],
)
def test_which_ends_close_and_which_are_terminal(
    end: str, lost: bool, terminal: bool, closing: bool
) -> None:
    ring = make()
    writer = RowWriter(ring, ENV, np.array([0]))
    writer.start(obs(0))
    step(writer, 1, end=end, lost_life=flags(lost))
    assert column(ring, "terminal")[0] is terminal
    assert column(ring, "closing") == [False, closing]


def test_a_start_on_an_open_row_closes_it_and_changes_nothing_else() -> None:
    ring = make()
    writer = RowWriter(ring, ENV, np.array([0]))
    writer.start(obs(0))
    step(writer, 1, action=2)
    writer.start(obs(5))
    writer.start(obs(6))  # an episode without a step
    step(writer, 7)
    assert column(ring, "obs") == [0, 1, 5, 6, 7]
    assert column(ring, "closing") == [False, True, True, False, False]
    assert column(ring, "age") == [0, 1, 0, 0, 1]
    assert column(ring, "episode") == [0, 0, 1, 2, 2]
    assert column(ring, "action")[0] == 2
    assert not column(ring, "terminal")[0]
    check_rows(ring)


def test_a_new_writer_goes_on_where_the_old_one_was() -> None:
    ring = make(lanes=3)
    first = RowWriter(ring, ENV, np.arange(3))
    first.start(obs(0, 1), np.array([0, 1]))
    step(first, 5, lanes=[0])
    step(first, 6, lanes=[1], end="c")
    second = RowWriter(ring, ENV, np.arange(3))
    step(second, 7, lanes=[0])
    for lane in (1, 2):
        with pytest.raises(ValueError, match=f"lane {lane} has no open episode"):
            step(second, 8, lanes=[lane])
    second.start(obs(20, 30), np.array([1, 2]))
    assert column(ring, "age", 0) == [0, 1, 2]
    assert (column(ring, "age", 1), column(ring, "episode", 1)) == ([0, 1, 0], [0, 0, 1])
    assert (column(ring, "age", 2), column(ring, "episode", 2)) == ([0], [0])
    check_rows(ring)


def test_append_without_start_is_refused() -> None:
    ring = make()
    writer = RowWriter(ring, ENV, np.array([0]))
    with pytest.raises(ValueError, match="lane 0 has no open episode: call start before append"):
        step(writer, 1)
    writer.start(obs(0))
    step(writer, 1, end="t")
    with pytest.raises(ValueError, match="lane 0 has no open episode"):
        step(writer, 2)
    assert column(ring, "obs") == [0, 1]


def test_a_lane_has_one_writer() -> None:
    ring = make(lanes=3)
    writer = RowWriter(ring, ENV, np.array([0, 2]))
    with pytest.raises(ValueError, match="lane 1 has another writer"):
        writer.start(obs(0, 0), np.array([0, 1]))
    assert ring.held == 0
    writer.start(obs(5, 6))
    assert (column(ring, "obs", 0), column(ring, "obs", 2)) == ([5], [6])


def test_no_lane_at_all_is_a_step_of_nothing() -> None:
    ring = make(lanes=2)
    writer = RowWriter(ring, ENV, np.arange(2))
    writer.start(obs(0, 1))
    none = np.zeros(0)
    writer.append(none.astype(int), none, flags(), flags(), obs(), lanes=np.zeros(0, np.int64))
    assert ring.heads.tolist() == [1, 1]


BAD = {
    "next_obs": {"next_obs": {"obs": np.zeros((1, 2), np.float32)}},
    "no_next_obs": {"next_obs": {}},
    "action": {"action": np.zeros((1, 1), np.int64)},
    "reward": {"reward": np.zeros(2)},
    "no_extras": {"extras": None},
    "other_extras": {"extras": {"other": np.zeros(1, np.float32)}},
    "more_extras": {"extras": {"mark": np.zeros(1, np.float32), "other": np.zeros(1)}},
    "extras_shape": {"extras": {"mark": np.zeros((1, 1), np.float32)}},
}


@pytest.mark.parametrize("bad", sorted(BAD))
def test_a_refused_step_can_be_told_again(bad: str) -> None:
    ring = make(rows=3, extras=EXTRAS)
    writer = RowWriter(ring, ENV, np.array([0]))
    good = {
        "action": np.array([1]),
        "reward": np.array([2.0]),
        "terminated": flags(0),
        "truncated": flags(0),
        "next_obs": obs(9),
        "extras": {"mark": np.array([4.0], np.float32)},
    }
    writer.start(obs(0))
    for _ in range(4):
        writer.append(**good)
    with pytest.raises((ValueError, KeyError), match=r"obs|shape|extras are"):
        writer.append(**{**good, **BAD[bad]})
    check_rows(ring)
    writer.append(**good)
    assert column(ring, "age") == [3, 4, 5]
    assert column(ring, "mark")[:2] == [4, 4]
    check_rows(ring)


def test_a_refused_start_leaves_the_episode_open() -> None:
    ring = make()
    writer = RowWriter(ring, ENV, np.array([0]))
    writer.start(obs(0))
    with pytest.raises(ValueError, match="'obs' has shape"):
        writer.start({"obs": np.zeros((1, 3), np.float32)})
    step(writer, 1)
    assert column(ring, "closing") == [False, False]
    assert column(ring, "episode") == [0, 0]
    check_rows(ring)


def test_the_same_lanes_by_default_and_by_name() -> None:
    named, unnamed = make(lanes=2), make(lanes=2)
    for ring, lanes in ((named, np.array([0, 1])), (unnamed, None)):
        writer = RowWriter(ring, ENV, np.arange(2))
        writer.start(obs(1, 2), lanes)
        writer.append(
            np.array([0, 1]), np.array([0.5, 1]), flags(0, 1), flags(1, 0), obs(3, 4), lanes=lanes
        )
    assert all(
        np.array_equal(value, unnamed.state()[key])
        for key, value in named.state().items()
        if key != "frames"
    )


@pytest.mark.parametrize(
    ("n", "stored"), [(1, "u1"), (2, "u1"), (255, "u1"), (256, "u1"), (257, "u2"), (65537, "u4")]
)
def test_indices_take_the_narrowest_type_that_holds_them(n: int, stored: str) -> None:
    env = EnvSpec(OBS, DiscreteActions(n))
    plan = next(p for p in plan_rows(env, {}, "auto", "exact") if p.name == "action")
    assert plan.stored == np.dtype(stored)
    ring = make(env=env)
    writer = RowWriter(ring, env, np.array([0]))
    writer.start(obs(0))
    step(writer, 1, action=n - 1)
    read = ring.gather("action", ring.where(np.array([0]), np.array([0])))
    assert (read.dtype, read.tolist()) == (I64, [n - 1])


def test_continuous_actions_are_kept_as_they_are() -> None:
    env = EnvSpec(OBS, ContinuousActions((-1.0,) * 2, (1.0,) * 2))
    plan = next(p for p in plan_rows(env, {}, "auto", "exact") if p.name == "action")
    assert (plan.stored, plan.spec.shape) == (F32, (2,))


def test_an_action_that_is_none_is_refused() -> None:
    ring = make()
    writer = RowWriter(ring, ENV, np.array([0]))
    writer.start(obs(0))
    for wrong in (-1, 300):
        with pytest.raises(UsageError, match="'action'"):
            step(writer, 1, action=wrong)


def test_bytes_of_a_row() -> None:
    # obs 4, reward 4, age 4, episode 4, terminal 1, closing 1, action 1, padded to 20
    assert make().plan.bytes_per_row == 20
    pixels = EnvSpec({"obs": ArraySpec((84, 84), U8)}, DiscreteActions(6))
    # reward 4, age 4, episode 4, three bytes, padded to 16
    assert make(env=pixels).plan.bytes_per_row == 84 * 84 + 16


@pytest.mark.parametrize(
    "name", ["obs", "next_obs", "action", "reward", "discount", "weight", "id", "terminal", "age"]
)
def test_two_columns_of_one_name_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"two columns are named {name}"):
        plan_rows(ENV, {name: ArraySpec((), F32)}, "auto", "exact")


def test_extras_are_never_frames() -> None:
    plans = plan_rows(ENV, {"map": ArraySpec((20, 20), F32)}, "auto", "exact")
    plan = next(p for p in plans if p.name == "map")
    assert (plan.kind, plan.stored) == ("packed", F32)


def test_an_id_holds_lane_and_row() -> None:
    ids = unit_id(np.array([0, 0, 1, 3]), np.array([0, 5, 0, 2**39]))
    assert ids.tolist() == [0, 5, 2**40, 3 * 2**40 + 2**39]


@pytest.mark.parametrize("name", ["age", "episode", "closing"])
def test_check_finds_a_row_that_does_not_follow(name: str) -> None:
    ring = make(lanes=2, rows=5)
    writer = RowWriter(ring, ENV, np.arange(2))
    writer.start(obs(0, 0))
    for number in range(7):
        writer.append(np.zeros(2, int), np.zeros(2), flags(0, 0), flags(0, 0), obs(number, number))
    check_rows(ring)
    at = ring.where(np.array([1]), np.array([5]))
    value = ring.gather(name, at)
    ring.write(at, {name: ~value if name == "closing" else value + 1})
    with pytest.raises(CorruptMemoryError, match=r"lane 1, row [56]: '(age|episode)' does not"):
        check_rows(ring)


def test_an_episode_without_end_outlives_its_counter() -> None:
    ring = make(rows=6)
    writer = RowWriter(ring, ENV, np.array([0]))
    writer.start(obs(0))
    writer._age[:] = OLDEST - 2  # as if two thousand million steps had gone by
    for moment in range(1, 5):
        step(writer, moment)
    assert column(ring, "age")[1:] == [OLDEST - 1, OLDEST, OLDEST, OLDEST]
    assert column(ring, "obs") == [0, 1, 2, 3, 4]
    ring.evict(np.array([0]), np.array([1]))  # the first row's age was never true
    check_rows(ring)


def test_a_writer_does_not_write_where_rows_lay_before_a_load() -> None:
    ring, other = make(), make()
    one, two = (RowWriter(each, ENV, np.array([0])) for each in (ring, other))
    for writer, steps in ((one, 1), (two, 4)):
        writer.start(obs(0))
        for at in range(steps):
            step(writer, at + 1)
    ring.load(other.state())
    assert column(ring, "reward")[:4] == [10, 20, 30, 40]
    step(one, 9)
    assert column(ring, "reward")[:5] == [10, 20, 30, 40, 90]
