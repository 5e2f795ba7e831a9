"""Reports of users about memory, each kept from coming back. Named after their ids."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from core.envs.base import Step
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.memory_watch import private_bytes
from core.metrics import Episodes
from core.options import SharedOptions
from core.sampling.uniform import Draw, all_starts
from core.types import ArraySpec, Batch, DiscreteActions, EnvSpec
from tests.core.envs.worlds import MODES, counters

ROOT = Path(__file__).resolve().parents[2]
U8 = np.dtype(np.uint8)


def pixel_memory(shape: tuple[int, ...], limit: int, **shared) -> SequentialMemory:
    env = EnvSpec({"obs": ArraySpec(shape, U8)}, DiscreteActions(3))
    context = MemoryContext(env, SharedOptions(**shared), np.random.default_rng(0))
    # as they are, so that a frame's bytes are known
    return SequentialMemory(SequentialOptions(memory_limit=limit, frame_codec="raw"), context)


def read_all(memory: SequentialMemory) -> Batch:
    lanes, rows = all_starts(memory.starts)
    return memory.reader.read(Draw(lanes, rows, np.ones(len(rows), np.float32)))


def store(memory: SequentialMemory, frames: np.ndarray, steps: int, *, length: int = 200) -> None:
    """Steps of one lane, whose frames are written from one array that changes all the time."""
    writer, no = memory.writer(), np.zeros(1, np.bool_)
    for step in range(steps):
        if step % length == 0:
            frames += 1
            writer.start({"obs": frames})
        frames += 1
        end = np.array([(step + 1) % length == 0])
        writer.append(np.zeros(1, int), np.zeros(1), end, no, {"obs": frames})


def in_a_fresh_process(function: str, *arguments: object) -> None:
    """Calls a function of this module where nothing else has taken memory."""
    call = f"from tests.reports.test_mem import {function} as f; f(*{arguments!r})"
    done = subprocess.run(
        [sys.executable, "-c", call],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def begun() -> int:
    """Bytes taken, once all is there that a memory loads when the first is made and read."""
    memory = pixel_memory((16, 16), 40, window_length=2)
    store(memory, np.zeros((1, 16, 16), U8), 30)
    memory.sample(4)
    return private_bytes()


def sampling_takes_nothing(steps: int) -> None:
    side = 96
    frame_bytes = side * side * 3 * steps
    before = begun()
    memory = pixel_memory((side, side, 3), steps + steps // 200 + 1, window_length=4)
    store(memory, np.zeros((1, side, side, 3), U8), steps)
    filled = private_bytes()
    assert filled - before <= 1.15 * frame_bytes + 10e6
    lanes, rows = all_starts(memory.starts)
    assert len(rows) == steps
    for at in range(0, steps, 32):
        part = slice(at, at + 32)
        weight = np.ones(len(rows[part]), np.float32)
        batch = memory.reader.read(Draw(lanes[part], rows[part], weight))
        assert batch["obs"].shape[1:] == (4, side, side, 3)
    del batch
    assert private_bytes() - filled < 0.05 * frame_bytes
    assert private_bytes() - before <= 1.15 * frame_bytes + 10e6


def test_mem_01_sampling_keeps_nothing() -> None:
    in_a_fresh_process("sampling_takes_nothing", 5_000)


def fills_twice_over(window: int, steps: int) -> None:
    before = begun()
    memory = pixel_memory((84, 84), steps, window_length=window)
    store(memory, np.zeros((1, 84, 84), U8), 2 * steps)
    a_step = sum(memory.usage().values()) / memory.rows
    assert a_step <= 1.15 * 7_056 + 64
    assert memory.bytes_full / memory.capacity == a_step
    system = (private_bytes() - before - 8e6) / steps
    assert system <= 1.15 * 7_056 + 64


@pytest.mark.parametrize("window", [1, 4])
def test_mem_04_a_step_costs_one_frame(window: int) -> None:
    in_a_fresh_process("fills_twice_over", window, 10_000)


def test_mem_04_the_same_for_any_stack() -> None:
    plans = [pixel_memory((84, 84), 10_000, window_length=window).bytes_full for window in (1, 4)]
    assert plans[0] == plans[1]


def infos_are_folded(steps: int) -> None:
    episodes, lanes = Episodes(4), np.ones(4, np.bool_)
    rng = np.random.default_rng(0)

    def live(count: int) -> None:
        for at in range(count):
            infos = {f"info{key}": rng.normal(size=4) for key in range(20)}
            end = np.full(4, at % 50 == 49)
            episodes.record(Step(lanes, rng.normal(size=4), end, ~lanes, {}, end, {}, None, infos))

    live(2_000)
    before = begun()
    live(steps)
    assert private_bytes() - before < 1e6 * steps / 10_000
    assert len(episodes.infos) == 20
    assert episodes.infos["info0"].count == 4 * (steps + 2_000)


def test_mem_13_infos_are_folded() -> None:
    in_a_fresh_process("infos_are_folded", 10_000)


def test_mem_14_callers_cannot_change_what_is_stored() -> None:
    memory = pixel_memory((16, 16), 100)
    writer, no = memory.writer(), np.zeros(1, np.bool_)
    frames, told = np.zeros((1, 16, 16), U8), []
    action, reward, ended = np.zeros(1, int), np.zeros(1), np.zeros(1, np.bool_)
    for episode in range(5):
        frames[...] = 40 * episode
        writer.start({"obs": frames})
        for step in range(7):
            frames[...] = 40 * episode + step + 1
            action[...], reward[...], ended[...] = step % 3, step, step == 6
            writer.append(action, reward, ended, no, {"obs": frames})
            told.append((40 * episode + step, step % 3, step, float(step != 6)))
    frames[...] = np.random.default_rng(0).integers(0, 256, frames.shape)
    action[...], reward[...], ended[...] = 2, -9, True
    batch = read_all(memory)
    assert len(told) == 35
    for at, (name, act, earned, goes_on) in enumerate(told):
        assert (batch["obs"][at] == name).all()
        assert (batch["next_obs"][at] == name + 1).all()
        assert (batch["action"][at], batch["reward"][at]) == (act, earned)
        assert (batch["discount"][at] > 0) == goes_on


def moments(obs: np.ndarray) -> np.ndarray:
    """Lane, episode and step of counter vectors `[B, W, 3]`, of the newest in each stack."""
    return obs[:, -1].astype(int)


def run_counter(limit: int, steps: int, *, length: int, ending: str, mode=MODES[0], **shared):
    """A memory that lived with one counter, after every step of which `look` may be called."""
    env = counters(length, mode=mode, ending=ending)
    context = MemoryContext(env.spec, SharedOptions(**shared), np.random.default_rng(0))
    memory = SequentialMemory(SequentialOptions(memory_limit=limit), context)
    writer = memory.writer()
    writer.start(env.reset([1]))
    for _ in range(steps):
        step = env.step(np.zeros(1, int))
        if step.stepped.all():
            writer.append(
                np.zeros(1, int), step.reward, step.terminated, step.truncated, step.next_obs
            )
        if step.started.all():
            writer.start(step.obs)
        yield memory
    env.close()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("limit", range(16, 24))
def test_mem_16_a_cut_off_step_leads_to_its_own_last_observation(limit: int, mode) -> None:
    cut_offs = 0
    # eight rows an episode: over these limits the cut-off falls on every slot, the last included
    for memory in run_counter(limit, 300, length=7, ending="truncate", mode=mode, window_length=2):
        if not len(memory):
            continue
        batch = read_all(memory)
        now, then = moments(batch["obs"]), moments(batch["next_obs"])
        assert (then[:, :2] == now[:, :2]).all()
        assert (then[:, 2] == now[:, 2] + 1).all()
        assert (batch["discount"] > 0).all()
        cut_offs += int((then[:, 2] == 7).sum())
    assert cut_offs > 300


def brute_force(episode: list[float], at: int, n: int, gamma: float) -> tuple[float, int]:
    total, m = 0.0, 0
    while m < n and at + m < len(episode):
        total += gamma**m * episode[at + m]
        m += 1
    return total, m


@pytest.mark.parametrize("ending", ["terminate", "truncate"])
@pytest.mark.parametrize("length", [0, 7])
def test_mem_18_n_step_windows_stay_whole(length: int, ending: str) -> None:
    seen = 0
    lived = run_counter(50, 173, length=length, ending=ending, n_step=3, gamma=0.9)
    for clock, memory in enumerate(lived, 1):
        batch = read_all(memory)
        now, then = moments(batch["obs"]), moments(batch["next_obs"])
        steps_of = {0: clock} if not length else {
            episode: min(length, clock - episode * length) for episode in set(now[:, 1].tolist())
        }  # fmt: skip
        for at, (_, episode, step) in enumerate(now.tolist()):
            rewards = [float(number + 1) for number in range(steps_of[episode])]
            total, m = brute_force(rewards, step, 3, 0.9)
            ended = ending == "terminate" and length and step + m == length
            assert then[at].tolist() == [0, episode, step + m]
            assert batch["reward"][at] == np.float32(total)
            assert batch["discount"][at] == np.float32(0.0 if ended else 0.9**m)
            seen += 1
    assert memory.full
    assert seen > 5_000
