"""Evaluation: fair shares, the limit, the stop."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from core.envs.options import ToyOptions
from core.envs.toy import Counter
from core.envs.vector import GymVector
from core.evaluate import Evaluation, evaluate

MODES = [AutoresetMode.DISABLED, AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP]


class Watcher:
    """Acts at random, and keeps what it was asked."""

    def __init__(self) -> None:
        self.firsts: list[list[bool]] = []
        self.explored = False

    def act(self, obs, first, step, *, explore):
        self.firsts.append(first.tolist())
        self.explored |= explore
        assert step == 0  # nothing of an evaluation depends on the clock
        return np.zeros(len(first), np.int64), {}


def counters(*lengths: int, mode=AutoresetMode.DISABLED) -> GymVector:
    def one(lane: int, length: int):
        return lambda: Counter(ToyOptions(game="counter", episode_length=length), lane)

    makers = [one(lane, length) for lane, length in enumerate(lengths)]
    return GymVector(SyncVectorEnv(makers, copy=False, autoreset_mode=mode))


def play(env: GymVector, episodes: int, **more) -> tuple[Evaluation | None, Watcher]:
    watcher = Watcher()
    seeds = list(range(env.lanes))
    found = evaluate(env, watcher, seeds, episodes, **{"limit": 1000, **more})
    env.close()
    return found, watcher


@pytest.mark.parametrize("mode", MODES)
def test_each_lane_plays_its_share(mode: AutoresetMode) -> None:
    found, watcher = play(counters(2, 3, 5, mode=mode), 7)
    # shares 3, 2, 2; the return of an episode of T steps is 1 + ... + T
    assert sorted(found.lengths) == [2, 2, 2, 3, 3, 5, 5]
    assert sorted(found.returns) == [3, 3, 3, 6, 6, 15, 15]
    assert found.cut == 0
    assert found.mean == pytest.approx(51 / 7)
    assert found.std == pytest.approx(np.std([3, 3, 3, 6, 6, 15, 15]))
    assert watcher.firsts[0] == [True, True, True]
    assert not watcher.explored


def test_they_come_in_the_order_they_ended() -> None:
    found, _ = play(counters(2, 3), 4)
    assert found.lengths == (2, 3, 2, 3)


def test_fewer_episodes_than_lanes() -> None:
    found, watcher = play(counters(4, 2, 1), 2)
    assert sorted(found.lengths) == [2, 4]
    assert len(watcher.firsts) == 4


@pytest.mark.parametrize("mode", MODES)
def test_the_actor_is_told_where_episodes_begin(mode: AutoresetMode) -> None:
    _, watcher = play(counters(2, mode=mode), 3)
    begins = [first[0] for first in watcher.firsts]
    assert sum(begins) == 3
    assert begins[0]


def test_an_endless_episode_is_cut_and_counted_once() -> None:
    found, watcher = play(counters(0, 3), 4, limit=5)
    # lane 0 never ends: it counts five steps once; lane 1 plays its two
    assert sorted(found.lengths) == [3, 3, 5]
    assert sorted(found.returns) == [6, 6, 15]
    assert found.cut == 1
    assert len(watcher.firsts) == 6


def test_an_episode_that_ends_at_the_limit_is_not_cut() -> None:
    found, _ = play(counters(5), 2, limit=5)
    assert (found.lengths, found.cut) == ((5, 5), 0)


def test_told_to_stop_it_gives_nothing() -> None:
    asked = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 3

    found, watcher = play(counters(9), 1, stop=stop)
    assert found is None
    assert len(watcher.firsts) == 3


def test_told_to_stop_half_way_it_gives_nothing_either() -> None:
    asked = []
    found, _ = play(counters(1, 9), 2, stop=lambda: asked.append(1) or len(asked) > 3)
    assert found is None  # lane 0 had played its share, but short episodes alone are no evaluation


def test_a_stop_after_the_last_episode_changes_nothing() -> None:
    watched = []
    found, _ = play(counters(2), 1, stop=lambda: len(watched) > 5)
    assert found.lengths == (2,)
