"""Finding, starting and stopping visdom servers."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.utils.stub_server import (
    VisdomServer,
    alive,
    answering,
    babbling,
    envs,
    free_port,
    hanging,
    wait_for,
)
from utils import board_server
from utils.board_page import BoardError, locked
from utils.board_server import (
    bring_up,
    complaint,
    ensure,
    our_pid,
    our_ports,
    probe,
    state_folder,
    stop,
)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "engram"


@pytest.fixture
def port(state: Path) -> Iterator[int]:
    """A free port, on which no server of ours is left behind."""
    port = free_port()
    yield port
    if our_pid(port):
        stop(port)


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def servers(port: int) -> list[int]:
    """The pids of the visdom servers that were started on this port."""
    found = (p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"])
    mine = (p for p in found if ["-port", str(port)] == p.info["cmdline"][3:5])
    return [p.pid for p in mine if alive(p.pid)]


# What answers.


def test_a_visdom_server_is_known(tmp_path: Path):
    with VisdomServer(tmp_path / "envs") as server:
        assert probe(server.url) == "visdom"
    assert probe(server.url) == "absent"


def test_a_visdom_server_that_wants_a_password_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / ".visdom").mkdir()
    for key, value in {
        "HOME": str(tmp_path),
        "VISDOM_USE_ENV_CREDENTIALS": "1",
        "VISDOM_USERNAME": "someone",
        "VISDOM_PASSWORD": "something",
        "VISDOM_COOKIE": "cookie",
    }.items():
        monkeypatch.setenv(key, value)
    with VisdomServer(tmp_path / "envs", None, "-enable_login") as server:
        assert probe(server.url) == "locked"


@pytest.mark.parametrize(
    ("code", "answer"), [(200, "stranger"), (404, "stranger"), (401, "locked"), (403, "locked")]
)
def test_other_web_servers_are_told_apart(code: int, answer: str):
    with answering(code, b"hello") as port:
        assert probe(url(port)) == answer


def test_a_program_that_speaks_something_else_is_a_stranger():
    with babbling() as port:
        assert probe(url(port)) == "stranger"
    with babbling(b"") as port:
        assert probe(url(port)) == "stranger"


def test_a_program_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(board_server, "ANSWER_SECONDS", 0.2)
    with hanging() as port:
        began = time.monotonic()
        assert probe(url(port)) == "silent"
        assert time.monotonic() - began < 1


def test_a_proxy_is_not_asked_about_this_machine(monkeypatch: pytest.MonkeyPatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with answering(401) as port:
        assert probe(url(port)) == "locked"
        assert probe(f"http://localhost:{port}") == "locked"


def test_a_complaint_names_the_port_and_one_that_is_free():
    with answering(200) as port:
        words = (complaint("stranger", url(port)) or "").split()
        assert str(port) in words
        suggested = int(words[-1])
        assert suggested != port
        assert probe(url(suggested)) == "absent"
    assert complaint("visdom", url(port)) is None


# Ours.


def test_a_server_is_started_once_and_only_ours_is_stopped(port: int):
    assert ensure(port) == "visdom"
    pid = our_pid(port)
    assert pid is not None
    assert ensure(port) == "visdom"
    assert our_pid(port) == pid
    assert our_ports() == [port]
    assert servers(port) == [pid]
    assert stop(port) == pid
    assert not alive(pid)
    assert our_pid(port) is None
    with pytest.raises(BoardError, match=f"no visdom server of ours is running on port {port}"):
        stop(port)


def test_our_server_listens_to_this_machine_only_and_in_its_own_session(port: int, state: Path):
    ensure(port)
    pid = our_pid(port)
    assert pid is not None
    listening = psutil.Process(pid).net_connections(kind="inet")
    assert {c.laddr.ip for c in listening if c.status == psutil.CONN_LISTEN} == {"127.0.0.1"}
    assert os.getsid(pid) == pid
    assert "libtorch" not in Path(f"/proc/{pid}/maps").read_text()
    assert (state / "envs" / "main.json").is_file()


def test_processes_that_start_at_once_share_one_server(port: int):
    code = f"from utils.board_server import ensure; print(ensure({port}))"
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate(timeout=60)[0] for process in started] == ["visdom\n"] * 3
    assert servers(port) == [our_pid(port)]


def test_our_server_outlives_the_process_that_started_it(port: int):
    code = f"from utils.board_server import ensure; ensure({port})"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert envs(port) == ["main"]


def test_a_server_of_somebody_else_is_used_and_left_alone(tmp_path: Path, state: Path):
    with VisdomServer(tmp_path / "theirs") as server:
        assert ensure(server.port) == "visdom"
        assert our_pid(server.port) is None
        with pytest.raises(BoardError):
            stop(server.port)
        assert probe(server.url) == "visdom"


def test_a_process_that_took_over_the_pid_is_left_alone(port: int, state: Path):
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    record = {"pid": stranger.pid, "port": port, "created": time.time() - 5000}
    state_folder()
    (state / f"server-{port}.json").write_text(json.dumps(record))
    with pytest.raises(BoardError):
        stop(port)
    assert our_ports() == []
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_a_program_that_is_not_visdom_is_neither_used_nor_fought(port: int, state: Path):
    with answering(200, port=port):
        assert ensure(port) == "stranger"
    assert our_pid(port) is None


def test_a_port_that_is_taken_meanwhile_is_one_clear_line(
    port: int, monkeypatch: pytest.MonkeyPatch
):
    with answering(200, port=port):
        monkeypatch.setattr(board_server, "probe", lambda url: "absent")
        with pytest.raises(BoardError, match=rf"did not start on port {port}: .*in use") as caught:
            ensure(port)
    assert "\n" not in str(caught.value)
    wait_for(lambda: not servers(port))


def test_a_server_gets_its_page_first_and_says_so(port: int, monkeypatch: pytest.MonkeyPatch):
    steps: list[str] = []
    monkeypatch.setattr(board_server, "page_ready", lambda: False)
    monkeypatch.setattr(board_server, "prepare", lambda: steps.append("prepare") or "no npm")
    monkeypatch.setattr(board_server, "ensure", lambda port: steps.append("ensure") or "visdom")
    assert bring_up(port, steps.append) == "visdom"
    assert [step.split()[0] for step in steps] == ["getting", "prepare", "no", "ensure"]
    monkeypatch.setattr(board_server, "page_ready", lambda: True)
    monkeypatch.setattr(board_server, "prepare", lambda: None)
    assert bring_up(port, pytest.fail) == "visdom"


def test_a_state_folder_that_cannot_be_made_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(board_server.tempfile, "gettempdir", lambda: str(tmp_path))
    assert state_folder() == tmp_path / f"engram-{os.getuid()}"
    assert state_folder().is_dir()


def test_a_damaged_record_is_no_server(port: int, state: Path):
    state_folder()
    for text in ("", "[]", '{"pid": "x"}', "null"):
        (state / f"server-{port}.json").write_text(text)
        assert our_pid(port) is None


def test_a_lock_is_held_by_one_and_goes_with_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("utils.board_page.LOCK_SECONDS", 0.2)
    code = (
        "import sys, time; from pathlib import Path; from utils.board_page import locked\n"
        "with locked(Path(sys.argv[1])): print('in', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder.stdout as said:
        said.readline()
    with pytest.raises(BoardError, match="has held"), locked(tmp_path):
        pass
    holder.kill()
    holder.wait()
    with locked(tmp_path):
        pass
