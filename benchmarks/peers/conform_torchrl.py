"""TorchRL: ReplayBuffer over its dense storage, alone and with MultiStepTransform."""

import tempfile
from functools import partial
from typing import Any

import numpy as np
import torch
from conform import main, mode
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.envs.transforms import MultiStepTransform

from core.conformance.subject import Batch, Stacks
from core.conformance.world import Array, Setting, Tick


class Subject:
    """Steps as its environments write them, whole stacks on either side, pixels kept as bytes."""

    def __init__(self, setting: Setting, sums: bool) -> None:
        torch.manual_seed(setting.seed)
        self._setting, self._sums = setting, sums and setting.n_step > 1
        self._memory = self._build()
        self._stacks = Stacks(setting)

    def _build(self) -> Any:
        setting, keys = self._setting, {}
        if self._sums:
            keys["transform"] = MultiStepTransform(setting.n_step, setting.gamma)
        generator = torch.Generator().manual_seed(setting.seed)
        storage = LazyTensorStorage(setting.capacity)
        return ReplayBuffer(storage=storage, generator=generator, batch_size=32, **keys)

    def begin(self, obs: Array) -> None:
        """See `Subject.begin`."""
        self._stacks.begin(obs)

    def step(self, tick: Tick) -> None:
        """See `Subject.step`."""
        before, after = self._stacks.step(tick)
        flags = {
            "done": tick.over,
            "terminated": tick.terminated,
            "truncated": tick.truncated,
        }
        then = {"pixels": torch.tensor(after), "reward": torch.tensor(tick.reward[:, None]).float()}
        then |= {name: torch.tensor(flag[:, None]) for name, flag in flags.items()}
        start = {"pixels": torch.tensor(before), "action": torch.tensor(tick.action)}
        start |= {name: torch.zeros(len(before), 1, dtype=torch.bool) for name in flags}
        self._memory.extend(TensorDict({**start, "next": then}, batch_size=[len(before)]))

    def sample(self, count: int) -> Batch:
        """See `Subject.sample`: its losses take gamma to the steps_to_next_obs that it says."""
        drawn = self._memory.sample(count)
        terminated = drawn["next", "terminated"][:, 0].numpy()
        steps = drawn["steps_to_next_obs"].reshape(-1).numpy() if self._sums else 1
        return {
            "obs": drawn["pixels"].numpy(),
            "next_obs": drawn["next", "pixels"].numpy(),
            "action": drawn["action"].numpy(),
            "reward": drawn["next", "reward"][:, 0].numpy(),
            "discount": np.float32(self._setting.gamma**steps) * ~terminated,
        }

    def resumed(self) -> "Subject":
        """See `Subject`: by dumps and loads."""
        other = Subject(self._setting, self._sums)
        with tempfile.TemporaryDirectory() as folder:
            self._memory.dumps(folder)
            other._memory.loads(folder)
        other._stacks.now = self._stacks.now.copy()
        return other


if __name__ == "__main__":
    modes = {
        "dense": mode(
            partial(Subject, sums=False),
            ("n_step", "priorities", "stale"),
            "ReplayBuffer, LazyTensorStorage",
        ),
        "n_step": mode(
            partial(Subject, sums=True),
            ("priorities", "stale", "lanes", "save", "resume"),
            "ReplayBuffer, LazyTensorStorage, MultiStepTransform",
        ),
    }
    main("torchrl", "torchrl", modes)
