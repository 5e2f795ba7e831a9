"""Run in TorchRL's venv: steps of two lanes into the memory, and every sample against them."""

import numpy as np
import torch
from tensordict import TensorDict

from core.adapters.torchrl import EngramReplayBuffer

LANES, TIME, ACTIONS = 2, 30, 3


def data(rng: np.random.Generator) -> TensorDict:
    obs = rng.integers(0, 256, (LANES, TIME + 1, 3, 9, 9)).astype(np.uint8)
    over = rng.random((LANES, TIME, 1)) < 0.2
    cut = over & (rng.random(over.shape) < 0.5)
    after = obs[:, 1:].copy()
    now = obs[:, :-1].copy()
    now[:, 1:][over[:, :-1, 0]] ^= 255  # a reset observation, another one than the last
    action = np.eye(ACTIONS, dtype=np.int64)[rng.integers(0, ACTIONS, (LANES, TIME))]
    reward = rng.normal(size=(LANES, TIME, 1)).astype(np.float32)
    following = {
        "pixels": after,
        "reward": reward,
        "done": over,
        "terminated": over & ~cut,
        "truncated": cut,
    }
    parts = {"pixels": now, "action": action, "next": following}
    return TensorDict(parts, batch_size=[LANES, TIME])


def main() -> None:
    told = data(np.random.default_rng(0))
    memory = EngramReplayBuffer(
        200, observation="pixels", actions=ACTIONS, lanes=LANES, batch_size=64, seed=0
    )
    memory.extend(told[:, :11])
    memory.extend(told[:, 11:])
    assert len(memory) == LANES * TIME
    by_pixels = {
        told[i, t]["pixels"].numpy().tobytes(): told[i, t]
        for i in range(LANES)
        for t in range(TIME)
    }
    assert len(by_pixels) == LANES * TIME
    seen = set()
    for _ in range(20):
        batch = memory.sample()
        assert batch.shape == (64,)
        for unit in batch:
            key = unit["pixels"].numpy().tobytes()
            seen.add(key)
            want = by_pixels[key]
            assert torch.equal(unit["action"], want["action"])
            for name in ("pixels", "reward", "terminated"):
                assert torch.equal(unit["next", name], want["next", name]), name
            assert torch.equal(unit["next", "done"], want["next", "terminated"])
    assert len(seen) == LANES * TIME
    print("ok")


if __name__ == "__main__":
    main()
