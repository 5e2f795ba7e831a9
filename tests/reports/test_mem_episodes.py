"""Reports of users about memory and episodes, each kept from coming back. Named after their ids."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from core.envs.options import ToyOptions
from core.envs.toy import Counter, decode
from core.memories.episodic import EpisodicMemory
from core.memories.sequential import SequentialMemory
from core.memory import Memory, MemoryContext
from core.memory_watch import private_bytes
from core.options import SharedOptions
from core.sampling.uniform import Draw, all_starts
from core.types import ArraySpec, DiscreteActions, EnvSpec

ROOT = Path(__file__).resolve().parents[2]
SIDE = 36
ENV = EnvSpec({"obs": ArraySpec((SIDE, SIDE), np.dtype(np.uint8))}, DiscreteActions(3))
KINDS = {"sequential": SequentialMemory, "episodic": EpisodicMemory}


def make(kind: str, limit: int, **shared) -> Memory:
    cls = KINDS[kind]
    context = MemoryContext(ENV, SharedOptions(**shared), np.random.default_rng(0))
    return cls(cls.Options(memory_limit=limit, frame_codec="raw"), context)


def live(memory: Memory, steps: int, length_at, ending: str = "terminate"):
    """A pixel counter, whose episodes take as long as `length_at` says, step by step."""
    env = Counter(ToyOptions(game="counter", observation="pixels", size=SIDE), 0)
    writer, no, zero = memory.writer(), np.zeros(1, np.bool_), np.zeros(1, np.int64)
    left = 0
    for step in range(steps):
        if left == 0:
            left = length_at(step)
            writer.start({"obs": env.reset()[0][None]})
        obs, reward, _, _, _ = env.step(0)
        left -= 1
        over = np.array([left == 0])
        ends = (over, no) if ending == "terminate" else (no, over)
        writer.append(zero, np.array([reward]), *ends, {"obs": obs[None]})
        yield step


def longer_and_longer(kind: str) -> None:
    """Episodes of 10 to 500 steps: what is held is counted in rows, and takes what it took."""
    capacity, steps = 5_000, 20_000
    memory = make(kind, capacity, window_length=4)
    rows, taken = [], []
    for step in live(memory, steps, lambda at: 10 + 490 * at // steps):
        rows.append(memory.rows)
        if step % 1_000 == 999 and step >= 6_000:
            memory.sample(32)
            taken.append(private_bytes())
    filled = rows[6_000:]
    if kind == "sequential":
        assert set(filled) == {capacity}
    else:
        # whole episodes go: no more than one episode's rows are free
        assert max(filled) <= capacity
        assert min(filled) >= capacity - 501
    assert memory.usage() == {"heap": memory.bytes_full}
    slope = np.polyfit(np.arange(len(taken)), taken, 1)[0]
    assert slope * 5 < 1e6, f"{slope * 5 / 1e6:.2f} MB in 5000 steps"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_mem_05_longer_episodes_take_no_more_memory(kind: str) -> None:
    call = f"from tests.reports.test_mem_episodes import longer_and_longer as f; f({kind!r})"
    done = subprocess.run(
        [sys.executable, "-c", call],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def every_stack(memory: Memory) -> np.ndarray:
    """All stacks that the memory can give, successors and padding included, `[n, W, H, W]`."""
    lanes, rows = all_starts(memory.starts)
    batch = memory.reader.read(Draw(lanes, rows, np.ones(len(rows), np.float32)))
    stacks = [batch[name].reshape(-1, *batch[name].shape[-3:]) for name in ("obs", "next_obs")
              if name in batch]  # fmt: skip
    return np.concatenate(stacks)


@pytest.mark.parametrize("limit", [24, 25, 26, 27])
@pytest.mark.parametrize("ending", ["truncate", "terminate"])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_mem_17_a_stack_shows_one_episode(kind: str, ending: str, limit: int) -> None:
    # four rows an episode: over these limits a cut-off falls on every slot of the ring
    memory = make(kind, limit, window_length=4, trajectory_length=2)
    shown = set()
    for step in live(memory, 120, lambda at: 3, ending):
        if step % 5 and step < 110:
            continue
        for stack in every_stack(memory):
            frames = [decode(frame) for frame in stack]
            assert len({frame.episode for frame in frames}) == 1
            steps = [frame.step for frame in frames]
            # consecutive, up to the newest; before the first there is the first again
            assert steps == [max(0, steps[-1] - back) for back in (3, 2, 1, 0)]
            shown.add(steps[-1])
    assert memory.full
    assert shown == {0, 1, 2, 3}
