"""Run in Tianshou's venv: its collector and its DQN over the memory, indices against steps."""

import gymnasium as gym
import numpy as np
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.torch_utils import policy_within_training_step

from core.adapters.tianshou import EngramReplayBuffer

LANES = 3


class Count(gym.Env):
    """Observations say episode and step; episodes of 1 to 6 steps, every other one truncated."""

    observation_space = gym.spaces.Box(-1e6, 1e6, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, lane: int) -> None:
        self._episode, self._rng = lane * 1000, np.random.default_rng(lane)

    def reset(self, *, seed=None, options=None):
        self._episode, self._time, self._length = (
            self._episode + 1,
            0,
            int(self._rng.integers(1, 7)),
        )
        return np.array([self._episode, 0], np.float32), {}

    def step(self, action):
        self._time += 1
        over, cut = self._time >= self._length, self._episode % 2 == 0
        obs = np.array([self._episode, self._time], np.float32)
        return obs, float(self._time), over and not cut, over and cut, {}


def check(buffer) -> None:
    """Whatever an index says is what its observation says."""
    indices = buffer.sample_indices(0)
    batch, newest = buffer[indices], set(buffer.unfinished_index().tolist())
    assert (batch.obs_next == batch.obs + np.array([0, 1])).all()
    assert (batch.rew == batch.obs[:, 1] + 1).all()
    assert not (batch.terminated & (batch.obs[:, 0] % 2 == 0)).any()
    assert not (batch.truncated & (batch.obs[:, 0] % 2 == 1)).any()
    following = buffer.next(indices)
    stay = following == indices
    assert (stay == (batch.done | np.isin(indices, list(newest)))).all()
    assert (buffer[following[~stay]].obs == batch.obs_next[~stay]).all()
    back = buffer.prev(following[~stay])
    assert (back == indices[~stay]).all()
    assert len(indices) == len(buffer)


def main() -> None:
    np.random.seed(0)
    envs = DummyVectorEnv([lambda lane=lane: Count(lane) for lane in range(LANES)])
    one = Count(0)
    net = Net(state_shape=2, action_shape=2, hidden_sizes=[8])
    policy = DiscreteQLearningPolicy(
        model=net,
        action_space=one.action_space,
        observation_space=one.observation_space,
        eps_training=1.0,
    )
    optim = AdamOptimizerFactory(lr=1e-3)
    algorithm = DQN(policy=policy, optim=optim, n_step_return_horizon=3, target_update_freq=50)
    buffer = EngramReplayBuffer(300, LANES, one.observation_space, one.action_space, seed=0)
    collector = Collector(algorithm, envs, buffer)
    collector.reset()
    for _ in range(12):
        stats = collector.collect(n_step=60)
        check(buffer)
        with policy_within_training_step(policy):
            algorithm.update(buffer, 16)
    assert buffer.stream.memory.rows == 300
    assert (stats.returns == stats.lens * (stats.lens + 1) / 2).all()
    assert stats.lens.min() >= 1 and stats.lens.max() <= 6
    batch, indices = buffer.sample(32)
    again: Batch = buffer[indices]
    assert (batch.obs == again.obs).all() and batch.act.shape == (32,)
    buffer.stream.memory.check()
    print("ok")


if __name__ == "__main__":
    main()
