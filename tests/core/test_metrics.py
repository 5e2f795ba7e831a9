"""Numbers of a run: windows, means and infos, all of constant size."""

import numpy as np
import pytest

from core.checkpoint import from_bytes, to_bytes
from core.envs.base import Step
from core.metrics import MAX_INFOS, WINDOW, Episodes, Meter, Running, mean
from tests.harness import equal_trees

NO = np.zeros(2, np.bool_)


def a_step(reward, *, ended=(0, 0), cut=(0, 0), stepped=(1, 1), infos=None) -> Step:
    flags = [np.array(x, np.bool_) for x in (stepped, ended, cut)]
    return Step(
        stepped=flags[0],
        reward=np.array(reward, np.float64),
        terminated=flags[1],
        truncated=flags[2],
        next_obs={},
        started=NO,
        obs={},
        lost_life=None,
        infos=infos or {},
    )


def test_mean_of_nothing_is_none() -> None:
    assert mean([]) is None
    assert mean([1, 2, 6]) == 3


def test_a_meter_gives_means_and_starts_anew() -> None:
    meter = Meter(("loss", "q_mean"))
    assert meter.read() == {"loss": None, "q_mean": None}
    meter.add({"loss": 1.0})
    meter.add({"loss": 4.0, "q_mean": -2.0})
    assert meter.read() == {"loss": 2.5, "q_mean": -2.0}
    assert meter.read() == {"loss": None, "q_mean": None}
    with pytest.raises(KeyError):
        meter.add({"surprise": 1.0})


def test_a_loaded_meter_goes_on() -> None:
    meter, other = Meter(("a/b", "q")), Meter(("a/b", "q"))
    meter.add({"a/b": 0.1, "q": np.float32(0.1)})
    meter.add({"a/b": 0.2})
    other.add({"q": 7.0})
    state = meter.state()
    other.load(from_bytes(to_bytes(state), ""))
    for both in (meter, other):
        both.add({"a/b": 0.3, "q": np.float32(0.7)})
    narrow = float(np.float32(0.1)), float(np.float32(0.7))
    expected = {"a/b": (0.1 + 0.2 + 0.3) / 3, "q": sum(narrow) / 2}
    assert meter.read() == other.read() == expected
    other.load(state)
    assert other.read() == {"a/b": (0.1 + 0.2) / 2, "q": narrow[0]}
    with pytest.raises(ValueError):
        Meter(("q",)).load(state)


def test_running_is_the_mean_of_all_however_they_came() -> None:
    values = np.random.default_rng(0).normal(5, 3, 1000)
    running = Running()
    for part in np.split(values, [1, 7, 300, 301]):
        running.add(part)
    assert running.count == 1000
    assert running.mean == pytest.approx(values.mean())
    assert (running.low, running.high) == (values.min(), values.max())


def test_running_leaves_out_what_is_no_number() -> None:
    running = Running()
    running.add(np.array([np.nan, np.inf, -np.inf]))
    assert running == Running()
    running.add(np.array([np.nan, 2.0, 4.0]))
    assert (running.count, running.mean, running.low, running.high) == (2, 3.0, 2.0, 4.0)


def test_episodes_by_lane() -> None:
    episodes = Episodes(2)
    assert episodes.last_return is None
    assert len(episodes.record(a_step([1, 10]))) == 0
    assert episodes.record(a_step([2, 20], ended=[0, 1])).tolist() == [1]
    assert episodes.last_return == 30
    assert episodes.record(a_step([4, 40], cut=[1, 0])).tolist() == [0]
    assert list(episodes.returns) == [30, 7]
    assert list(episodes.lengths) == [2, 3]
    assert episodes.finished == 2
    assert episodes.open_return.tolist() == [0, 40]
    assert episodes.open_length.tolist() == [0, 1]


def test_a_lane_that_did_not_step_counts_nothing() -> None:
    episodes = Episodes(2)
    episodes.record(a_step([1, 99], ended=[0, 1], stepped=[1, 0]))
    assert episodes.finished == 0
    assert episodes.open_return.tolist() == [1, 0]
    assert episodes.open_length.tolist() == [1, 0]


def test_both_flags_are_one_end() -> None:
    episodes = Episodes(2)
    episodes.record(a_step([1, 2], ended=[1, 0], cut=[1, 0]))
    assert episodes.finished == 1


def test_only_the_newest_are_kept() -> None:
    episodes = Episodes(2)
    for number in range(WINDOW):
        episodes.record(a_step([number, number], ended=[1, 1]))
    assert len(episodes.returns) == len(episodes.lengths) == WINDOW
    assert episodes.finished == 2 * WINDOW
    assert min(episodes.returns) == WINDOW / 2


def test_infos_are_folded_and_their_number_is_bounded() -> None:
    episodes = Episodes(2)
    for number in range(200):
        infos = {f"key{number}": np.array([1.0, np.nan]), "same": np.array([number, 2.0])}
        episodes.record(a_step([0, 0], infos=infos))
    assert len(episodes.infos) == MAX_INFOS
    assert episodes.infos["key0"] == Running(1, 1.0, 1.0, 1.0)
    assert episodes.infos["same"].count == 400
    assert episodes.infos["same"].mean == pytest.approx((199 / 2 + 2) / 2)


def test_loaded_episodes_go_on() -> None:
    episodes, other = Episodes(2), Episodes(2)
    infos = {"a/b": np.array([1.0, 3.0]), "": np.array([np.nan, np.inf])}
    for number in range(WINDOW):
        episodes.record(a_step([number, 0.1], ended=[1, 0], infos=infos))
    episodes.record(a_step([np.inf, 0.1], infos=infos))
    other.record(a_step([5, 5], ended=[0, 1], infos={"x": np.zeros(2)}))
    state, again = episodes.state(), episodes.state()
    other.load(state)
    other.load(from_bytes(to_bytes(state), ""))
    for both in (episodes, other):
        both.record(a_step([1, 0.2], cut=[0, 1], infos={**infos, "new": np.ones(2)}))
    assert equal_trees(state, again)  # what is saved is a copy
    assert episodes == other
    assert other.finished == WINDOW + 1 and len(other.returns) == len(other.lengths) == WINDOW
    assert other.last_return == pytest.approx(0.1 * (WINDOW + 1) + 0.2)
    assert other.lengths[-1] == WINDOW + 2 and other.lengths[-2] == 1
    assert other.open_return.tolist() == episodes.open_return.tolist() == [np.inf, 0]
    assert other.open_length.tolist() == episodes.open_length.tolist() == [2, 0]
    assert other.infos["a/b"] == Running(2 * (WINDOW + 2), pytest.approx(2.0), 1.0, 3.0)
    assert other.infos[""] == Running() and list(other.infos) == ["a/b", "", "new"]


def test_forgotten_episodes_never_end() -> None:
    episodes = Episodes(2)
    episodes.record(a_step([1, 10]))
    episodes.forget(np.array([1]))
    episodes.record(a_step([2, 20], ended=[1, 1]))
    assert list(episodes.returns) == [3, 20] and list(episodes.lengths) == [2, 1]
