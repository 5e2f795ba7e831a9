"""Lanes: what gymnasium's SyncVectorEnv gives, and lanes that stand still."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from core.envs.lanes import Lanes


def makers(game: str, lanes: int) -> list:
    return [lambda: gym.make(game, disable_env_checker=True)] * lanes


class Loose(gym.Env):
    """Observes in another dtype, a list or another shape than its space says."""

    observation_space = spaces.Box(-10, 10, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, given: object) -> None:
        self._given = given
        self.acted: list[object] = []

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.acted.append(action)
        return self._given, 1.0, False, False, {}


class Parts(gym.Env):
    """An observation of two parts, counting its steps."""

    observation_space = spaces.Dict(
        {"left": spaces.Box(-1, 99, (1,), np.float32), "right": spaces.MultiBinary(2)}
    )
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def _see(self):
        return {"left": np.full(1, self.at, np.float32), "right": np.ones(2, np.int8)}

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return self._see(), {"begun": 1.0}

    def step(self, action):
        self.at += 1
        return self._see(), float(action[0]), self.at == 3, False, {"at": self.at}


@pytest.mark.parametrize("game", ["CartPole-v1", "Pendulum-v1", "MountainCar-v0"])
@pytest.mark.parametrize("lanes", [1, 3])
def test_it_gives_what_gymnasium_gives(game: str, lanes: int):
    ours = Lanes(makers(game, lanes))
    theirs = SyncVectorEnv(makers(game, lanes), autoreset_mode=AutoresetMode.DISABLED)
    seeds = list(range(lanes))
    assert np.array_equal(ours.reset(seed=seeds)[0], theirs.reset(seed=seeds)[0])
    theirs.action_space.seed(0)
    for _ in range(400):
        actions = theirs.action_space.sample()
        mine, other = ours.step(actions), theirs.step(actions)
        for one, two in zip(mine[:4], other[:4], strict=True):
            assert np.array_equal(one, two) and one.dtype == two.dtype
        assert mine[4].keys() == other[4].keys()
        ended = mine[2] | mine[3]
        if ended.any():
            again = [one.reset(options={"reset_mask": ended.copy()})[0] for one in (ours, theirs)]
            assert np.array_equal(*again)


def test_parts_of_an_observation_and_infos_are_joined():
    ours = Lanes([Parts, Parts])
    theirs = SyncVectorEnv([Parts, Parts], copy=False, autoreset_mode=AutoresetMode.DISABLED)
    for envs in (ours, theirs):
        _, infos = envs.reset()
        assert infos["begun"].tolist() == [1.0, 1.0]
    for _ in range(3):
        actions = np.array([[0.5], [-0.5]], np.float32)
        mine, other = ours.step(actions), theirs.step(actions)
        for name in ("left", "right"):
            assert np.array_equal(mine[0][name], other[0][name])
        assert np.array_equal(mine[1], other[1]) and np.array_equal(mine[4]["at"], other[4]["at"])
    obs, _ = ours.reset(options={"reset_mask": np.array([True, False])})
    assert obs["left"].tolist() == [[0.0], [3.0]]


def test_lanes_that_do_not_play_stand_still_and_earn_nothing():
    envs, alone = Lanes(makers("CartPole-v1", 3)), Lanes(makers("CartPole-v1", 1))
    begun, _ = envs.reset(seed=[1, 2, 3])
    begun = begun.copy()
    alone.reset(seed=[2])
    playing = np.array([False, True, False])
    for _ in range(5):
        obs, reward, terminated, truncated, _ = envs.step(np.array([1, 0, 1]), playing)
        expected = alone.step(np.array([0]))[0]
        assert np.array_equal(obs[1], expected[0])
        assert np.array_equal(obs[[0, 2]], begun[[0, 2]])
        assert reward.tolist() == [0.0, 1.0, 0.0]
        assert not terminated.any() and not truncated.any()
    obs, reward, *_ = envs.step(np.array([1, 0, 1]))
    assert not np.array_equal(obs[0], begun[0]) and reward.tolist() == [1.0] * 3


def test_a_lane_whose_episode_is_over_is_not_stepped():
    envs = Lanes([Parts])
    envs.reset()
    for _ in range(3):
        envs.step(np.zeros((1, 1), np.float32))
    with pytest.raises(RuntimeError, match="over"):
        envs.step(np.zeros((1, 1), np.float32))


@pytest.mark.parametrize("given", [[1, 2], np.array([1.0, 2.0]), np.array([1, 2], np.int8)])
def test_what_can_be_cast_is_cast_and_actions_are_pythons_integers(given: object):
    env = Loose(given)
    envs = Lanes([lambda: env])
    envs.reset()
    obs, *_ = envs.step(np.array([1]))
    assert obs.tolist() == [[1.0, 2.0]] and obs.dtype == np.float32
    assert env.acted == [1] and type(env.acted[0]) is int


@pytest.mark.parametrize("given", [np.zeros(3, np.float32), np.float32(1), np.zeros((1, 2))])
def test_an_observation_of_another_shape_is_refused(given: object):
    envs = Lanes([lambda: Loose(given)])
    envs.reset()
    with pytest.raises(ValueError):
        envs.step(np.array([1]))
