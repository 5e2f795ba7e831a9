"""cpprb: ReplayBuffer as it is, in its two memory-saving ways, with n steps, and by priority."""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from conform import main, mode
from cpprb import PrioritizedReplayBuffer, ReplayBuffer

from core.conformance.subject import Batch, Stacks
from core.conformance.world import Array, Setting, Tick


class Subject:
    """Told of every episode's end, broken-off ones included, as its documents ask."""

    def __init__(self, setting: Setting, way: str) -> None:
        self._build = partial(self._memory_of, setting, way)
        self._memory, self._way = self._build(), way
        self._stacks, self._setting = Stacks(setting), setting
        self._begun = False

    @staticmethod
    def _memory_of(setting: Setting, way: str) -> Any:
        frame = {"shape": (setting.side, setting.side, setting.window), "dtype": np.uint8}
        parts: dict[str, Any] = {
            "obs": frame,
            "act": {"dtype": np.int64},
            "rew": {},
            "done": {},
        }
        if way in ("next_of", "stack_compress"):
            keys = {"next_of": "obs"}
            if way == "stack_compress":
                keys["stack_compress"] = "obs"
            return ReplayBuffer(setting.capacity, parts, **keys)
        parts["next_obs"] = frame
        if way == "prioritized":
            return PrioritizedReplayBuffer(setting.capacity, parts)
        if way == "n_step" and setting.n_step > 1:
            sums = {"size": setting.n_step, "gamma": setting.gamma}
            named = {"rew": "rew", "next": "next_obs"}
            return ReplayBuffer(setting.capacity, parts, Nstep={**sums, **named})
        return ReplayBuffer(setting.capacity, parts)

    def begin(self, obs: Array) -> None:
        """See `Subject.begin`."""
        if self._begun:
            self._memory.on_episode_end()
        self._begun = True
        self._stacks.begin(obs)

    def step(self, tick: Tick) -> None:
        """See `Subject.step`."""
        before, after = self._stacks.step(tick)
        for lane in range(self._setting.lanes):
            self._memory.add(
                obs=np.moveaxis(before[lane], 0, -1),
                act=tick.action[lane],
                rew=tick.reward[lane],
                done=tick.terminated[lane],
                next_obs=np.moveaxis(after[lane], 0, -1),
            )
            if tick.over[lane]:
                self._memory.on_episode_end()

    def sample(self, count: int) -> Batch:
        """See `Subject.sample`: it says no number of steps, so that gamma^n is all there is."""
        drawn = self._memory.sample(count)
        gamma = np.float32(self._setting.gamma**self._setting.n_step)
        batch = {
            "obs": np.moveaxis(drawn["obs"], -1, 1),
            "next_obs": np.moveaxis(drawn["next_obs"], -1, 1),
            "action": drawn["act"][:, 0],
            "reward": drawn["rew"][:, 0],
            "discount": gamma * (1 - drawn["done"][:, 0]),
        }
        return {**batch, "id": drawn["indexes"]} if "indexes" in drawn else batch

    def resumed(self) -> "Subject":
        """See `Subject`: by save_transitions and load_transitions."""
        other = Subject(self._setting, self._way)
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "saved.npz")
            self._memory.save_transitions(path, safe=True)
            other._memory.load_transitions(path)
        other._begun, other._stacks.now = True, self._stacks.now.copy()
        return other

    def feedback(self, ids: Array, priorities: Array) -> None:
        """See `Subject`."""
        self._memory.update_priorities(ids, priorities)


if __name__ == "__main__":
    always = ("seed", "resume", "stale")
    single = (*always, "priorities", "lanes", "n_step")
    modes = {
        "default": mode(
            partial(Subject, way="default"), (*always, "priorities", "n_step"), "ReplayBuffer"
        ),
        "next_of": mode(partial(Subject, way="next_of"), single, 'ReplayBuffer, next_of="obs"'),
        "stack_compress": mode(
            partial(Subject, way="stack_compress"),
            single,
            'ReplayBuffer, next_of="obs", stack_compress="obs"',
        ),
        "n_step": mode(
            partial(Subject, way="n_step"),
            (*always, "priorities", "lanes", "save"),
            "ReplayBuffer, Nstep",
        ),
        "prioritized": mode(
            partial(Subject, way="prioritized"),
            (*always, "uniform", "n_step", "save"),
            "PrioritizedReplayBuffer",
        ),
    }
    main("cpprb", "cpprb", modes)
