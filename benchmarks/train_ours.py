"""Rows of ours as they are trained, and plain loops beside them: what `train_speed` runs.

python -m benchmarks.train_ours '{"who": "ours", "row": "dqn_cartpole", ...}'
"""

import gc
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from benchmarks.basics import Silence
from benchmarks.peers.pace import EnoughError, Pace, Race, report, settings, watch
from core.envs.base import Env, Step
from core.metrics import Episodes
from core.run_folder import RunFolder
from core.runtime.serial import run
from core.types import Array
from utils.assemble import build
from utils.settings import find_row, resolve


class Watched:
    """An environment that tells a race of each episode's end."""

    def __init__(self, env: Env, race: Race) -> None:
        self._env, self._race = env, race
        self._episodes = Episodes(env.lanes)

    def step(self, actions: Array) -> Step:
        """See `Env.step`."""
        step = self._env.step(actions)
        for _ in self._episodes.record(step):
            self._race.ended(self._episodes.returns[-1])
        return step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)


def train_row(given: dict[str, Any], pace: Pace | Race) -> None:
    """A row, evaluation and board off, with a run's folder, log and curve as ever."""
    row = given["row"]
    flags = {key: flag(value) for key, value in given["flags"].items()}
    off = {"eval_freq": "0", "visdom": "off", "checkpoint_freq": "0"}
    steps = {"steps": str(given["end"] + 10_000), "seed": str(given["seed"])}
    chosen = resolve(row, find_row(row), steps | off | flags)
    parts = build(chosen)
    if isinstance(pace, Race):
        parts = replace(parts, env=cast(Env, Watched(parts.env, pace)))

    def between_steps() -> bool:
        pace.at(parts.clock.step, parts.agent.updates)
        return False

    with tempfile.TemporaryDirectory() as runs, suppress(EnoughError):
        folder = RunFolder.create(Path(runs), row, given["seed"])
        run(row, parts, chosen.run, folder, Silence(), between_steps)


def flag(value: Any) -> str:
    """A value as it would stand on the command line."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def train_plain_dqn(given: dict[str, Any], pace: Pace) -> None:  # noqa: PLR0915  plain on purpose
    """DQN as one would write it in an afternoon, with torch's own and nothing around it."""
    import gymnasium as gym
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    torch.set_num_threads(1)
    torch.manual_seed(given["seed"])
    rng = np.random.default_rng(given["seed"])
    flags = given["flags"]
    env = gym.make("CartPole-v1")
    first, second = flags["hidden_sizes"]

    def network() -> nn.Sequential:
        return nn.Sequential(
            nn.Linear(4, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU(),
            nn.Linear(second, 2),
        )  # fmt: skip

    online, target = network(), network()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    size, batch = 100_000, flags["batch_size"]
    states, followers = np.zeros((2, size, 4), np.float32)
    actions, rewards, dones = np.zeros(size, np.int64), *np.zeros((2, size), np.float32)
    obs, _ = env.reset(seed=given["seed"])
    updates = 0
    for step in range(given["end"] + 1):
        pace.at(step, updates)
        if rng.random() < max(0.04, 1 - 0.96 * step / flags["eps_decay"]):
            action = int(rng.integers(2))
        else:
            with torch.no_grad():
                action = int(online(torch.from_numpy(obs)[None]).argmax())
        following, reward, terminated, truncated, _ = env.step(action)
        states[step], followers[step], actions[step] = obs, following, action
        rewards[step], dones[step] = reward, terminated
        obs = env.reset()[0] if terminated or truncated else following
        if step < flags["learn_start"] or step % flags["train_interval"]:
            continue
        for _ in range(flags["updates"]):
            rows = rng.integers(0, step + 1, batch)
            with torch.no_grad():
                best = target(torch.from_numpy(followers[rows])).max(1).values
                wanted = torch.from_numpy(rewards[rows]) + 0.99 * best * (
                    1 - torch.from_numpy(dones[rows])
                )
            taken = torch.from_numpy(actions[rows])[:, None]
            values = online(torch.from_numpy(states[rows])).gather(1, taken)[:, 0]
            loss = F.smooth_l1_loss(values, wanted)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(online.parameters(), 10.0)
            optimizer.step()
            updates += 1
        if step % flags["target_model_update"] == 0:
            target.load_state_dict(online.state_dict())


def train_plain_es(given: dict[str, Any], pace: Pace) -> None:
    """OpenAI-ES in numpy, one environment and one candidate after the other."""
    import gymnasium as gym

    flags = given["flags"]
    env = gym.make("CartPole-v1")
    rng = np.random.default_rng(given["seed"])
    size, hidden, step, generation = flags["population"], flags["hidden_sizes"][0], 0, 0
    count = 4 * hidden + hidden + 2 * hidden + 2
    mean, momentum, square = np.zeros((3, count))
    while True:
        half = rng.standard_normal((size // 2, count)).astype(np.float32)
        noise, returns = np.concatenate([half, -half]), np.zeros(size)
        for index in range(size):
            own = (mean + flags["sigma"] * noise[index]).astype(np.float32)
            inner, outer = own[: 4 * hidden].reshape(4, hidden), own[5 * hidden : -2]
            outer = outer.reshape(hidden, 2)
            obs, over = env.reset(seed=int(rng.integers(2**31)))[0], False
            while not over:
                values = np.tanh(obs @ inner + own[4 * hidden : 5 * hidden]) @ outer + own[-2:]
                obs, reward, terminated, truncated, _ = env.step(int(values.argmax()))
                returns[index] += reward
                over = terminated or truncated
                step += 1
                pace.at(step, generation)
        ranks = returns.argsort().argsort() / (size - 1) - 0.5
        gradient, generation = ranks @ noise / size, generation + 1
        momentum += 0.1 * (gradient - momentum)
        square += 0.001 * (gradient**2 - square)
        root = np.sqrt(square / (1 - 0.999**generation)) + 1e-8
        mean = mean + flags["lr"] * momentum / (1 - 0.9**generation) / root


def main() -> None:
    """Trains for as long as is measured, and prints its line."""
    given = settings()
    pace = watch(given)
    gc.collect()
    if given["who"] == "ours":
        train_row(given, pace)
    else:
        with suppress(EnoughError):
            (train_plain_es if "population" in given["flags"] else train_plain_dqn)(given, pace)
    report(given["who"], "", torch.get_num_threads(), pace)


if __name__ == "__main__":
    main()
