"""Reports AGT-01 and AGT-02: the default row learns; a fall is said, and its best is kept."""

import math
import time
from pathlib import Path
from typing import Any

import pytest

from core.checkpoint import load
from core.report import play
from tests.harness import Run, never
from utils.options import CONFIGS, DEFAULT

ROW = {**CONFIGS[DEFAULT], "visdom": "off"}
GOOD = 150.0


def greedy_mean(run: Run, weights: dict[str, Any], episodes: int) -> float:
    """Mean return of weights on fresh greedy episodes."""
    score = play(run.parts, weights, episodes, run.options.eval_limit, never)
    assert score is not None and len(score.returns) == episodes
    return score.mean


def best_weights(run: Run) -> dict[str, Any]:
    return load(run.folder.checkpoints / "best.safetensors")["weights"]


def trained(runs: Path, monkeypatch: pytest.MonkeyPatch, seconds: float = math.inf, **keys: Any):
    """A run of the default row, stopped after so many seconds of the processor."""
    monkeypatch.setattr("core.report.EPISODES", 1)  # scored here, after it
    run = Run(runs, ROW, **keys)
    begun = time.process_time()
    return run.go(stop=lambda: time.process_time() - begun > seconds)


# AGT-01


@pytest.mark.timeout(300)  # some 10 s on an idle machine
def test_agt_01_the_default_row_learns_in_its_first_10_000_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # pass: mean of 10 greedy episodes >= 150; on seeds 1 to 5 the best weights
    # gave 310, 494, 500, 324 and 304
    run = trained(tmp_path, monkeypatch, steps=10_000, eval_episodes=5, seed=1)
    assert greedy_mean(run, best_weights(run), 10) >= GOOD
    losses = [float(row["loss"]) for row in run.rows if row["loss"]]
    assert len(losses) > 10 and all(map(math.isfinite, losses))


@pytest.mark.learn
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_agt_01_the_default_row_learns_in_50_seconds(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = trained(tmp_path, monkeypatch, seconds=50.0, seed=seed)
    assert greedy_mean(run, best_weights(run), 10) >= GOOD


# AGT-02


def check_that_a_fall_is_said_and_the_best_kept(run: Run) -> None:
    """Asserts the report's pass line of a run that collapsed."""
    recorder_said = [line for line in run.display.lines if "evaluation fell to" in line]
    assert recorder_said and "the best weights are kept" in recorder_said[0]
    assert run.log.count("evaluation fell to") == len(recorder_said)
    tops = [float(line.split(", from ")[1].split(" at step")[0]) for line in recorder_said]
    assert greedy_mean(run, best_weights(run), 100) >= 0.9 * max(tops)
    losses = [float(row["loss"]) for row in run.rows if row["loss"]]
    assert all(map(math.isfinite, losses))


COLLAPSING = {"lr": 0.01, "eval_freq": 500, "eval_episodes": 5}


@pytest.mark.timeout(300)  # some 10 s on an idle machine
def test_agt_02_a_fall_is_said_and_the_best_weights_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # pass: a regression notice appears; the best checkpoint still scores >= 90 % of the logged
    # best; seeds 1 to 4 said 2, 3, 4 and 7 falls, and gave 1.0 to 1.6 of the logged best
    run = trained(tmp_path, monkeypatch, steps=12_000, seed=1, **COLLAPSING)
    check_that_a_fall_is_said_and_the_best_kept(run)
    last = greedy_mean(run, run.parts.agent.weights(), 10)
    assert last < greedy_mean(run, best_weights(run), 10) / 2, "the last weights did collapse"


@pytest.mark.learn
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_agt_02_a_fall_is_said_and_the_best_weights_are_kept_in_full(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = trained(tmp_path, monkeypatch, seconds=50.0, seed=seed, **COLLAPSING)
    check_that_a_fall_is_said_and_the_best_kept(run)
