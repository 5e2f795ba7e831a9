"""The board: what it posts, and that nothing about a server reaches training."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.utils.fake_run import MEMORY_LIMIT, FakeRun
from tests.utils.stub_server import (
    VisdomServer,
    alive,
    answering,
    curve,
    envs,
    free_port,
    hanging,
    last_step,
    wait_for,
    windows,
)
from utils import board, board_handle, board_server
from utils.board import Board, BoardHandle, BoardOptions, post, start, stop_server
from utils.board_page import BoardError


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VisdomServer]:
    """One visdom server for the tests that leave it as it is."""
    with VisdomServer(tmp_path_factory.mktemp("visdom")) as server:
        yield server


@pytest.fixture
def own(tmp_path: Path) -> Iterator[VisdomServer]:
    """A visdom server to kill, stop and start again."""
    with VisdomServer(tmp_path / "visdom") as server:
        yield server


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def run(tmp_path: Path, request: pytest.FixtureRequest) -> FakeRun:
    """A run of 20 rows, in a folder named as its test."""
    run = FakeRun(tmp_path / "runs" / re.sub(r"\W|_", "-", request.node.name))
    run.rows([{"step": 100.0 * i, "return_mean": float(i)} for i in range(1, 21)])
    run.status(2000)
    return run


def at(port: int, mode: str = "connect") -> BoardOptions:
    return BoardOptions.model_validate({"visdom": mode, "visdom_port": port})


def board_of(run: FakeRun, port: int, mode: str = "connect") -> tuple[Board, list[str]]:
    told: list[str] = []
    return Board(run.folder, at(port, mode), told.append), told


def closed(handle: BoardHandle | None) -> list[str]:
    """The lines of a board that is over; its process is gone."""
    assert handle is not None
    handle.close()
    assert handle._process is None or handle._process.poll() is not None
    return handle.news()


# Options.


def test_the_address_is_checked_when_given():
    BoardOptions(visdom_server="https://a.host", visdom_port=80)
    BoardOptions(visdom_server="http://[::1]")
    for wrong in ("127.0.0.1", "http://host:8097", "http://host/path", "ftp://host"):
        with pytest.raises(ValidationError):
            BoardOptions(visdom_server=wrong)
    with pytest.raises(ValidationError):
        BoardOptions(visdom_port=0)
    with pytest.raises(ValidationError):
        BoardOptions.model_validate({"visdom": "yes"})


def test_importing_the_board_loads_neither_visdom_nor_torch_nor_numpy():
    heavy = "{'visdom', 'torch', 'numpy', 'requests', 'tornado'}"
    code = f"import sys, utils.board; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


# What is posted.


def test_a_run_has_an_env_with_its_curves_and_config(run: FakeRun, server: VisdomServer):
    run.row(2100, eval_return_mean=22)
    follower, told = board_of(run, server.port)
    follower.turn()
    name = run.folder.name
    assert told == [f"{server.url}/env/{name}"]
    found = windows(server.port, name)
    expected = (
        "run return length loss q td_error epsilon steps_per_second memory_fill memory_bytes "
        "sample_age sample_use memory_return process_bytes"
    )
    assert set(found) == set(expected.split())
    train = [(100.0 * i, float(i)) for i in range(1, 21)]
    assert curve(server.port, name, "return")[:20] == train
    assert curve(server.port, name, "return", trace=1) == [(2100, 22)]
    assert curve(server.port, name, "memory_fill") == [(2100, 100 * 2100 / MEMORY_LIMIT)]
    assert "CartPole-v1" in found["run"]["content"]
    assert "2.13.0" in found["run"]["content"]


def test_updates_per_second_are_drawn_from_two_rows(run: FakeRun, server: VisdomServer):
    run.row(2100, wall_seconds=10, updates=100)
    run.row(2200, wall_seconds=12, updates=300)
    board_of(run, server.port)[0].turn()
    assert curve(server.port, run.folder.name, "updates_per_second") == [(2200, 100)]


def test_only_windows_with_news_are_posted_again(run: FakeRun, server: VisdomServer):
    follower, _ = board_of(run, server.port)
    run.row(2100)
    follower.turn()
    before = windows(server.port, run.folder.name)
    follower.turn()
    assert windows(server.port, run.folder.name) == before
    run.rows([{"step": 2200.0, "loss": 0.5}])
    follower.turn()
    after = windows(server.port, run.folder.name)
    renewed = [key for key in after if after[key]["contentID"] != before[key]["contentID"]]
    assert renewed == ["loss"]


def test_infinities_and_nans_do_not_reach_the_page(run: FakeRun, server: VisdomServer):
    run.row(2100, loss=float("inf"), q_mean=float("nan"), td_error_mean=float("-inf"))
    run.row(2200, loss=0.5)
    board_of(run, server.port)[0].turn()
    assert curve(server.port, run.folder.name, "loss") == [(2200, 0.5)]
    text = json.dumps(windows(server.port, run.folder.name))
    assert "Infinity" not in text
    assert "NaN" not in text


def test_a_run_with_other_columns_is_drawn_as_far_as_it_goes(tmp_path: Path, server: VisdomServer):
    run = FakeRun(tmp_path / "other-agent")
    run.progress.write_text("step,return_mean,actor_loss\n1,2,3\n2,3,4\n")
    board_of(run, server.port)[0].turn()
    assert set(windows(server.port, "other-agent")) == {"run", "return"}


def test_a_name_that_visdom_cannot_carry_is_changed(tmp_path: Path, server: VisdomServer):
    run = FakeRun(tmp_path / "what?a#run 100%")
    run.row(100)
    _, told = follower = board_of(run, server.port)
    follower[0].turn()
    assert told == [f"{server.url}/env/what_a_run_100_"]
    assert "what_a_run_100_" in envs(server.port)


def test_the_env_is_saved_at_checkpoints_and_at_the_end(run: FakeRun, own: VisdomServer):
    saved = own.envs / f"{run.folder.name}.json"
    follower, _ = board_of(run, own.port)

    def saved_steps() -> int:
        return len(json.loads(saved.read_text())["jsons"]["return"]["content"]["data"][0]["x"])

    follower.turn()
    assert saved_steps() == 20
    run.row(2100)
    follower.turn()
    assert saved_steps() == 20
    run.status(3000)
    follower.turn()
    assert saved_steps() == 21
    run.row(3100)
    follower.turn(final=True)
    assert saved_steps() == 22


# Servers that come, go and misbehave.


def test_a_server_that_comes_later_gets_everything(run: FakeRun, tmp_path: Path):
    port = free_port()
    follower, told = board_of(run, port)
    follower.turn()
    follower.turn()
    assert told == [
        f"no visdom server answers at http://127.0.0.1:{port}; the curves are posted once one does"
    ]
    with VisdomServer(tmp_path / "visdom", port):
        follower.turn()
        assert told[1:] == [follower.address]
        assert last_step(port, run.folder.name) == 2000


def test_a_server_that_lost_everything_gets_everything(run: FakeRun, own: VisdomServer):
    """Also the windows that have no news, and without a word, since nobody missed anything."""
    run.row(2100)
    follower, told = board_of(run, own.port)
    follower.turn()
    before = set(windows(own.port, run.folder.name))
    own.kill()
    own.forget()
    own.start()
    follower.turn()
    assert set(windows(own.port, run.folder.name)) == before
    assert told == [follower.address]


def test_a_server_that_came_back_with_an_older_state_gets_everything(
    run: FakeRun, own: VisdomServer
):
    follower, _ = board_of(run, own.port)
    follower.turn()  # saves
    run.rows([{"step": 2100.0, "loss": 0.5}])
    follower.turn()
    run.rows([{"step": 2200.0, "return_mean": 22.0}])
    follower.turn()
    own.kill()
    own.start()
    assert curve(own.port, run.folder.name, "loss") == []
    assert last_step(own.port, run.folder.name) == 2000
    follower.turn()
    assert curve(own.port, run.folder.name, "loss") == [(2100, 0.5)]
    assert last_step(own.port, run.folder.name) == 2200


def test_a_lost_server_is_one_note_and_is_posted_to_again(run: FakeRun, own: VisdomServer):
    follower, told = board_of(run, own.port)
    follower.turn()
    own.kill()
    for step in (2100, 2200, 2300):
        run.row(step)
        follower.turn()
    assert len(told) == 2
    assert "no visdom server answers" in told[1]
    own.start()
    follower.turn()
    assert [x for x, _ in curve(own.port, run.folder.name, "return")] == [
        100.0 * i for i in range(1, 24)
    ]
    own.kill()
    follower.turn()
    assert len(told) == 2


def test_a_server_that_hangs_is_one_note_and_is_posted_to_again(
    run: FakeRun, own: VisdomServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(board, "TIMEOUT", (0.3, 0.3))
    monkeypatch.setattr(board_server, "ANSWER_SECONDS", 0.3)
    follower, told = board_of(run, own.port)
    follower.turn()
    own.signal(signal.SIGSTOP)
    began = time.monotonic()
    follower.turn()
    follower.turn()
    assert time.monotonic() - began < 3
    assert len(told) == 2
    assert "does not answer in time" in told[1]
    own.signal(signal.SIGCONT)
    run.row(2100)
    wait_for(lambda: (follower.turn(), last_step(own.port, run.folder.name) == 2100)[1])
    assert len(told) == 2


def test_a_server_that_wants_a_password_is_one_note(run: FakeRun):
    with answering(401) as port:
        follower, told = board_of(run, port)
        follower.turn()
        follower.turn()
    assert len(told) == 1
    assert "password" in told[0]
    assert follower.address is None


@pytest.mark.parametrize("mode", ["auto", "connect"])
def test_a_program_that_is_not_visdom_is_one_note_with_a_way_out(run: FakeRun, mode: str):
    with answering(200, b"<html>a wiki</html>") as port:
        follower, told = board_of(run, port, mode)
        follower.turn()
        follower.turn()
    assert len(told) == 1
    assert f"port {port} is used by a program that is not visdom" in told[0]
    assert "--visdom_port" in told[0]


def test_a_server_that_refuses_curves_is_one_note(run: FakeRun):
    """It looks like visdom, but no call of a client gets through: a proxy before it, for one."""
    with answering(200, b"<script>var ACTIVE_ENV = '';</script>") as port:
        follower, told = board_of(run, port)
        follower.turn()
        follower.turn()
    (line,) = told
    assert line.startswith(f"the curves could not be posted to http://127.0.0.1:{port}: ")
    assert follower.address is None


@pytest.mark.parametrize(
    ("code", "words"),
    [(401, "asks for a password"), (200, "is not visdom"), (500, "is not visdom")],
)
def test_a_server_that_is_replaced_is_one_note(
    run: FakeRun, own: VisdomServer, code: int, words: str
):
    follower, told = board_of(run, own.port)
    follower.turn()
    own.kill()
    with answering(code, b"a wiki", port=own.port):
        for step in (2100, 2200):
            run.row(step)
            follower.turn()
    assert len(told) == 2
    assert words in told[1]
    own.start()
    follower.turn()
    assert last_step(own.port, run.folder.name) == 2200
    assert len(told) == 2


def test_a_call_that_is_refused_raises():
    with answering(503, b'{"contentID": "1"}') as port:
        client = board._client(at(port), "env")
        with pytest.raises(ConnectionError, match="HTTP 503"):
            client.text("words")
        client.session.close()
    with pytest.raises(ConnectionError):
        client.text("words")


def test_another_trouble_during_an_outage_is_not_another_note(run: FakeRun, own: VisdomServer):
    follower, told = board_of(run, own.port)
    follower.turn()
    own.kill()
    follower.turn()
    with answering(200, port=own.port):
        follower.turn()
    assert len(told) == 2


def test_the_next_outage_is_told_if_it_is_another(run: FakeRun, own: VisdomServer):
    follower, told = board_of(run, own.port)
    follower.turn()
    own.kill()
    follower.turn()
    own.start()
    follower.turn()
    own.kill()
    with answering(200, port=own.port):
        follower.turn()
    assert ["no visdom" in told[1], "not visdom" in told[2], len(told)] == [True, True, 3]


# The process, as training sees it.


def test_a_board_that_is_off_is_none(run: FakeRun):
    assert start(run.folder, BoardOptions(visdom="off")) is None


def test_a_visdom_that_is_not_installed_is_one_line(run: FakeRun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(board, "installed", lambda: False)
    handle = start(run.folder, BoardOptions())
    assert handle is not None
    (line,) = handle.news()
    assert board.INSTALL in line
    assert closed(handle) == []
    assert post(run.folder, BoardOptions(), lambda line: None) == 1


def test_a_board_that_cannot_be_started_is_one_line(run: FakeRun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    handle = start(run.folder, BoardOptions(visdom="connect"))
    assert handle is not None
    (line,) = handle.news()
    assert "could not be started" in line
    assert closed(handle) == []


def test_the_process_follows_its_run_to_the_end(run: FakeRun, server: VisdomServer):
    began = time.monotonic()
    handle = start(run.folder, at(server.port))
    assert handle is not None
    assert time.monotonic() - began < 0.5
    news: list[str] = []
    wait_for(lambda: news.extend(handle.news()) or news)
    assert news == [f"board: {server.url}/env/{run.folder.name}"]
    assert run.folder.name in envs(server.port)
    wait_for(lambda: last_step(server.port, run.folder.name) == 2000)
    run.row(2100)
    wait_for(lambda: last_step(server.port, run.folder.name) == 2100, 5)
    run.row(2200)
    run.status(2200, "finished")
    began = time.monotonic()
    assert closed(handle) == []
    assert time.monotonic() - began < 3
    assert last_step(server.port, run.folder.name) == 2200
    assert (server.envs / f"{run.folder.name}.json").is_file()
    assert (run.folder / "live" / "board.log").read_text() == ""
    told = json.loads((run.folder / "live" / "board.json").read_text())
    assert told == {"env": run.folder.name, "address": news[0][7:], "notes": []}


@pytest.mark.parametrize("state", ["finished", "interrupted", "failed"])
def test_the_process_ends_with_its_run(run: FakeRun, server: VisdomServer, state: str):
    handle = start(run.folder, at(server.port))
    assert handle is not None and handle._process is not None
    run.status(2000, state)
    assert handle._process.wait(15) == 0
    assert last_step(server.port, run.folder.name) == 2000
    handle.close()


def test_a_run_that_failed_without_a_last_status_is_posted_to_the_end(
    run: FakeRun, server: VisdomServer
):
    handle = start(run.folder, at(server.port))
    assert handle is not None
    wait_for(lambda: last_step(server.port, run.folder.name) == 2000)
    run.row(2100)
    began = time.monotonic()
    closed(handle)
    assert time.monotonic() - began < 3
    assert last_step(server.port, run.folder.name) == 2100


def test_what_an_earlier_part_of_the_run_left_does_not_end_it(run: FakeRun, server: VisdomServer):
    run.status(2000, "interrupted", pid=1)
    (run.folder / "live" / "board.json").write_text('{"notes": ["of yesterday"]}')
    handle = start(run.folder, at(server.port))
    assert handle is not None
    assert handle.news() == []
    wait_for(lambda: last_step(server.port, run.folder.name) == 2000)
    run.status(2100, "running")
    run.row(2100)
    wait_for(lambda: last_step(server.port, run.folder.name) == 2100)
    run.status(2100, "finished")
    closed(handle)


def test_the_process_is_in_a_session_of_its_own_and_loads_no_torch(
    run: FakeRun, server: VisdomServer
):
    handle = start(run.folder, at(server.port))
    assert handle is not None and handle._process is not None
    pid = handle._process.pid
    wait_for(lambda: last_step(server.port, run.folder.name) == 2000)
    assert os.getsid(pid) == pid
    assert "libtorch" not in Path(f"/proc/{pid}/maps").read_text()
    run.status(2000, "finished")
    closed(handle)


PARENT = """
import sys
from pathlib import Path
from utils.board import BoardOptions, start
handle = start(Path(sys.argv[1]), BoardOptions(visdom="connect", visdom_port=int(sys.argv[2])))
print(handle._process.pid, flush=True)
sys.stdin.read()
"""


def test_the_process_ends_when_training_is_killed(run: FakeRun, server: VisdomServer):
    command = [sys.executable, "-c", PARENT, str(run.folder), str(server.port)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        wait_for(lambda: last_step(server.port, run.folder.name) == 2000)
        run.row(2100)
        parent.kill()
    wait_for(lambda: not alive(pid), 5)
    assert last_step(server.port, run.folder.name) == 2100


def test_a_server_that_hangs_does_not_hold_the_end_of_training(run: FakeRun):
    with hanging() as port:
        handle = start(run.folder, at(port))
        assert handle is not None
        time.sleep(0.5)
        run.status(2000, "finished")
        began = time.monotonic()
        handle.close(timeout=1)
        assert time.monotonic() - began < 2
        assert handle._process is not None and handle._process.poll() is not None


def test_silence_is_one_line(run: FakeRun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(board_handle, "ADDRESS_SECONDS", 0.0)
    monkeypatch.setattr(board_handle, "NEWS_SECONDS", 0.0)
    with hanging() as port:
        handle = start(run.folder, at(port))
        assert handle is not None
        assert handle.news() == ["board: no page after 0 s; its address follows"]
        assert handle.news() == []
        handle.close(timeout=0.1)


def test_a_process_that_fails_is_one_line(run: FakeRun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(board_handle, "NEWS_SECONDS", 0.0)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    handle = start(run.folder, at(free_port()))
    assert handle is not None and handle._process is not None
    handle._process.wait(5)
    (line,) = handle.news()
    assert "live/board.log" in line
    assert closed(handle) == []


def test_news_are_looked_for_a_few_times_a_second(run: FakeRun):
    handle = BoardHandle(run.folder, None, "a note")
    assert handle.news() == ["a note"]
    (run.folder / "live" / "board.json").write_text('{"notes": ["another"]}')
    assert handle.news() == []
    wait_for(handle.news, 1)
    assert handle.news() == []


def test_auto_starts_a_server_that_outlives_the_run(run: FakeRun):
    port = free_port()
    options = at(port, "auto")
    handle = start(run.folder, options)
    wait_for(lambda: last_step(port, run.folder.name) == 2000)
    run.status(2000, "finished")
    assert closed(handle) == [f"board: http://127.0.0.1:{port}/env/{run.folder.name}"]
    assert last_step(port, run.folder.name) == 2000
    said: list[str] = []
    assert stop_server(at(free_port()), said.append) == 1
    assert f"there is one on --visdom_port {port}" in said[0]
    assert stop_server(options, said.append) == 0
    assert stop_server(options, said.append) == 1


def test_a_server_that_was_stopped_is_not_started_again(run: FakeRun):
    port = free_port()
    follower, told = board_of(run, port, "auto")
    follower.turn()
    assert stop_server(at(port), lambda line: None) == 0
    follower.turn()
    follower.turn()
    assert board_server.probe(f"http://127.0.0.1:{port}") == "absent"
    assert len(told) == 2


def test_auto_starts_nothing_for_another_machine(run: FakeRun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(board_server, "probe", lambda url: "absent")
    monkeypatch.setattr(board_server, "ensure", lambda port: pytest.fail("started a server"))
    told: list[str] = []
    Board(run.folder, BoardOptions(visdom_server="http://a.host"), told.append).turn()
    assert len(told) == 1


def test_a_server_that_does_not_start_is_one_note(run: FakeRun, monkeypatch: pytest.MonkeyPatch):
    def bring_up(port: int, note: object) -> str:
        raise BoardError("the visdom server did not start: why")

    monkeypatch.setattr(board_server, "bring_up", bring_up)
    follower, told = board_of(run, free_port(), "auto")
    follower.turn()
    follower.turn()
    assert told == ["the visdom server did not start: why"]


# The command.


def test_a_run_can_be_posted_again(run: FakeRun, server: VisdomServer):
    said: list[str] = []
    run.status(2000, "finished", pid=1)
    assert post(run.folder, at(server.port), said.append) == 0
    assert said == [f"board: {server.url}/env/{run.folder.name}"]
    assert last_step(server.port, run.folder.name) == 2000
    assert (server.envs / f"{run.folder.name}.json").is_file()


def test_posting_without_a_server_says_why(run: FakeRun, tmp_path: Path):
    said: list[str] = []
    assert post(run.folder, at(free_port()), said.append) == 1
    assert "no visdom server answers" in said[0]
    assert post(run.folder, BoardOptions(visdom="off"), said.append) == 1
    assert "--visdom off" in said[1]
    assert post(tmp_path, at(free_port()), said.append) == 2
    assert "is not a run" in said[2]
