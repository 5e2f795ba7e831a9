"""The visdom server behind the board: finding one, starting one, stopping ours.

Imports neither visdom nor torch. Everything here may block for seconds, so it belongs into the
board's own process or a command, never into training.

    python -m utils.board_server --prepare     # get the files of visdom's page, once
"""

import argparse
import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import psutil

from utils.board_page import ROOT, WITHOUT_TORCH, BoardError, locked, page_ready, prepare

ANSWER_SECONDS: Final = 3.0
START_SECONDS: Final = 20.0
STOP_SECONDS: Final = 5.0

Answer = Literal["visdom", "absent", "silent", "locked", "stranger"]
"""What is at an address: visdom; nothing; something that does not answer in time; a server that
wants a password; another program."""

COMPLAINTS: Final = {
    "absent": "no visdom server answers at {url}; the curves are posted once one does",
    "silent": "{url} does not answer in time; the curves are posted once it does",
    "locked": "the visdom server at {url} asks for a password, which the board does not have; "
    "choose another port with --visdom_port {free}",
    "stranger": "port {port} is used by a program that is not visdom; "
    "choose another port with --visdom_port {free}",
}


# Where things lie.


def state_folder() -> Path:
    """Ours for pids, locks and visdom's saved envs: XDG_STATE_HOME or ~/.local/state, else /tmp."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(home) / "engram"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.gettempdir()) / f"engram-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


# Finding a server.


def is_loopback(url: str) -> bool:
    """Whether the address is this machine's own."""
    return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")


def probe(url: str) -> Answer:
    """What answers at `http://host:port`; takes `ANSWER_SECONDS` a try at most."""
    answer = _ask(url)
    if answer == "stranger":
        # A server that is just dying resets the connection like a stranger would.
        time.sleep(0.1)
        answer = _ask(url)
    return answer


def _ask(url: str) -> Answer:
    try:
        with _opener(url).open(url + "/", timeout=ANSWER_SECONDS) as reply:
            page = reply.read(1 << 16)
    except urllib.error.HTTPError as error:
        error.close()
        return "locked" if error.code in (401, 403) else "stranger"
    except urllib.error.URLError as error:
        return "silent" if isinstance(error.reason, TimeoutError) else "absent"
    except TimeoutError:
        return "silent"
    except (OSError, http.client.HTTPException):
        return "stranger"
    if b"Visdom Login" in page:
        return "locked"
    return "visdom" if b"ACTIVE_ENV" in page else "stranger"


def _opener(url: str) -> urllib.request.OpenerDirector:
    """Past any proxy of the environment where the server is on this machine."""
    if is_loopback(url):
        return urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener()


def complaint(answer: str, url: str) -> str | None:
    """One line on why there are no curves at `url`, which names a way out; None for visdom."""
    port = urlsplit(url).port or 80
    text = COMPLAINTS.get(answer)
    return text and text.format(url=url, port=port, free=free_port(port))


def free_port(after: int) -> int:
    """A port near `after` that nobody uses now, to suggest."""
    for port in range(after + 1, min(after + 100, 1 << 16)):
        with socket.socket() as trial, contextlib.suppress(OSError):
            trial.bind(("127.0.0.1", port))
            return port
    return after + 1


# Starting and stopping ours.


def bring_up(port: int, note: Callable[[str], None]) -> Answer:
    """`ensure` with the files of its page, which are fetched once; `note` is told what is odd."""
    if not page_ready():
        note("getting the files of visdom's page, once; this may take a minute")
    if why := prepare():
        note(why)
    return ensure(port)


def ensure(port: int) -> Answer:
    """What answers on loopback at `port`, after starting a visdom server if nothing did.

    Runs that start at once share one server: the second waits, and finds the first one's.
    Raises BoardError where the server does not come up.
    """
    url = f"http://127.0.0.1:{port}"
    lock = state_folder() / f"server-{port}.lock"
    lock.touch()
    with locked(lock):
        answer = probe(url)
        if answer == "absent":
            _await(_spawn(port), url)
            answer = "visdom"
    return answer


def _spawn(port: int) -> "subprocess.Popen[bytes]":
    folder = state_folder()
    # Not `-m visdom.server`, which downloads before it listens; and of no terminal, so that neither
    # Ctrl-C nor the end of the run reaches it.
    code = f"{WITHOUT_TORCH}from visdom.server.run_server import main; main()"
    flags = ["-port", str(port), "-bind_local", "-env_path", str(folder / "envs")]
    with _log_path(port).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *flags, "-logging_level", "CRITICAL"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    # Takes its exit code if it ends before us, so that it does not stay as a zombie.
    threading.Thread(target=process.wait, daemon=True).start()
    record = {"pid": process.pid, "port": port, "created": _created(process.pid)}
    _record_path(port).write_text(json.dumps(record), encoding="utf-8")
    return process


def _await(process: "subprocess.Popen[bytes]", url: str) -> None:
    port = urlsplit(url).port or 0
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if probe(url) == "visdom" and process.poll() is None:
            return
        if process.poll() is not None:
            raise BoardError(f"the visdom server did not start on port {port}: {_last_words(port)}")
        time.sleep(0.05)
    process.kill()
    raise BoardError(f"the visdom server was not up on port {port} after {START_SECONDS:.0f} s")


def _log_path(port: int) -> Path:
    return state_folder() / f"server-{port}.log"


def _record_path(port: int) -> Path:
    return state_folder() / f"server-{port}.json"


def _last_words(port: int) -> str:
    lines = _log_path(port).read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def _created(pid: int) -> float | None:
    """When the process was started, in seconds since 1970; None where there is no such process."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.Error:
        return None


def our_pid(port: int) -> int | None:
    """The pid of the server that we started on `port`, if it still runs."""
    try:
        record = json.loads(_record_path(port).read_text(encoding="utf-8"))
        pid, created = int(record["pid"]), float(record["created"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    now = _created(pid)
    return pid if now is not None and abs(now - created) < 1 else None


def our_ports() -> list[int]:
    """The ports on which servers that we started are running."""
    names = (path.stem.removeprefix("server-") for path in state_folder().glob("server-*.json"))
    return sorted(port for port in map(int, names) if our_pid(port) is not None)


def stop(port: int) -> int:
    """End the server that we started on `port`, and no other; returns the pid it had.

    Raises BoardError where there is no such server.
    """
    pid = our_pid(port)
    if pid is None:
        raise BoardError(f"no visdom server of ours is running on port {port}")
    try:
        process = psutil.Process(pid)
        process.terminate()
        with contextlib.suppress(psutil.TimeoutExpired):
            process.wait(STOP_SECONDS)
        process.kill()
    except psutil.NoSuchProcess:
        pass
    _record_path(port).unlink(missing_ok=True)
    return pid


def main() -> int:
    """The command: `--prepare`. Ends with 0 whatever happened, since all else works without."""
    parser = argparse.ArgumentParser(prog="python -m utils.board_server", description=main.__doc__)
    parser.add_argument("--prepare", action="store_true", required=True)
    parser.parse_args()
    sys.stdout.write(f"{prepare() or 'the page of the board has its files'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
