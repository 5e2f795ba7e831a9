"""Reports of users about runs that are taken up again, each kept from coming back.

Named after their ids; what was saved wrong is in test_res.py.
"""

import hashlib
import json
import random
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import main
from core.checkpoint import Checkpoints, flatten, load
from core.memories.sequential import SequentialMemory
from core.runtime import serial
from core.train import Parts
from tests.harness import (
    Run,
    cli,
    comparable,
    equal_trees,
    flags,
    only_folder,
    rows_of,
    start_cli,
    wait_until,
)
from tests.oracles.compare import read_all
from utils.options import CONFIGS

SMALL: dict[str, Any] = {
    "hidden_sizes": (32, 32), "train_interval": 64, "updates": 16, "eval_freq": 0, "visdom": "off",
    "checkpoint_seconds": 0, "target_model_update": 700,
}  # fmt: skip
"""CartPole by DQN, learning little: what is saved is what matters."""


@pytest.fixture(autouse=True)
def short_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.report.EPISODES", 2)


def words(**keys: Any) -> list[str]:
    """Keys as flags, tuples too."""
    plain = {k: ",".join(map(str, v)) if isinstance(v, tuple) else v for k, v in keys.items()}
    return flags(**{k: str(v).lower() if isinstance(v, bool) else v for k, v in plain.items()})


def start(runs: Path, **keys: Any) -> subprocess.Popen[str]:
    """A run of CartPole by DQN in a process of its own."""
    return start_cli("dqn_cartpole", *words(**{**SMALL, **keys}, runs=runs))


def kill_when(child: subprocess.Popen[str], due: Callable[[], bool]) -> None:
    """Kills a run that would not have ended by itself once something is true of it."""
    with child:
        try:
            wait_until(lambda: due() or child.poll() is not None, 60)
            assert child.poll() is None, "it has ended before"
        finally:
            child.kill()


def step_of(runs: Path) -> int:
    """The step of the newest row of the one run there."""
    for progress in runs.glob("*/progress.csv"):
        if rows := [row for row in rows_of(progress) if row["step"]]:
            return int(rows[-1]["step"])
    return 0


def saved_steps(folder: Path) -> list[int]:
    """Steps of the checkpoints of a run, newest first."""
    return [load(path)["step"] for path in Checkpoints(folder / "checkpoints").by_age()]


def resume(folder: Path, *more: str) -> int:
    """Takes a run up in this process; gives the exit code."""
    return main.run(["resume", str(folder), "--visdom", "off", *more])


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[Parts], None]]:
    """What is told of a run's parts before its first step."""
    told: list[Callable[[Parts], None]] = []
    original = serial.train

    def train(parts: Parts, *rest: Any) -> None:
        for tell in told:
            tell(parts)
        original(parts, *rest)

    monkeypatch.setattr(serial, "train", train)
    return told


class At:
    """Asked between steps: notes something of a run at a step, and says stop there if it should."""

    def __init__(self, run: Run, step: int, note: Callable[[Parts], None] | None = None) -> None:
        self._parts, self._step, self._note = run.parts, step, note

    def __call__(self) -> bool:
        here = self._parts.clock.step >= self._step
        if self._note is None:
            return here
        if here:
            self._note(self._parts)
            self._step = 10**12
        return False


