import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from core.checkpoint import Checkpoints
from core.errors import RunFailedError
from core.run_folder import FIRST_COLUMNS
from core.runtime.stopping import Stopper
from tests.harness import CHAIN, Run, equal_trees

KEYS = (
    "row seed status steps wall_seconds save_seconds steps_per_second updates eval_return_mean "
    "eval_return_std eval_episodes best_step last_eval_return_mean peak_private_bytes memory_len "
    "memory_rows memory_bytes"
)
"""What the issue promises of `result.json`."""


def test_a_finished_run_leaves_what_the_issue_lists(tmp_path: Path):
    run = Run(tmp_path, CHAIN, seed=9).go()
    result = run.result
    assert set(KEYS.split()) <= set(result)
    expected = {"row": "row", "seed": 9, "status": "finished", "steps": 400, "updates": 351,
                "eval_episodes": 100, "memory_len": len(run.parts.memory),
                "memory_rows": run.parts.memory.rows, "error": ""}  # fmt: skip
    assert {key: result[key] for key in expected} == expected
    assert result["best_step"] in (100, 200, 300, 400)
    assert result["memory_bytes"] == sum(run.parts.memory.usage().values())
    assert 0 < result["wall_seconds"] < 60
    assert 2**20 < result["peak_private_bytes"] < 2**36
    columns = (*FIRST_COLUMNS, *run.parts.agent.metrics)
    assert tuple(run.rows[0]) == columns
    assert run.status["state"] == "finished" and run.status["step"] == 400
    assert run.display.statuses[-1]["state"] == "finished"
    assert Checkpoints(run.folder.checkpoints).load("last", pytest.fail)["step"] == 400


def test_the_result_is_of_the_best_weights_and_the_last_ones_beside_it(tmp_path: Path):
    run = Run(tmp_path, CHAIN)
    agent = run.parts.agent
    original = agent.learn

    def spoil(memory: Any) -> Any:  # from step 250 on, the policy leaves the chain at once
        metrics = original(memory)
        if run.parts.clock.step > 250:
            state = agent.state()
            for name, array in state["weights"].items():
                array[...] = 0.0
                if name == "head.advantage.bias":
                    array[0] = 1.0
            agent.load(state)
        return metrics

    agent.learn = spoil
    run.go()
    result = run.result
    assert result["eval_return_mean"] == 1.0 and result["best_step"] == 200
    assert result["last_eval_return_mean"] == pytest.approx(0.1)
    assert [line for line in run.display.lines if "evaluation fell to 0.1 at step 300" in line]


def test_without_evaluations_the_last_weights_are_the_best(tmp_path: Path):
    result = Run(tmp_path, CHAIN, eval_freq=0).go().result
    assert result["best_step"] == 400 and result["eval_episodes"] == 100
    assert result["eval_return_mean"] == result["last_eval_return_mean"]


def test_the_run_and_its_board_see_the_same_status(tmp_path: Path):
    run = Run(tmp_path, CHAIN).go()
    assert run.status == dict(run.display.statuses[-1])


# Interrupted, and failed.


def test_a_run_that_is_stopped_says_so_and_keeps_what_it_has(tmp_path: Path):
    run = Run(tmp_path, CHAIN)
    run.go(stop=lambda: run.parts.clock.step >= 230)
    result = run.result
    assert result["status"] == "interrupted" and result["steps"] == 230
    assert result["eval_return_mean"] is None and result["eval_episodes"] == 0
    assert result["best_step"] in (100, 200), "the best weights are still there"
    saved = Checkpoints(run.folder.checkpoints).load("last", pytest.fail)
    assert saved.pop("step") == 230 and saved.pop("run").keys() == {"rollout", "recorder"}
    assert equal_trees(saved, run.parts.agent.state())
    assert run.status["state"] == "interrupted" and run.status["checkpoint_step"] == 230
    assert run.rows[-1]["step"] == "230"


