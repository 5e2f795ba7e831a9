"""Agents of either unit learn from a hybrid memory what they learn from the memory of theirs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.harness import CHAIN, Run, equal_trees, parts_of
from utils.options import CONFIGS

OF_DQN = ("hidden_sizes", "target_model_update", "eps_decay")
ACER: dict[str, Any] = {
    **{key: value for key, value in CHAIN.items() if key not in OF_DQN},
    "agent_type": "acer",
    "model_type": "acer-mlp",
    "memory_type": "episodic",
    "hidden_sizes": (16,),
    "trajectory_length": 5,
    "train_interval": 10,
    "replay_start": 50,
    "learn_start": 10,
    "num_envs": 2,
    "memory_limit": 2_000,
}
PAIRS = [(ACER, "episodic"), ({**CHAIN, "n_step": 3, "memory_limit": 2_000}, "sequential")]


@pytest.mark.parametrize(("row", "own"), PAIRS, ids=["acer", "dqn"])
def test_an_agent_learns_the_same_to_the_bit(row: dict, own: str, tmp_path: Path) -> None:
    one, other = (Run(tmp_path, row, memory_type=kind).go() for kind in (own, "hybrid"))
    assert one.result["updates"] == other.result["updates"] > 20
    assert not other.parts.memory.full
    mine, theirs = (dict(run.parts.agent.state()) for run in (one, other))
    assert equal_trees(mine, theirs)
    before = dict(parts_of(row).agent.weights())
    assert not equal_trees(before, dict(other.parts.agent.weights())), "something was learnt"


def test_acer_goes_on_as_old_rows_go(tmp_path: Path) -> None:
    run = Run(tmp_path, ACER, memory_type="hybrid", memory_limit=80).go()
    assert run.parts.memory.full and run.result["updates"] > 20
    run.parts.memory.check()
    assert all(np.isfinite(array).all() for array in run.parts.agent.weights().values())


def test_acers_own_row_runs_with_it(tmp_path: Path) -> None:
    short = {"steps": 600, "replay_start": 200, "learn_start": 100, "eval_freq": 0}
    run = Run(tmp_path, CONFIGS["acer_cartpole"], memory_type="hybrid", visdom="off", **short).go()
    assert run.result["status"] == "finished" and run.result["updates"] > 3
    batch = run.parts.memory.sample(4, columns=["policy", "mask"])
    assert batch["policy"].shape == (*batch["mask"].shape, 2), "as trajectories"


def test_a_plan_counts_its_batches_in_trajectories(tmp_path: Path) -> None:
    kinds = ("episodic", "hybrid")
    noted = [parts_of(ACER, memory_type=kind, runs=str(tmp_path)).notes for kind in kinds]
    told = [[line for line in lines if "batches" in line] for lines in noted]
    assert told[0] == told[1] and len(told[0]) == 1
