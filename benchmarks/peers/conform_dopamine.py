"""Dopamine: the JAX agents' ReplayBuffer with its TransitionAccumulator."""

import copy

import numpy as np
from conform import main, mode
from dopamine.jax.replay_memory.accumulator import TransitionAccumulator
from dopamine.jax.replay_memory.elements import TransitionElement
from dopamine.jax.replay_memory.replay_buffer import ReplayBuffer
from dopamine.jax.replay_memory.samplers import UniformSamplingDistribution

from core.conformance.subject import Batch
from core.conformance.world import Array, Setting, Tick


class Subject:
    """Told as its DQN agent tells it: each step by the frame before it.

    Frames are stacked by it, zeros before an episode's first, which is what its agent acts on too.
    """

    padding = "zeros"

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._accumulator = TransitionAccumulator(setting.window, setting.n_step, setting.gamma)
        self._memory = ReplayBuffer(
            self._accumulator,
            UniformSamplingDistribution(seed=setting.seed),
            batch_size=32,
            max_capacity=setting.capacity,
        )
        self._now = np.zeros(0)

    def begin(self, obs: Array) -> None:
        """See `Subject.begin`."""
        self._accumulator.clear()
        self._now = obs[0].copy()

    def step(self, tick: Tick) -> None:
        """See `Subject.step`."""
        told = (int(tick.action[0]), float(tick.reward[0]))
        ends = (bool(tick.terminated[0]), bool(tick.over[0]))
        self._memory.add(TransitionElement(self._now, *told, *ends))
        self._now = (tick.first if tick.over[0] else tick.next_obs)[0].copy()

    def sample(self, count: int) -> Batch:
        """See `Subject.sample`: its agents discount by gamma^n."""
        drawn = self._memory.sample(count)
        gamma = np.float32(self._setting.gamma**self._setting.n_step)
        return {
            "obs": np.moveaxis(drawn.state, -1, 1),
            "next_obs": np.moveaxis(drawn.next_state, -1, 1),
            "action": np.asarray(drawn.action),
            "reward": np.asarray(drawn.reward, np.float32),
            "discount": gamma * (1 - np.asarray(drawn.is_terminal, np.float32)),
        }

    def resumed(self) -> "Subject":
        """See `Subject`: by its state dictionaries."""
        other = Subject(self._setting)
        other._memory.from_state_dict(copy.deepcopy(self._memory.to_state_dict()))
        other._now = self._now
        return other


if __name__ == "__main__":
    lacks = ("lanes", "priorities", "stale")
    main("dopamine", "dopamine_rl", {"snappy": mode(Subject, lacks, "ReplayBuffer, compress")})