def memory_hash(parts: Parts) -> str:
    """A hash of every row that the memory holds, in order, and of where its sampler stands."""
    memory = parts.memory
    assert isinstance(memory, SequentialMemory)
    digest = hashlib.sha256(json.dumps(memory.own_state()["rng"], sort_keys=True).encode())
    for name, array in sorted(read_all(memory).items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    for counters in (memory.ring.heads, memory.ring.tails):
        digest.update(counters.tobytes())
    return digest.hexdigest()


# RES-01: training 5 + 5 with a save in between did not continue like 10 in one go.


def test_res_01_killed_half_way_it_goes_on_as_in_one_go(
    tmp_path: Path, begun: list[Callable[[Parts], None]]
) -> None:
    # pass: same counters, epsilon, replay hash at the join; same returns afterwards
    steps, join = 6_000, 3_000
    keys = {**SMALL, "steps": steps, "checkpoint_freq": join}
    found: list[tuple[Any, ...]] = []

    def note(parts: Parts) -> None:
        agent, step = parts.agent, parts.clock.step
        counters = (step, agent.updates, len(parts.memory), parts.memory.rows)
        found.append((*counters, agent.exploration(step), memory_hash(parts)))

    whole = Run(tmp_path / "whole", {**CONFIGS["dqn_cartpole"], **keys}, row="dqn_cartpole")
    whole.go(At(whole, join, note))
    runs = tmp_path / "parted"
    kill_when(start(runs, **keys), lambda: any(runs.glob("*/checkpoints/step-*")))
    folder = only_folder(runs)
    one, two = ({**load(x / "checkpoints" / f"step-{join:012d}.safetensors")}
                for x in (whole.folder.path, folder))  # fmt: skip
    for tree in (one, two):
        tree["run"]["recorder"].pop("pace")  # seconds
    assert equal_trees(one, two), "weights, target, optimizer, counters, generators, environment"
    begun.append(note)
    assert resume(folder) == 0
    assert len(found) == 2
    assert found[0] == found[1]
    assert found[0][0] == join and found[0][1] > 400 and 0.04 < found[0][4] < 1
    assert comparable(rows_of(folder / "progress.csv")) == comparable(whole.rows)
    assert len({row["return_mean"] for row in whole.rows[6:]}) == 6, "returns after the join differ"
    result = json.loads((folder / "result.json").read_text())
    for name in ("steps", "updates", "last_eval_return_mean", "memory_len", "memory_rows"):
        assert result[name] == whole.result[name], name


# RES-02: after loading, exploration was back at 1.0 and the step counter started over.


def test_res_02_epsilon_and_the_steps_go_on(tmp_path: Path) -> None:
    # pass: no jump larger than one step's decay; step axis continues
    decay, steps = 1_000, 800
    keys = {**SMALL, "steps": steps, "eps_decay": decay, "learn_start": 0, "log_freq": 1}
    run = Run(tmp_path, {**CONFIGS["dqn_cartpole"], **keys}, row="dqn_cartpole")
    run.go(At(run, decay * 4 // 10))
    assert run.status["step"] == decay * 4 // 10
    assert resume(run.folder.path) == 0
    assert [int(row["step"]) for row in run.rows] == list(range(1, steps + 1))
    epsilon = np.array([float(row["epsilon"]) for row in run.rows])
    a_step = (1.0 - 0.04) / decay
    assert np.abs(np.diff(epsilon)).max() <= a_step * (1 + 1e-4)
    assert epsilon[0] > 0.99 and epsilon[-1] == pytest.approx(1 - steps * a_step)


# RES-03: periodic checkpoints left out the replay, so that a crash lost it.


def test_res_03_a_crash_keeps_the_memory_of_the_checkpoint(
    tmp_path: Path, begun: list[Callable[[Parts], None]]
) -> None:
    # pass: replay length after resume = length at the checkpoint
    keys = {"steps": 3_000, "checkpoint_freq": 1_000, "log_freq": 100}
    kill_when(start(tmp_path, **keys), lambda: step_of(tmp_path) >= 2_500)
    folder = only_folder(tmp_path)
    (row,) = [row for row in rows_of(folder / "progress.csv") if row["step"] == "2000"]
    begun.append(lambda parts: found.append((parts.clock.step, len(parts.memory))))
    found: list[tuple[int, int]] = []
    assert resume(folder) == 0
    assert found == [(2_000, int(row["memory_len"]))]
    assert int(row["memory_len"]) > 1_900


def test_res_03_without_the_memory_it_warns_and_refills_first(
    tmp_path: Path, begun: list[Callable[[Parts], None]], capsys: pytest.CaptureFixture[str]
) -> None:
    # pass: or the warning + refill path is taken
    least = 500
    keys = {"steps": 3_000, "checkpoint_freq": 1_000, "log_freq": 10, "learn_start": least,
            "checkpoint_memory": False}  # fmt: skip
    kill_when(start(tmp_path, **keys), lambda: step_of(tmp_path) >= 2_500)
    folder = only_folder(tmp_path)
    assert not (folder / "replay").exists()
    found: list[tuple[int, int, int]] = []
    begun.append(
        lambda parts: found.append((parts.clock.step, len(parts.memory), parts.agent.updates))
    )
    assert resume(folder) == 0
    ((step, held, updates),) = found
    assert (step, held) == (2_000, 0) and updates > 0
    warning = "the memory was not saved: it is filled anew, and nothing is learnt until it is ready"
    assert warning in capsys.readouterr().out
    rows = [row for row in rows_of(folder / "progress.csv") if int(row["step"]) > step]
    filling = [row for row in rows if int(row["memory_len"]) < least]
    assert len(filling) > 40
    assert {int(row["updates"]) for row in filling} == {updates}
    assert int(rows[-1]["updates"]) > updates


# RES-09: a second Ctrl-C, or an error at the end, skipped the save; training began from zero.


def resumed_at(capsys: pytest.CaptureFixture[str], folder: Path, *more: str) -> int:
    """Takes a run up; gives the step from which it says that it goes on."""
    capsys.readouterr()
    assert resume(folder, *more) == 0
    out, error = capsys.readouterr()
    assert error == ""
    (line,) = [line for line in out.splitlines() if line.startswith("going on from step ")]
    return int(line.rpartition(" ")[2].replace(",", ""))


def test_res_09_a_second_interrupt_loses_no_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # pass: resume starts at >= last periodic checkpoint step
    with start(tmp_path, steps=1_000_000, checkpoint_freq=500, log_freq=100) as child:
        try:
            wait_until(lambda: step_of(tmp_path) >= 1_000 or child.poll() is not None, 60)
            child.send_signal(signal.SIGINT)
            time.sleep(0.3)
            child.send_signal(signal.SIGINT)
            assert child.communicate(timeout=60)[1] == ""
        finally:
            child.kill()
    folder = only_folder(tmp_path)
    last = saved_steps(folder)[0]
    periodic = step_of(tmp_path) // 500 * 500
    assert resumed_at(capsys, folder, "--steps", str(last + 500)) == last >= periodic >= 1_000
    assert step_of(tmp_path) == last + 500


def test_res_09_an_error_in_the_last_step_loses_no_checkpoint(
    tmp_path: Path, begun: list[Callable[[Parts], None]], capsys: pytest.CaptureFixture[str]
) -> None:
    # pass: resume starts at >= last periodic checkpoint step
    steps, often = 450, 200
    keys = {**SMALL, "steps": steps, "learn_start": 100, "checkpoint_freq": often}
    run = Run(tmp_path, {**CONFIGS["dqn_cartpole"], **keys}, row="dqn_cartpole")
    step = run.parts.env.step

    def breaks(actions: np.ndarray) -> Any:
        if run.parts.clock.step == steps - 1:
            raise ZeroDivisionError("the world fell apart")
        return step(actions)

    begun.append(lambda parts: setattr(parts.env, "step", breaks))
    with pytest.raises(ZeroDivisionError):
        run.go()
    assert (run.result["status"], run.result["steps"]) == ("failed", steps - 1)
    begun.clear()
    last = saved_steps(run.folder.path)[0]
    assert resumed_at(capsys, run.folder.path) == last >= steps // often * often
    assert (run.result["status"], run.result["steps"]) == ("finished", steps)


# RES-10: states of random generators were not saved.

AFTER = 100
"""Steps after the resumption that are compared."""
DRAWING: dict[str, dict[str, Any]] = {
    "dqn_cartpole": {**SMALL, "learn_start": 100, "train_interval": 4, "updates": 1},
    "dqn_catch": {**SMALL, "learn_start": 100, "train_interval": 4, "updates": 1},
    "acer_cartpole": {"replay_start": 100, "train_interval": 40, "eval_freq": 0, "visdom": "off"},
}


def watch_draws(parts: Parts, seen: list[tuple[Any, ...]]) -> None:
    """Notes what every step does and every update draws, with the clock."""
    step, sample = parts.env.step, parts.memory.sample

    def stepped(actions: np.ndarray) -> Any:
        seen.append((parts.clock.step, "action", actions.tolist()))
        return step(actions)

    def sampled(*arguments: Any, **keys: Any) -> Any:
        batch = sample(*arguments, **keys)
        seen.append((parts.clock.step, "ids", batch["id"].tolist()))
        return batch

    parts.env.step = stepped
    parts.memory.sample = sampled


@pytest.mark.parametrize("row", DRAWING)
def test_res_10_the_next_actions_and_draws_are_the_same(
    tmp_path: Path, begun: list[Callable[[Parts], None]], row: str
) -> None:
    # pass: identical on CPU, single process
    join, seen = 440, []
    config = {**CONFIGS[row], **DRAWING[row]}
    lanes = config.get("num_envs", 1)
    config["steps"] = join + AFTER * lanes
    begun.append(lambda parts: watch_draws(parts, seen))
    Run(tmp_path / "whole", config, row=row).go()
    wanted = [event for event in seen if event[0] >= join]
    wanted = wanted[next(n for n, event in enumerate(wanted) if event[1] == "action") :]
    parted = Run(tmp_path / "parted", config, row=row)
    parted.go(At(parted, join))
    seen.clear()
    for scramble in (random.seed, np.random.seed, torch.manual_seed):
        scramble(12_345)  # nothing may hang on the generators that everyone shares
    assert resume(parted.folder.path) == 0
    assert seen == wanted
    kinds = [event[1] for event in seen]
    assert kinds.count("action") == AFTER and kinds.count("ids") >= 10
    assert len({str(event[2]) for event in seen if event[1] == "ids"}) > 5


# RES-11: a replay that was saved on a GPU made a machine without one fail.


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    runs = tmp_path_factory.mktemp("saved")
    keys = {**SMALL, "steps": 400, "learn_start": 100, "checkpoint_freq": 100}
    return Run(runs, {**CONFIGS["dqn_cartpole"], **keys}, row="dqn_cartpole").go().folder.path


@pytest.fixture
def from_gpu(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same as a machine with a GPU leaves it, on one that has none."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    folder = Path(shutil.copytree(saved, tmp_path / saved.name))
    config = json.loads((folder / "config.json").read_text())
    config["options"]["device"] = "cuda:0"
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(x.relative_to(folder)): x.read_bytes() for x in folder.rglob("*") if x.is_file()}


@pytest.mark.parametrize("asked", [(), ("--device", "cuda")], ids=["as_it_was", "cuda"])
def test_res_11_a_gpu_that_is_not_there_is_one_line(from_gpu: Path, asked: tuple[str, ...]) -> None:
    # pass: second case named error or documented fall-back
    before = files_of(from_gpu)
    done = cli("resume", str(from_gpu), "--steps", "500", *asked)
    device = asked[-1] if asked else "cuda:0"
    line = f"engram: device '{device}' is not there; set --device cpu\n"
    assert (done.returncode, done.stderr) == (2, line)
    assert files_of(from_gpu) == before, "nothing is lost"


def test_res_11_a_run_of_a_gpu_goes_on_without(from_gpu: Path) -> None:
    # pass: load works
    done = cli("resume", str(from_gpu), *flags(steps=500, device="cpu", visdom="off"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "going on from step 400\n" in done.stdout
    last = rows_of(from_gpu / "progress.csv")[-1]
    assert last["step"] == "500" and int(last["memory_len"]) > 450
    assert json.loads((from_gpu / "config.json").read_text())["options"]["device"] == "cpu"


def test_res_11_a_run_of_a_gpu_is_played_without(from_gpu: Path) -> None:
    # pass: load works
    done = cli("test", str(from_gpu), *flags(episodes=2, device="cpu"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "over 2 episodes" in done.stdout


def test_res_11_no_file_carries_a_device(saved: Path) -> None:
    # right: files carry no device
    assert len(saved_steps(saved)) == 2
    for path in (saved / "checkpoints").iterdir():
        size = int.from_bytes(path.read_bytes()[:8], "little")
        header = path.read_bytes()[8 : 8 + size].decode()
        names = (*flatten(load(path))[0], *flatten(load(path))[1])
        assert len(names) > 10
        assert not [word for word in ("cuda", "cpu", "device") if word in header]
    with closing(sqlite3.connect(saved / "replay" / "manifest.sqlite")) as manifest:
        (dump,) = ["".join(manifest.iterdump())]
        states = [row[0] for row in manifest.execute("SELECT state FROM commits")]
    for text in (dump, *(state.decode("latin-1") for state in states)):
        assert "cuda" not in text and "device" not in text
