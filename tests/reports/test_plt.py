"""What people have reported of plots, logs and progress, as tests of whole runs."""

import csv
import json
import os
import pty
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.utils.fake_run import FakeRun, plausible
from tests.utils.stub_server import (
    VisdomServer,
    answering,
    curve,
    envs,
    free_port,
    last_step,
    wait_for,
    windows,
)
from utils import board_server
from utils.board import Board, BoardOptions, start
from utils.board_server import probe
from utils.series import CURVES, LIMIT

MAIN = Path(__file__).resolve().parents[2] / "main.py"
STEPS = 5000
CLOCKS = ("wall_seconds", "steps_per_second", "private_bytes")  # differ from run to run


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[VisdomServer]:
    with VisdomServer(tmp_path / "visdom") as server:
        yield server


started: list["subprocess.Popen[str]"] = []


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """A test that fails half-way leaves no run behind."""
    yield
    while started:
        with started.pop() as process:
            process.kill()


class Run:
    """A run of main.py in a process of its own, with all it says."""

    def __init__(self, runs: Path, *flags: object, row: str = "dqn_cartpole", **streams: Any):
        runs.mkdir(parents=True, exist_ok=True)
        self.runs = runs
        self.before = set(runs.iterdir())
        command = [sys.executable, MAIN, row, "--runs", runs, *flags]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        self.process = subprocess.Popen([str(word) for word in command], text=True, **streams)
        started.append(self.process)

    @property
    def folder(self) -> Path:
        wait_for(lambda: set(self.runs.iterdir()) - self.before)
        (folder,) = set(self.runs.iterdir()) - self.before
        return folder

    def status(self) -> dict[str, Any]:
        path = self.folder / "live" / "status.json"
        return json.loads(path.read_text()) if path.is_file() else {}

    def reach(self, step: int) -> None:
        wait_for(lambda: self.status().get("step", 0) >= step or self.process.poll(), 60)

    def finish(self) -> "Run":
        self.out, self.err = self.process.communicate(timeout=600)
        assert self.process.returncode == 0, self.err
        assert self.status()["state"] == "finished"
        return self

    def board_lines(self) -> list[str]:
        return [line for line in self.out.splitlines() if line.startswith("board:")]


def at(port: int, mode: str = "connect") -> list[object]:
    return ["--visdom", mode, "--visdom_port", port]


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "progress.csv").open() as file:
        return list(csv.DictReader(file))


def numbers(folder: Path) -> list[dict[str, str]]:
    """The rows of a run without what a clock or the system has measured."""
    rows = table(folder)
    return [{key: row[key] for key in row if key not in CLOCKS} for row in rows]


