"""Servers to meet: real visdom servers on loopback, and programs that behave badly on a port."""

import contextlib
import http.server
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from utils.board_page import ROOT, WITHOUT_TORCH
from utils.board_server import probe


def free_port() -> int:
    """A port of loopback that nobody uses now."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
        return port


def wait_for(condition: Callable[[], object], seconds: float = 15.0) -> None:
    """Return once the condition holds; fail if it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {condition}"
        time.sleep(0.05)


class VisdomServer:
    """A real visdom server that a test may kill, stop and start again."""

    def __init__(self, envs: Path, port: int | None = None, *flags: str) -> None:
        self.port = port or free_port()
        self.envs = envs
        self.flags = flags
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "VisdomServer":
        """Start, and return once it answers."""
        code = f"{WITHOUT_TORCH}from visdom.server.run_server import main; main()"
        flags = ["-port", str(self.port), "-bind_local", "-env_path", str(self.envs), *self.flags]
        self.envs.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *flags, "-logging_level", "CRITICAL"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(lambda: probe(self.url) in ("visdom", "locked"), 30)
        return self

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def signal(self, number: int) -> None:
        """Send it a signal, SIGSTOP for one."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it without a farewell; what was not saved is lost."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def forget(self) -> None:
        """Remove the envs it has saved, so that it starts empty."""
        shutil.rmtree(self.envs, ignore_errors=True)

    def __enter__(self) -> "VisdomServer":
        return self.start()

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.signal(signal.SIGCONT) if self.process else None
        self.kill()


def ask(port: int, endpoint: str, **message: Any) -> Any:
    """What a visdom server answers to a client's call, read as JSON."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/{endpoint}", json.dumps(message).encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=5) as reply:
        return json.loads(reply.read())


def envs(port: int) -> list[str]:
    """The envs that a visdom server holds."""
    found: list[str] = ask(port, "env_state")
    return found


def windows(port: int, env: str) -> dict[str, Any]:
    """The windows of an env, by their ids; empty where there is no such env."""
    if env not in envs(port):
        return {}
    found: dict[str, Any] = ask(port, "win_data", eid=env, win=None)
    return found


def curve(port: int, env: str, window: str, trace: int = 0) -> list[tuple[float, float]]:
    """The points of a trace as the server has them; none where it has no such window."""
    found = windows(port, env)
    if window not in found:
        return []
    data = found[window]["content"]["data"][trace]
    return list(zip(data["x"], data["y"], strict=True))


def last_step(port: int, env: str, window: str = "return") -> float:
    """The newest step of a curve, -1 where there is none; never raises."""
    with contextlib.suppress(OSError, ValueError):
        points = curve(port, env, window)
        return points[-1][0] if points else -1.0
    return -1.0


@contextlib.contextmanager
def answering(code: int, body: bytes = b"", port: int = 0) -> Iterator[int]:
    """A web server that gives one answer to everything; yields its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815, the name that http.server looks for

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def hanging() -> Iterator[int]:
    """A program that takes connections and says nothing; yields its port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield int(listener.getsockname()[1])


@contextlib.contextmanager
def babbling(words: bytes = b"SSH-2.0-OpenSSH_9.6\r\n") -> Iterator[int]:
    """A program that talks something else than HTTP and hangs up; yields its port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)

        def talk() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.sendall(words)

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie does not)."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
