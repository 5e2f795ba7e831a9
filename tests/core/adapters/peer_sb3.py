"""Run in Stable-Baselines3's venv: its DQN with its own buffer and with ours, losses to the bit.

python peer_sb3.py losses COUNT | python peer_sb3.py save | python peer_sb3.py dict
"""

import io
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize
from stable_baselines3.dqn import dqn

from core.adapters.sb3 import EngramReplayBuffer

LANES, SLOTS = 2, 300


class Ball(gym.Env):
    """A square that is steered up and down; episodes of 1 to 11 steps, each third truncated."""

    observation_space = gym.spaces.Box(0, 255, (36, 36, 1), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._time, self._length = 0, int(self._rng.integers(1, 12))
        self._place = int(self._rng.integers(0, 30))
        return self._picture(), {}

    def _picture(self) -> np.ndarray:
        picture = np.zeros((36, 36, 1), np.uint8)
        picture[self._place : self._place + 4, self._time : self._time + 4] = 200
        picture[0, 0] = self._rng.integers(256)
        return picture

    def step(self, action: Any) -> Any:
        self._time += 1
        self._place = int(np.clip(self._place + action - 1, 0, 30))
        over, cut = self._time >= self._length, self._length % 3 == 0
        reward = float(action) - 0.37 * self._place
        return self._picture(), reward, over and not cut, over and cut, {}


class Fed(EngramReplayBuffer):
    """Ours, drawn from by the very indices that their own buffer would draw."""

    def __init__(self, *args: Any, **keys: Any) -> None:
        super().__init__(*args, **keys)
        self._rows: list[np.ndarray] = []

    def add(self, *args: Any) -> None:
        super().add(*args)
        self._rows.append(self.stream.memory.ring.heads - 2)

    def sample(self, batch_size: int, env: Any = None) -> Any:
        slots, total = SLOTS // LANES, len(self._rows)
        at = np.random.randint(0, min(total, slots), size=batch_size)
        lanes = np.random.randint(0, high=self.n_envs, size=(batch_size,))
        step = at + (total - 1 - at) // slots * slots  # the newest step in that slot of theirs
        rows = np.array([self._rows[s][lane] for s, lane in zip(step, lanes, strict=True)])
        return self.as_samples(self.stream.read(lanes, rows), env)


def losses(kind: type, keys: dict[str, Any], count: int) -> list[float]:
    """The first losses of a DQN on two lanes of stacked pictures."""
    found: list[float] = []
    real = dqn.F.smooth_l1_loss

    def noted(*args: Any, **more: Any) -> torch.Tensor:
        loss = real(*args, **more)
        found.append(loss.item())
        return loss

    env = VecFrameStack(DummyVecEnv([lambda i=i: Ball(i) for i in range(LANES)]), 4)
    model = DQN(
        "CnnPolicy", env, buffer_size=SLOTS, learning_starts=20, batch_size=4, train_freq=1, seed=3,
        gradient_steps=2, replay_buffer_class=kind, replay_buffer_kwargs=keys, device="cpu",
        policy_kwargs={"net_arch": [8], "features_extractor_kwargs": {"features_dim": 16}},
    )  # fmt: skip
    dqn.F.smooth_l1_loss = noted
    try:
        model.learn(20 + count)
    finally:
        dqn.F.smooth_l1_loss = real
    return found[:count]


def check_losses(count: int) -> None:
    theirs = losses(ReplayBuffer, {}, count)
    ours = losses(Fed, {"window_length": 4, "memory_limit": 2 * SLOTS, "seed": 0}, count)
    assert len(theirs) == len(ours) == count, (len(theirs), len(ours))
    assert theirs == ours, int(np.flatnonzero(np.array(theirs) != ours)[0])
    assert len(set(theirs)) > count // 2


def check_save() -> None:
    """A saved buffer is the same one; learning goes on with it, and with observations scaled."""
    env = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]))
    model = SAC(
        "MlpPolicy", env, buffer_size=500, learning_starts=20, batch_size=8, seed=1,
        replay_buffer_class=EngramReplayBuffer, policy_kwargs={"net_arch": [8]}, device="cpu",
    )  # fmt: skip
    model.learn(60)
    file = io.BytesIO()
    model.save_replay_buffer(file)
    before = model.replay_buffer.sample(16)
    file.seek(0)
    model = SAC("MlpPolicy", env, seed=1, policy_kwargs={"net_arch": [8]}, device="cpu")
    model.load_replay_buffer(file)
    assert model.replay_buffer.size() == 60
    again = model.replay_buffer.sample(16, env=None)
    assert all(torch.equal(one, other) for one, other in zip(before[:5], again[:5], strict=True))
    scaled = model.replay_buffer.sample(16, env=env)
    assert not torch.equal(scaled.observations, again.observations)
    model.learn(120, reset_num_timesteps=False)
    assert model.replay_buffer.size() > 150
    model.replay_buffer.stream.memory.check()


def check_dict() -> None:
    """Observations of two parts, and both ways of counting a time-out."""
    space = gym.spaces.Dict(
        {"a": gym.spaces.Box(0, 255, (20, 20), np.uint8), "n": gym.spaces.Discrete(9)}
    )
    rng = np.random.default_rng(0)
    for handled in (True, False):
        pair = [
            kind(100, space, gym.spaces.Discrete(4), handle_timeout_termination=handled, **keys)
            for kind, keys in ((DictReplayBuffer, {}), (EngramReplayBuffer, {"memory_limit": 200}))
        ]
        obs = {"a": rng.integers(0, 256, (1, 20, 20)).astype(np.uint8), "n": np.array([0])}
        for step in range(60):
            after = {
                "a": rng.integers(0, 256, (1, 20, 20)).astype(np.uint8),
                "n": np.array([step % 9]),
            }
            done, late = step % 5 == 4, step % 10 == 9
            told = np.array([step % 4]), np.array([step + 0.5]), np.array([done])
            for buffer in pair:
                buffer.add(obs, after, *told, [{"TimeLimit.truncated": late}])
            obs = after
        theirs = pair[0]._get_samples(np.arange(60))
        ours = pair[1].as_samples(pair[1].stream.read(*every(pair[1])))
        for name in ("actions", "rewards", "dones"):
            assert torch.equal(getattr(theirs, name), getattr(ours, name)), name
        for name in ("observations", "next_observations"):
            for part in ("a", "n"):
                assert torch.equal(getattr(theirs, name)[part], getattr(ours, name)[part]), (
                    name,
                    part,
                )


def every(buffer: Any) -> tuple[np.ndarray, np.ndarray]:
    starts = buffer.stream.memory.starts
    lows, counts = starts.spans()
    rows = np.arange(lows[0], lows[0] + counts[0])
    legal = starts.legal(np.zeros_like(rows), rows)
    return np.zeros_like(rows)[legal], rows[legal]


if __name__ == "__main__":
    torch.set_num_threads(1)
    check_losses(int(sys.argv[1]))
    check_save()
    check_dict()
    print("ok")
