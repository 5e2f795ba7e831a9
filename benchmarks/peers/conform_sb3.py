"""Stable-Baselines3: ReplayBuffer in both of its ways, and NStepReplayBuffer."""

import pickle
from functools import partial
from typing import Any

import numpy as np
from conform import main, mode
from gymnasium.spaces import Box, Discrete
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer

from core.conformance.subject import Batch, Stacks
from core.conformance.world import ACTIONS, Array, Setting, Tick


class Subject:
    """Stacks are its caller's, as VecFrameStack makes them; true last frames come in the infos."""

    def __init__(self, setting: Setting, optimize: bool, n_step: bool) -> None:
        np.random.seed(setting.seed)  # as set_random_seed does
        shape = (setting.window, setting.side, setting.side)
        options: dict[str, Any] = {
            "n_envs": setting.lanes,
            "optimize_memory_usage": optimize,
            # its documents: not both of these
            "handle_timeout_termination": not optimize,
        }
        kind = ReplayBuffer
        if n_step:
            kind = NStepReplayBuffer
            options |= {"n_steps": setting.n_step, "gamma": setting.gamma}
        spaces = (Box(0, 255, shape, np.uint8), Discrete(ACTIONS))
        self._memory = kind(setting.capacity, *spaces, device="cpu", **options)
        self._stacks, self._gamma = Stacks(setting), setting.gamma

    def begin(self, obs: Array) -> None:
        """See `Subject.begin`: a second call of learn resets, and tells the buffer nothing."""
        self._stacks.begin(obs)

    def step(self, tick: Tick) -> None:
        """See `Subject.step`."""
        before, after = self._stacks.step(tick)
        infos = [{"TimeLimit.truncated": bool(cut)} for cut in tick.truncated]
        self._memory.add(before, after, tick.action, tick.reward, tick.over, infos)

    def sample(self, count: int) -> Batch:
        """See `Subject.sample`."""
        drawn = self._memory.sample(count)
        gamma = self._gamma if drawn.discounts is None else drawn.discounts.numpy()
        return {
            "obs": drawn.observations.numpy(),
            "next_obs": drawn.next_observations.numpy(),
            "action": drawn.actions.numpy(),
            "reward": drawn.rewards.numpy(),
            "discount": gamma * (1 - drawn.dones.numpy()),
        }

    def resumed(self) -> "Subject":
        """See `Subject`: save_replay_buffer pickles it."""
        other = pickle.loads(pickle.dumps(self))
        other._stacks.now = self._stacks.now.copy()
        return other  # type: ignore[no-any-return]


if __name__ == "__main__":
    always = ("priorities", "stale", "resume")
    modes = {
        "default": mode(
            partial(Subject, optimize=False, n_step=False),
            (*always, "n_step"),
            "ReplayBuffer, handle_timeout_termination",
        ),
        "optimized": mode(
            partial(Subject, optimize=True, n_step=False),
            (*always, "n_step", "truncation"),
            "ReplayBuffer, optimize_memory_usage",
        ),
        "n_step": mode(
            partial(Subject, optimize=False, n_step=True),
            always,
            "NStepReplayBuffer, handle_timeout_termination",
        ),
    }
    main("sb3", "stable_baselines3", modes)