def column(folder: Path, name: str) -> list[tuple[float, float]]:
    return [(float(row["step"]), float(row[name])) for row in table(folder) if row[name]]


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same run without any board."""
    runs = tmp_path_factory.mktemp("quiet")
    return Run(runs, "--steps", STEPS, "--visdom", "off").finish()


def test_plt_01_without_a_server_there_is_one_line_and_the_run_is_the_same(
    tmp_path: Path, quiet: Run
):
    run = Run(tmp_path / "runs", "--steps", STEPS, *at(free_port())).finish()
    assert run.err == ""
    (line,) = run.board_lines()
    assert "no visdom server answers" in line
    assert numbers(run.folder) == numbers(quiet.folder)
    assert [int(row["step"]) for row in table(run.folder)][-1] == STEPS
    assert (run.folder / "curves.png").stat().st_size > 10_000


@pytest.mark.soak
def test_plt_01_a_board_takes_no_speed(tmp_path: Path, server: VisdomServer):
    """Median of five interleaved pairs; with a server that answers, which costs the most."""

    def speed(*flags: object) -> float:
        run = Run(tmp_path / "runs", "--steps", 10_000, *flags).finish()
        return float(json.loads((run.folder / "result.json").read_text())["steps_per_second"])

    ratios = [speed(*at(server.port)) / speed("--visdom", "off") for _ in range(5)]
    assert statistics.median(ratios) >= 0.95, ratios


def test_plt_02_a_server_that_dies_and_comes_back_has_it_all(
    tmp_path: Path, server: VisdomServer, quiet: Run
):
    run = Run(tmp_path / "runs", "--steps", STEPS, *at(server.port))
    wait_for(lambda: last_step(server.port, run.folder.name) >= 1000, 60)
    server.kill()
    server.forget()
    run.reach(3000)
    server.start()
    run.finish()
    note = [line for line in run.board_lines() if "no visdom server answers" in line]
    assert len(note) <= 1
    assert set(run.board_lines()) == {f"board: {server.url}/env/{run.folder.name}", *note}
    assert run.err == ""
    assert numbers(run.folder) == numbers(quiet.folder)
    assert curve(server.port, run.folder.name, "return") == column(run.folder, "return_mean")
    assert curve(server.port, run.folder.name, "loss") == column(run.folder, "loss")


@pytest.mark.soak
def test_plt_02_a_server_that_hangs_for_twenty_seconds_has_it_all(
    tmp_path: Path, server: VisdomServer
):
    run = Run(tmp_path / "runs", "--steps", 25_000, *at(server.port))
    wait_for(lambda: last_step(server.port, run.folder.name) >= 1000, 60)
    server.signal(signal.SIGSTOP)
    before = run.status()["step"]
    time.sleep(20)
    assert run.status()["step"] > before + 1000
    server.signal(signal.SIGCONT)
    run.finish()
    assert len([line for line in run.board_lines() if "in time" in line]) == 1
    assert len(run.board_lines()) == 2
    assert run.err == ""
    assert curve(server.port, run.folder.name, "return") == column(run.folder, "return_mean")


def test_plt_03_a_page_gets_a_thousand_points_a_curve_of_a_hundred_thousand(
    tmp_path: Path, server: VisdomServer
):
    run = FakeRun(tmp_path / "long-s1", 100_000)
    rows = [plausible(step, 100_000) for step in range(1, 100_001)]
    rows[54_321]["loss"] = 99.0
    run.rows(rows)
    options = BoardOptions(visdom="connect", visdom_port=server.port)
    board = Board(run.folder, options, lambda line: None)
    board.turn(final=True)
    for wanted in CURVES:
        for trace in windows(server.port, board.env)[wanted.window]["content"]["data"]:
            assert 0 < len(trace["x"]) <= LIMIT
    assert (54_322, 99.0) in curve(server.port, board.env, "loss")
    assert last_step(server.port, board.env) == 100_000
    assert len(table(run.folder)) == 100_000


def test_plt_04_without_network_or_server_training_starts_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The proxies lead nowhere, npm is not found, no server runs, and none may be started."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("PATH", "")
    began = time.monotonic()
    run = Run(tmp_path / "runs", "--steps", 1500, *at(free_port()))
    run.reach(1)
    assert time.monotonic() - began < 10  # 5 s and what loading torch takes on a busy machine
    run.finish()
    assert (run.folder / "curves.png").stat().st_size > 10_000
    assert len(run.board_lines()) == 1


def test_plt_04_starting_the_board_takes_no_time(tmp_path: Path):
    run = FakeRun(tmp_path / "run-s1")
    began = time.perf_counter()
    handle = start(run.folder, BoardOptions(visdom="connect", visdom_port=free_port()))
    assert time.perf_counter() - began < 0.5
    assert handle is not None
    handle.close()


def test_plt_05_a_run_can_be_posted_again_to_a_server_that_lost_it(
    tmp_path: Path, server: VisdomServer, quiet: Run
):
    command = [sys.executable, str(MAIN), "board", quiet.folder.name, "--runs", str(quiet.runs)]
    command += map(str, at(server.port))
    env = quiet.folder.name
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"board: {server.url}/env/{env}\n"
        assert (server.envs / f"{env}.json").is_file()
        for window, name in (("return", "return_mean"), ("loss", "loss"), ("q", "q_mean")):
            assert curve(server.port, env, window) == column(quiet.folder, name)
        evaluated = column(quiet.folder, "eval_return_mean")
        assert curve(server.port, env, "return", trace=1) == evaluated
        server.kill()
        server.forget()
        server.start()
        assert env not in envs(server.port)


def test_plt_05_a_run_is_saved_at_its_end(tmp_path: Path, server: VisdomServer):
    run = Run(tmp_path / "runs", "--steps", 2000, *at(server.port), row="random_cartpole").finish()
    server.kill()
    server.start()
    assert curve(server.port, run.folder.name, "return") == column(run.folder, "return_mean")


def test_plt_06_runs_that_start_at_once_do_not_meet(tmp_path: Path, server: VisdomServer):
    flags = ["--steps", 2000, *at(server.port)]
    runs = [Run(tmp_path / "runs", *flags, row="random_cartpole") for _ in range(2)]
    said = {run.process: run.process.communicate(timeout=600)[0] for run in runs}
    assert [run.process.returncode for run in runs] == [0, 0]
    folders = sorted((tmp_path / "runs").iterdir())
    assert len(folders) == 2
    assert {folder.name for folder in folders} <= set(envs(server.port))
    for folder in folders:
        assert any(f"/env/{folder.name}\n" in out for out in said.values())
        assert curve(server.port, folder.name, "return") == column(folder, "return_mean")
    assert windows(server.port, "main") == {}


def test_plt_08_a_port_that_is_taken_is_one_line_and_nobody_is_stopped(tmp_path: Path):
    with answering(200, b"a wiki") as port:
        flags = ["--steps", 2000, *at(port, "auto")]
        run = Run(tmp_path / "runs", *flags, row="random_cartpole").finish()
        assert probe(f"http://127.0.0.1:{port}") == "stranger"
    (line,) = run.board_lines()
    assert str(port) in line
    assert re.search(r"--visdom_port \d+", line)
    assert run.err == ""
    assert board_server.our_ports() == []
    assert table(run.folder)[-1]["step"] == "2000"


STATUS = re.compile(r"\d+% .* [\d,]+/[\d,]+ .* steps/s .* left .*return .*epsilon .*memory \d+%")


def test_plt_11_a_file_gets_plain_lines_with_percent_and_time_left(tmp_path: Path):
    with (tmp_path / "out.txt").open("w") as file:
        run = Run(tmp_path / "runs", "--steps", 3000, "--visdom", "off", stdout=file).finish()
    text = (tmp_path / "out.txt").read_text()
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    lines = [line for line in text.splitlines() if STATUS.match(line.strip())]
    seconds = json.loads((run.folder / "result.json").read_text())["wall_seconds"]
    assert len(lines) >= max(2, seconds // 10)
    assert lines[-1].startswith("100%")


def test_plt_11_a_terminal_gets_one_live_line(tmp_path: Path):
    ours, theirs = pty.openpty()
    flags = ["--steps", 2000, "--visdom", "off"]
    run = Run(tmp_path / "runs", *flags, row="random_cartpole", stdout=theirs)
    os.close(theirs)
    written = b""
    try:
        while block := os.read(ours, 4096):
            written += block
    except OSError:  # how a terminal ends
        pass
    os.close(ours)
    run.finish()
    shown = [part for part in re.split(r"[\r\n]", written.decode()) if "steps/s" in part]
    assert len(shown) >= 2
    assert shown[-1].startswith("100%")


def test_plt_11_time_left_is_right_half_way(tmp_path: Path):
    run = Run(tmp_path / "runs", "--steps", 8000, "--visdom", "off", "--eval_freq", 20_000)
    run.reach(4000)
    promised, began = run.status()["seconds_left"], time.monotonic()
    run.reach(8000)
    took = time.monotonic() - began
    run.finish()
    assert promised == pytest.approx(took, rel=0.3, abs=1)
