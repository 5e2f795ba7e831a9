"""Reports MEM-06, MEM-07 and PLT-10: what a run takes, holds and leaves."""

import gc
import types
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numba.core.dispatcher import Dispatcher

import main
from core.rollout import Rollout
from core.run_folder import RunFolder
from core.train import train
from tests.harness import Run, cli, flags, only_folder, rows_of
from utils.factory import AGENTS
from utils.options import CONFIGS, DEFAULT


def slope(rows: list[dict[str, str]], after: int) -> float:
    """Private bytes a step, by least squares over the rows after a step."""
    points = [
        (int(row["step"]), int(row["private_bytes"])) for row in rows if int(row["step"]) > after
    ]
    assert len(points) >= 20
    return float(np.polyfit(*zip(*points, strict=True), 1)[0])


def private_bytes(runs: Path, **keys: Any) -> list[dict[str, str]]:
    """The rows of a DQN run in a process of its own, with a memory that is full early."""
    small = {"memory_limit": 2_500, "log_freq": 250, "visdom": "off", "runs": runs}
    done = cli("dqn_cartpole", *flags(**{**small, **keys}), timeout=600)
    assert done.returncode == 0, done.stderr
    rows = rows_of(only_folder(runs) / "progress.csv")
    full = [row for row in rows if int(row["step"]) > 2_500]
    assert len({row["memory_bytes"] for row in full}) == 1, "the memory is full, and stays so"
    return rows


def test_mem_06_memory_is_flat_once_the_replay_is_full(tmp_path: Path):
    # pass: slope after step 5,000 <= 0.5 MB per 10,000 steps
    # Long enough that a step of the allocator, some 300 KB once at an evaluation or a
    # checkpoint, does not pass for a slope; every kind of work has been done once before 5,000.
    rows = private_bytes(
        tmp_path,
        steps=40_000,
        train_interval=64,
        updates=4,
        eval_freq=2_500,
        eval_episodes=2,
        eval_limit=200,
        checkpoint_freq=2_500,
    )
    assert slope(rows, 5_000) * 10_000 <= 0.5e6
    assert int(rows[-1]["updates"]) > 2_000


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_mem_06_memory_is_flat_once_the_replay_is_full_in_full(tmp_path: Path):
    rows = private_bytes(tmp_path, steps=30_000)
    assert slope(rows, 5_000) * 10_000 <= 0.5e6


def test_mem_06_a_leak_would_be_seen():
    leaking = [
        {"step": str(step), "private_bytes": str(2 * 10**8 + 100 * step)}
        for step in range(0, 15_001, 250)
    ]
    assert slope(leaking, 5_000) * 10_000 == pytest.approx(1e6)


# MEM-07


def rows_by_agent() -> Iterator[Any]:
    """A row of CONFIGS for every agent."""
    for agent in AGENTS:
        rows = [name for name, row in CONFIGS.items() if row["agent_type"] == agent]
        assert rows, f"no row of CONFIGS uses agent {agent}"
        yield pytest.param(rows[0], id=agent)


OPAQUE = (
    type, types.ModuleType, types.FunctionType, types.FrameType, torch.nn.Module, Dispatcher,
)  # fmt: skip


def reachable(*roots: object) -> list[object]:
    """Everything that objects hold, however deep; networks, code and modules left out."""
    seen: dict[int, object] = {}
    left = list(roots)
    while left:
        item = left.pop()
        if id(item) in seen or isinstance(item, OPAQUE):
            continue
        seen[id(item)] = item
        left += gc.get_referents(item)
    return list(seen.values())


def held(run: Run, rollout: Rollout, recorder: object) -> list[object]:
    """What the memory and the logs of a run hold."""
    logs = (recorder.meter, recorder._progress, recorder._log, rollout.episodes)
    return reachable(run.parts.memory, *logs, run.parts.memory.sample(4))


@pytest.mark.parametrize("row", [*rows_by_agent()])
def test_mem_07_memories_and_logs_hold_plain_and_bounded_things(row: str, tmp_path: Path):
    # pass: after 3,000 steps no reachable tensor has grad_fn or requires_grad; each log
    # container is bounded
    keys = {"steps": 3_000, "eval_freq": 0, "log_freq": 100, "checkpoint_freq": 0, "visdom": "off"}
    soon = {"replay_start": 500} if "replay_start" in CONFIGS[row] else {}
    run = Run(tmp_path, {**CONFIGS[row], **keys, **soon})
    rollout, recorder = run.rollout(), run.recorder()
    clock, options = run.parts.clock, run.options
    for window in (rollout.episodes.returns, rollout.episodes.lengths):
        window.extend([20] * 100)  # full from the start, so that only a leak can grow

    def count(until: int) -> list[object]:
        train(run.parts, rollout, options, recorder, lambda: clock.step >= until)
        return held(run, rollout, recorder)

    sizes = {}
    for until in (2_400, 3_000):
        things = count(until)
        containers = [t for t in things if isinstance(t, list | dict | set | deque)]
        sizes[until] = sum(len(container) for container in containers)
        assert max(len(container) for container in containers) < 1_000
        tensors = [t for t in things if isinstance(t, torch.Tensor)]
        assert not [t for t in tensors if t.grad_fn is not None or t.requires_grad]
    recorder.close()
    assert sizes[3_000] <= sizes[2_400] + 20
    assert len(things) > 100 and any(isinstance(t, np.ndarray) for t in things)


def test_mem_07_a_graph_kept_alive_would_be_seen():
    q = torch.zeros(3, requires_grad=True) * 2
    log = {"losses": deque([q.sum()])}
    assert [t for t in reachable(log) if isinstance(t, torch.Tensor) and t.grad_fn is not None]


# PLT-10


def test_plt_10_a_run_leaves_table_curve_config_and_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # pass: progress CSV (parsable), curve file, config copy present
    monkeypatch.setattr("core.report.EPISODES", 2)  # what comes after training is not the matter
    assert main.run(flags(steps=2_000, visdom="off", runs=tmp_path)) == 0
    folder = only_folder(tmp_path)
    rows = rows_of(folder / "progress.csv")
    assert [row["step"] for row in rows] == ["500", "1000", "1500", "2000"]
    assert all(float(cell) > -1e9 for row in rows for cell in row.values() if cell)
    assert float(rows[-1]["return_mean"]) > 5 and rows[-1]["loss"]
    assert (folder / "curves.png").stat().st_size > 5_000
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "versions.json", "log.txt", "result.json"} <= names
    config = RunFolder(folder).config()
    assert config["row"] == DEFAULT
    assert config["options"]["lr"] == CONFIGS[DEFAULT]["lr"]
    assert config["options"]["steps"] == 2_000, "what was run, and not what the row says"
    assert config["options"]["gamma"] == 0.99 and len(config["options"]) > 30
