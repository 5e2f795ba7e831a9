"""CleanRL's ReplayBuffer: gymnasium's vector environments, stepped as CleanRL's scripts do."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from core.adapters.cleanrl import ReplayBuffer
from core.adapters.last import put_last


class Count(gym.Env):
    """Observations say lane, episode and step; every other episode is truncated."""

    observation_space = gym.spaces.Box(-1, 1e6, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, lane: int) -> None:
        self._lane, self._episode, self._rng = lane, 0, np.random.default_rng(lane)

    def reset(self, *, seed=None, options=None):
        self._episode, self._time, self._length = (
            self._episode + 1,
            0,
            int(self._rng.integers(1, 6)),
        )
        return self._obs(), {}

    def _obs(self):
        return np.array([self._lane, self._episode, self._time], np.float32)

    def step(self, action):
        self._time += 1
        over, cut = self._time >= self._length, self._episode % 2 == 0
        return self._obs(), float(self._time), over and not cut, over and cut, {}


def run(mode: AutoresetMode, steps: int = 60) -> tuple[ReplayBuffer, int]:
    """A loop as CleanRL writes it; gives how many steps were made beside it."""
    envs = SyncVectorEnv([lambda lane=lane: Count(lane) for lane in range(2)], autoreset_mode=mode)
    keys = {"autoreset": "next_step"} if mode is AutoresetMode.NEXT_STEP else {}
    memory = ReplayBuffer(
        400, envs.single_observation_space, envs.single_action_space, "cpu", n_envs=2,
        handle_timeout_termination=False, seed=0, **keys,
    )  # fmt: skip
    obs, _ = envs.reset(seed=0)
    made, resetting = 0, np.zeros(2, np.bool_)
    for _ in range(steps):
        actions = envs.action_space.sample()
        after, rewards, ended, cut, infos = envs.step(actions)
        real = after.copy()
        if mode is AutoresetMode.SAME_STEP:
            for lane in np.flatnonzero(cut):
                real[lane] = infos["final_obs"][lane]
            memory.add(obs, real, actions, rewards, ended, infos)
            made += 2
        else:
            memory.add(obs, real, actions, rewards, ended, infos, cut)
            made += int((~resetting).sum())
            resetting = (ended | cut) & ~resetting
        obs = after
    envs.close()
    return memory, made


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_no_pair_reaches_across_an_episode_and_none_is_missing(mode):
    memory, made = run(mode)
    assert len(memory.stream.memory) == made
    batch = memory.sample(500)
    obs, after = batch.observations.numpy(), batch.next_observations.numpy()
    assert (after == obs + np.array([0, 0, 1])).all()
    assert (batch.rewards.numpy()[:, 0] == after[:, 2]).all()
    assert not (batch.dones.numpy()[:, 0].astype(bool) & (obs[:, 1] % 2 == 0)).any()
    assert batch.dones.sum() > 0
    assert batch.actions.shape == (500, 1)
    memory.stream.memory.check()


def test_last_observations_are_found_in_a_dict_or_in_a_list():
    obs, last = {"obs": np.zeros((2, 3))}, np.ones(3)
    told = [
        {"final_obs": np.array([None, last], object)},
        {"final_observation": np.array([None, last], object)},
        [{}, {"final_obs": last}],
    ]
    for infos in told:
        whole, ended = put_last(obs, infos)
        assert whole["obs"].tolist() == [[0.0] * 3, [1.0] * 3]
        assert ended.tolist() == [False, True]
    for infos in ({}, [], None, [{}, {}]):
        whole, ended = put_last(obs, infos)
        assert whole is obs
        assert not ended.any()
