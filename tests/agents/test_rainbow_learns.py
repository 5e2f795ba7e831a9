"""Rainbow's parts learn what is known to be right: a chain's values, and a game's score."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.harness import CHAIN, Run
from utils.options import CONFIGS

STILL = {"eps_start": 0.0, "eps_end": 0.0}
PARTS: dict[str, dict[str, Any]] = {
    "c51": {"distribution": "c51", "atoms": 21, "v_min": -2.0, "v_max": 2.0},
    "qr": {"distribution": "qr", "quantiles": 8},
    "noisy": {"noisy": True, **STILL},
    "rainbow": {
        "distribution": "c51",
        "atoms": 21,
        "v_min": -2.0,
        "v_max": 2.0,
        "noisy": True,
        "double": True,
        "dueling": "avg",
        "n_step": 3,
        "sampler": "prioritized",
        "priority_exponent": 0.5,
        **STILL,
    },
}
every_part = pytest.mark.parametrize("part", PARTS)
SHORT: dict[str, Any] = {
    **CHAIN,
    "steps": 600,
    "learn_start": 100,
    "batch_size": 16,
    "lr": 3e-3,
    "eps_end": 0.2,
    "eps_decay": 400,
    "eval_freq": 0,
    "checkpoint_freq": 0,
    "log_freq": 300,
}


def values_of(run: Run) -> np.ndarray:
    """Values `[4, 2]` of a chain's states, by the means of noisy layers."""
    agent, states = run.parts.agent, np.eye(5, dtype=np.float32)[:4]
    actor = agent.actor(4, np.random.default_rng(0))
    actions, _ = actor.act({"obs": states}, np.ones(4, np.bool_), 0, explore=False)
    assert actions.tolist() == [1, 1, 1, 1], "right, whatever leaving pays at once"
    with torch.no_grad():
        outputs = agent._online({"obs": torch.from_numpy(states).unsqueeze(1)})
    values: np.ndarray = agent._returns.expected(outputs).numpy()
    return values


def learns_the_chain(folder: Path, part: str, seed: int) -> None:
    """Asserts that 500 updates find the values: 0.1 for leaving, and 0.99^3 to 1 for going on."""
    values = values_of(Run(folder, {**SHORT, **PARTS[part]}, seed=seed).go())
    # seeds 1 to 6: within 0.04 by distributions, and within 0.11 with noisy alone
    assert np.abs(values[:, 0] - 0.1).max() < 0.2
    assert np.abs(values[:, 1] - 0.99 ** np.arange(3, -1, -1)).max() < 0.2


@every_part
def test_the_values_of_a_chain_are_found(part: str, tmp_path: Path):
    learns_the_chain(tmp_path, part, seed=1)


@pytest.mark.learn
@every_part
@pytest.mark.parametrize("seed", [2, 3, 4, 5, 6])
def test_the_values_of_a_chain_are_found_on_any_seed(part: str, seed: int, tmp_path: Path):
    learns_the_chain(tmp_path, part, seed)


@pytest.mark.learn
@pytest.mark.timeout(600)
@every_part
def test_catch_is_learnt(part: str, tmp_path: Path):
    keys = {**PARTS[part], "steps": 6_000, "updates": 4, "lr": 1e-3, "target_model_update": 200}
    run = Run(tmp_path, {**CONFIGS["dqn_catch"], "visdom": "off", **keys}, eval_episodes=100).go()
    assert run.result["eval_return_mean"] >= 0.8  # each part caught all 100 balls from step 4,000
