"""Reports of users about agents that never learn or go NaN: ACER and the searches."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import main
from agents.maths.policies import trust_region
from core.checkpoint import Checkpoints, flatten
from tests.harness import Run, only_folder
from utils.options import CONFIGS

torch.set_num_threads(1)
CARTPOLE: dict[str, Any] = {
    **CONFIGS["acer_cartpole"],
    "visdom": "off",
    "lr": 7e-3,
    "lr_decay": "constant",
    "replay_start": 500,
    "eval_freq": 0,
    "checkpoint_freq": 0,
    "log_freq": 1_000,
}
"""ACER in a hurry: the row's rate is made for half a million steps."""


# AGT-03: the sign of the trust region.


def ascend(step: Callable[..., Tensor], delta: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """KL(average || policy) of random logits before and after a small step, and where bound."""
    generator = torch.Generator().manual_seed(0)
    shape = (2_000, 4)
    logits, other, gain = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(3)
    )
    policy, average = torch.softmax(logits, -1), torch.softmax(other, -1)
    z = step(gain, policy, average, delta)

    def divergence(policy: Tensor) -> np.ndarray:
        return (average * (average / policy).log()).sum(-1).numpy()

    bound = (-(average / policy) * gain).sum(-1) > delta
    return divergence(policy), divergence(policy + 1e-7 * z), bound.numpy()


def other_sign(gain: Tensor, policy: Tensor, average: Tensor, delta: float) -> Tensor:
    """The reported fault: k with the other sign."""
    k = average / policy
    excess = ((k * gain).sum(-1, keepdim=True) - delta).clamp(min=0)
    return gain - excess / k.square().sum(-1, keepdim=True) * k


def test_agt_03_where_the_limit_is_active_a_step_does_not_leave_the_average_policy():
    before, after, bound = ascend(trust_region, delta=1e-9)
    assert 500 < bound.sum() < 1_500
    assert (after[bound] <= before[bound] + 1e-8).all()
    # that is no truism: neither the bare gradient nor the other sign does it
    for faulty in (other_sign, lambda gain, *_: gain):
        before, after, bound = ascend(faulty, delta=1e-9)
        assert (after[bound] > before[bound] + 1e-8).mean() > 0.5


def test_agt_03_acer_leaves_the_floor_on_cartpole(tmp_path: Path):
    """8k steps; seeds 1 and 2 measured: 118 and 124 greedy, 44 as it explores; from 9 to 20."""
    run = Run(tmp_path, CARTPOLE, steps=8_000).go()
    assert run.result["last_eval_return_mean"] > 60
    assert float(run.rows[-1]["return_mean"]) > 32


@pytest.mark.learn
def test_agt_03_acer_earns_its_score_on_cartpole(tmp_path: Path):
    """The row as it is published, shorter: 100k of its 500k steps."""
    row = {**CONFIGS["acer_cartpole"], "visdom": "off"}
    run = Run(tmp_path, row, steps=100_000).go()
    assert run.result["eval_return_mean"] > 200


# AGT-04: divergence into NaN.


@pytest.mark.parametrize(
    ("world", "column"),
    [("NanObservation", "obs"), ("NanReward", "reward"), ("InfiniteReward", "reward")],
)
def test_agt_04_acer_stops_at_a_number_that_is_none_and_names_it(
    world: str,
    column: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    from tests.faults.worlds import WHEN

    row = {
        **CARTPOLE, "game": f"tests.faults.worlds:{world}-v0", "num_envs": 1, "steps": 400,
        "trajectory_length": 10, "train_interval": 10, "replay_start": 50, "checkpoint_freq": 50,
        "eval_freq": 40, "eval_episodes": 2, "memory_limit": 1_000,
    }  # fmt: skip
    monkeypatch.setitem(CONFIGS, "faulty", row)
    assert main.run(["faulty", "--runs", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    # its newest steps are learnt from every ten: it comes up at once
    assert error == f"engram: '{column}' of the batch is not finite at step {WHEN}\n"
    folder = only_folder(tmp_path)
    result = json.loads((folder / "result.json").read_text(), parse_constant=pytest.fail)
    assert result["status"] == "failed" and str(WHEN) in result["error"]
    saved = Checkpoints(folder / "checkpoints")
    for which in ("last", "best"):
        arrays = flatten(saved.load(which, pytest.fail))[0]
        assert len(arrays) > 8 and all(np.isfinite(array).all() for array in arrays.values())


@pytest.mark.parametrize("sign", [60.0, -60.0])
def test_agt_04_acer_stays_finite_where_it_is_sure(sign: float, tmp_path: Path):
    run = Run(tmp_path, CARTPOLE, steps=1_600, replay_start=200)
    network = run.parts.agent._online
    with torch.no_grad():
        network.policy[-1].bias[:] = torch.tensor([sign, -sign])
    run.go()
    assert run.result["status"] == "finished"
    for _, array in sorted(flatten(dict(run.parts.agent.state()))[0].items()):
        assert np.isfinite(array).all()
    told = [row["loss"] for row in run.rows if row["loss"]]
    assert told and np.isfinite(np.array(told, float)).all()


# AGT-05: all candidates score the same.


@pytest.mark.parametrize("agent", ["es", "cem"])
def test_agt_05_a_flat_generation_changes_no_weight_and_is_noted(agent: str, tmp_path: Path):
    from tests.agents.search_worlds import ROW

    row = {
        **ROW,
        "agent_type": agent,
        "game": "tests.agents.search_worlds:WalkEven-v0",
        "num_envs": 3,
    }
    run = Run(tmp_path, row, steps=600, eval_freq=0)
    begun = run.parts.agent.weights()["mean"]
    run.go()
    assert run.result["status"] == "finished" and run.result["updates"] >= 10
    weights = run.parts.agent.weights()["mean"]
    assert np.isfinite(weights).all() and np.array_equal(weights, begun)
    note = "a generation whose candidates all earned the same changed nothing"
    assert run.log.count(note) == run.display.lines.count(note) == 1
    flat = [float(row["flat"]) for row in run.rows if row["flat"]]
    assert flat[-1] > 5 and float(run.rows[-1]["step_norm"]) == 0.0