def test_a_run_stopped_before_its_first_step_is_whole(tmp_path: Path):
    result = Run(tmp_path, CHAIN).go(stop=lambda: True).result
    assert result["status"] == "interrupted" and result["steps"] == 0
    assert result["best_step"] == 0


def fail_at(run: Run, step: int, error: Exception) -> None:
    original = run.parts.agent.learn

    def learn(memory: Any) -> Any:
        if run.parts.clock.step >= step:
            raise error
        return original(memory)

    run.parts.agent.learn = learn


@pytest.mark.parametrize("error", [RunFailedError("'loss' is not finite"), KeyError("oh")])
def test_a_run_that_fails_says_so_and_keeps_its_checkpoints(tmp_path: Path, error: Exception):
    run = Run(tmp_path, CHAIN)
    fail_at(run, 250, error)
    with pytest.raises(type(error)):
        run.go()
    result = run.result
    assert result["status"] == "failed" and result["steps"] == 250
    assert result["error"] == f"{type(error).__name__}: {error}"
    assert run.status["state"] == "failed"
    assert f"the run failed: {error}" in run.log
    saved = Checkpoints(run.folder.checkpoints)
    assert [path.name for path in saved.by_age()] == [
        "step-000000000200.safetensors",
        "step-000000000100.safetensors",
    ]
    assert saved.load("best", pytest.fail)["step"] in (100, 200)


def test_an_env_that_fails_at_its_first_reset_leaves_a_result(tmp_path: Path):
    run = Run(tmp_path, CHAIN)

    def broken(seeds: Any) -> Any:
        raise RuntimeError("no display")

    run.parts.env.reset = broken
    with pytest.raises(RuntimeError, match="no display"):
        run.go()
    assert run.result["status"] == "failed"
    assert run.result["error"] == "RuntimeError: no display"


def test_infos_of_the_episodes_are_kept_as_statistics(tmp_path: Path):
    config = {**CHAIN, "game": "counter", "size": 10}
    infos = Run(tmp_path, config, num_envs=2).go().result["infos"]
    assert infos == {
        "step": {"count": 400, "mean": pytest.approx(4.0, abs=0.1), "low": 1.0, "high": 7.0}
    }


# Signals.


@pytest.fixture
def outside():
    """The signals that came while no Stopper stood; the real handlers come back afterwards."""
    came: list[int] = []
    before = {n: signal.signal(n, lambda n, _: came.append(n)) for n in Stopper.SIGNALS}
    yield came
    for number, handler in before.items():
        signal.signal(number, handler)


def test_the_first_signal_is_the_one_that_counts(outside: list[int]):
    with Stopper() as stop:
        assert not stop() and stop.exit_code == 0
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop() and stop.exit_code == 143
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
        assert stop.exit_code == 143
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    assert stop.exit_code == 143
    assert outside == [], "on the way out, later signals change nothing either"


def test_handlers_come_back_where_nothing_was_told_to_stop(outside: list[int]):
    with Stopper():
        pass
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyError), Stopper():
        raise KeyError
    os.kill(os.getpid(), signal.SIGTERM)
    assert outside == [signal.SIGINT, signal.SIGTERM]


def test_a_run_in_another_thread_takes_no_signals(tmp_path: Path):
    done: list[str] = []

    def body() -> None:
        with Stopper() as stop:
            done.append(Run(tmp_path, CHAIN).go(stop).result["status"])

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert done == ["finished"]


def test_everything_in_the_folder_can_be_read_without_our_code(tmp_path: Path):
    run = Run(tmp_path, CHAIN).go()
    suffixes = {path.suffix for path in run.folder.path.rglob("*") if path.is_file()}
    # the memory's log: sqlite, and records whose bytes are said in core/storage/log.py
    assert suffixes == {".json", ".csv", ".txt", ".safetensors", ".sqlite", ".bin"}
    for path in run.folder.path.rglob("*.json"):
        json.loads(path.read_text(), parse_constant=pytest.fail)
