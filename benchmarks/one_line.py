"""Stable-Baselines3's own DQN on Pong, with its own replay buffer and with ours.

    python -m benchmarks.one_line ram --slots 1000000 --fill 1000000 --steps 10000
    python -m benchmarks.one_line pace --slots 30000 --fill 5000 --steps 4000 --pairs 5
    python -m benchmarks.one_line plot FILE...

`ram` runs one of them, ours unless `--buffer theirs` is given; `pace` runs theirs and ours by turns
and prints the ratios of their paces.
Each run is a process of the venv of Stable-Baselines3 (`make .bench/venvs/sb3/ready`), which acts
at random until `--fill` steps are stored and then learns for `--steps` more. It prints a line of
JSON: `rate`, learning steps a second of processor time; `peak_bytes`, the most private memory of
the whole process; `memory`, pairs of steps and bytes, from which `plot` draws
docs/images/one-line-ram.png.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".bench" / "venvs" / "sb3" / "bin" / "python"
IMAGE = ROOT / "docs" / "images" / "one-line-ram.png"
READINGS = 200


def learn(given: argparse.Namespace) -> dict[str, Any]:
    """One run, in the venv of Stable-Baselines3."""
    import ale_py
    import gymnasium as gym
    import torch
    from stable_baselines3 import DQN
    from stable_baselines3.common.buffers import ReplayBuffer
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    from core.memory_watch import MemoryWatch

    torch.set_num_threads(1)
    gym.register_envs(ale_py)
    total, watch = given.fill + given.steps, MemoryWatch()
    readings: list[tuple[int, int]] = []
    begun: list[tuple[int, float, float]] = []

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            step = self.num_timesteps
            if step % max(1, total // READINGS) == 0:
                readings.append((step, watch.read()))
            if step >= given.fill + given.warm and not begun:
                begun.append((step, time.process_time(), time.perf_counter()))
            return True

    ours = given.buffer == "ours"
    if ours:
        from core.adapters.sb3 import EngramReplayBuffer

        keys = {"window_length": 4, "frame_codec": given.codec}
        buffer = {"replay_buffer_class": EngramReplayBuffer, "replay_buffer_kwargs": keys}
    else:
        buffer = {"replay_buffer_class": ReplayBuffer}
    env = VecFrameStack(make_atari_env("PongNoFrameskip-v4", n_envs=1, seed=given.seed), 4)
    model = DQN(
        "CnnPolicy", env, learning_rate=1e-4, buffer_size=given.slots, batch_size=32,
        learning_starts=given.fill, train_freq=4, target_update_interval=1_000, seed=given.seed,
        device="cpu", **buffer,
    )  # fmt: skip
    model.learn(total, callback=Watch())
    step, cpu, wall = begun[0]
    steps = model.num_timesteps - step
    return {
        "buffer": given.buffer,
        "slots": given.slots,
        "fill": given.fill,
        "steps": steps,
        "held": model.replay_buffer.size(),
        "rate": steps / (time.process_time() - cpu),
        "wall_rate": steps / (time.perf_counter() - wall),
        "peak_bytes": max(watch.peak, watch.read()),
        "memory": readings,
    }


def run(given: argparse.Namespace, buffer: str) -> dict[str, Any]:
    """One run in a process of its own."""
    if not PYTHON.exists():
        raise SystemExit("needs the venv of Stable-Baselines3: make .bench/venvs/sb3/ready")
    keys = ("slots", "fill", "steps", "warm", "seed", "codec")
    flags = [part for key in keys for part in (f"--{key}", str(getattr(given, key)))]
    done = subprocess.run(
        [PYTHON, "-m", "benchmarks.one_line", "learn", "--buffer", buffer, *flags],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(result), flush=True)
    return result


def pace(given: argparse.Namespace) -> None:
    """Theirs and ours by turns; each pair in the other order than the one before."""
    ratios = []
    for pair in range(given.pairs):
        order = ("theirs", "ours") if pair % 2 == 0 else ("ours", "theirs")
        rates = {buffer: run(given, buffer)["rate"] for buffer in order}
        ratios.append(rates["ours"] / rates["theirs"])
    print(json.dumps({"ratios": ratios, "median": statistics.median(ratios)}))


def plot(files: list[str]) -> None:
    """Private memory by steps, of every run in files of such lines."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name in files:
        for line in Path(name).read_text().splitlines():
            found = json.loads(line)
            if "memory" in found:
                steps, taken = zip(*found["memory"], strict=True)
                label = f"{found['buffer']}, {found['slots']:,} slots"
                axes.plot(steps, [count / 1e9 for count in taken], label=label)
    axes.set(xlabel="env steps", ylabel="private memory of the process, GB", ylim=(0, None))
    axes.legend()
    IMAGE.parent.mkdir(exist_ok=True)
    figure.savefig(IMAGE, dpi=110)


def main() -> int:
    """Measures, or draws what was measured."""
    parser = argparse.ArgumentParser(description="Stable-Baselines3's DQN on either buffer")
    parser.add_argument("what", choices=["ram", "pace", "plot", "learn"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--slots", type=int, default=30_000, help="size of the buffer")
    parser.add_argument("--fill", type=int, default=5_000, help="random steps before learning")
    parser.add_argument("--steps", type=int, default=4_000, help="steps of learning")
    parser.add_argument("--warm", type=int, default=400, help="of those, not measured")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--codec", choices=["raw", "lz4", "zstd"], default="lz4")
    parser.add_argument("--buffer", choices=["ours", "theirs"], default="ours")
    given = parser.parse_args()
    if given.what == "learn":
        print(json.dumps(learn(given)))
    elif given.what == "ram":
        run(given, given.buffer)
    elif given.what == "pace":
        pace(given)
    else:
        plot(given.files)
    return 0


if __name__ == "__main__":
    sys.exit(main())
