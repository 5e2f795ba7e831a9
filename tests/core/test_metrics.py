"""Numbers of a run: windows, means and infos, all of constant size."""

import numpy as np
import pytest

from core.envs.base import Step
from core.metrics import MAX_INFOS, WINDOW, Episodes, Meter, Running, mean

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
