"""Tianshou: VectorReplayBuffer as it is, as its Atari examples have it, and by priority."""

import pickle
from functools import partial
from typing import Any

import numpy as np
from conform import main, mode
from tianshou.data import Batch as Told
from tianshou.data import PrioritizedVectorReplayBuffer, VectorReplayBuffer

from core.conformance.subject import Batch, NotOffered, Stacks
from core.conformance.world import Array, Setting, Tick


class Subject:
    """Without stacks of its own it is given whole ones; with them, single frames are kept."""

    def __init__(self, setting: Setting, last_frame: bool, prioritized: bool) -> None:
        options: dict[str, Any] = {"random_seed": setting.seed}
        if setting.n_step > 1:
            raise NotOffered("sums of several rewards, which its algorithms make")
        if last_frame:
            options |= {"stack_num": setting.window, "ignore_obs_next": True}
            options |= {"save_only_last_obs": setting.window > 1}
        kind = VectorReplayBuffer
        if prioritized:
            kind, options = PrioritizedVectorReplayBuffer, {"alpha": 0.6, "beta": 0.4, **options}
        self._memory = kind(setting.capacity, setting.lanes, **options)
        self._own, self._prioritized = last_frame, prioritized
        self._single = setting.window == 1
        self._stacks, self._gamma = Stacks(setting), setting.gamma
        self._lanes = np.arange(setting.lanes)

    def begin(self, obs: Array) -> None:
        """See `Subject.begin`: a collector that is reset tells the buffer nothing."""
        self._stacks.begin(obs)

    def step(self, tick: Tick) -> None:
        """See `Subject.step`."""
        before, after = self._stacks.step(tick)
        if self._single:
            before, after = before[:, 0], after[:, 0]
        told = Told(
            obs=before,
            act=tick.action,
            rew=tick.reward,
            terminated=tick.terminated,
            truncated=tick.truncated,
            obs_next=after,
            info=Told(),
        )
        self._memory.add(told, buffer_ids=self._lanes)

    def sample(self, count: int) -> Batch:
        """See `Subject.sample`."""
        drawn, index = self._memory.sample(count)
        obs, next_obs = np.asarray(drawn.obs), np.asarray(drawn.obs_next)
        if self._single:
            obs, next_obs = obs[:, None], next_obs[:, None]
        return {
            "obs": obs,
            "next_obs": next_obs,
            "action": drawn.act,
            "reward": drawn.rew.astype(np.float32),
            "discount": np.float32(self._gamma) * ~drawn.terminated,
            "id": index,
        }

    def resumed(self) -> "Subject":
        """See `Subject`: its documents pickle a buffer."""
        return pickle.loads(pickle.dumps(self))  # type: ignore[no-any-return]

    def feedback(self, ids: Array, priorities: Array) -> None:
        """See `Subject`."""
        self._memory.update_weight(ids, priorities)


if __name__ == "__main__":
    always = ("n_step", "stale")
    modes = {
        "default": mode(
            partial(Subject, last_frame=False, prioritized=False),
            (*always, "priorities"),
            "VectorReplayBuffer",
        ),
        "last_frame": mode(
            partial(Subject, last_frame=True, prioritized=False),
            (*always, "priorities"),
            "stack_num, ignore_obs_next, save_only_last_obs (its Atari examples)",
        ),
        "prioritized": mode(
            partial(Subject, last_frame=False, prioritized=True),
            (*always, "uniform"),
            "PrioritizedVectorReplayBuffer",
        ),
    }
    main("tianshou", "tianshou", modes)
