"""The board: a process that follows a run's folder and posts its curves to a visdom server.

Training only calls `start`, then `news` and `close` of what it returns: it shares files with the
board and nothing else, so a server that is absent, hangs or dies cannot touch it. `post` shows a
run again, finished or not. Visdom is imported in here alone, inside functions; torch never is.
"""

import contextlib
import json
import logging
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, cast
from urllib.parse import quote

from core.options import Options, option
from utils.board_handle import BoardHandle, read_json
from utils.board_page import INSTALL, ROOT, BoardError, NoTorch, installed
from utils.board_view import Sight
from utils.board_windows import config_window, curve_window
from utils.series import CURVES, Curves

PERIOD_SECONDS: Final = 1.0  # between two turns
DUTY: Final = 20  # a turn that took t seconds of CPU time is followed by a pause of DUTY * t
PAUSE_SECONDS: Final = 5.0  # but of no more than this
ORPHAN_SECONDS: Final = 15.0  # what the board may still take once its run is gone
TIMEOUT: Final = (1.0, 3.0)  # to connect, to answer; visdom itself would wait for ever


class BoardOptions(Options):
    """Where the curves go."""

    visdom: Literal["auto", "connect", "off"] = option(
        "auto",
        changes=True,
        help="auto: use the visdom server at the address below or start one; "
        "connect: only use one; off: no board",
    )
    visdom_server: str = option(
        "http://127.0.0.1",
        pattern=r"^https?://([^/:\s]+|\[[0-9A-Fa-f:]+\])$",
        changes=True,
        help="scheme and host of the visdom server, without its port",
    )
    visdom_port: int = option(8097, ge=1, le=65535, changes=True, help="port of the visdom server")


def start(folder: Path, options: BoardOptions) -> BoardHandle | None:
    """Start the board of the run in `folder`, whose config is already there; None if it is off.

    Takes some milliseconds and never raises: what goes wrong comes as `news`.
    """
    if options.visdom == "off":
        return None
    if not installed():
        return BoardHandle(folder, None, f"board: visdom is not installed: {INSTALL}")
    try:
        return BoardHandle(folder, _spawn(folder.resolve(), options))
    except OSError as error:
        return BoardHandle(folder, None, f"board: could not be started: {error}")


def _spawn(folder: Path, options: BoardOptions) -> "subprocess.Popen[bytes]":
    live = folder / "live"
    live.mkdir(exist_ok=True)
    (live / "board.json").unlink(missing_ok=True)
    given = options.model_dump_json(include=set(BoardOptions.model_fields))
    with (live / "board.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "utils.board", str(folder), str(os.getpid()), given],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


# Commands.


def post(folder: Path, options: BoardOptions, say: Callable[[str], None] = print) -> int:
    """Post the run in `folder` once, as it is now, and say its address. Returns the exit code."""
    if not (folder / "progress.csv").is_file():
        say(f"board: {folder} is not a run: it has no progress.csv")
        return 2
    if options.visdom == "off" or not installed():
        why = "--visdom off" if options.visdom == "off" else f"visdom is not installed: {INSTALL}"
        say(f"board: nothing was posted: {why}")
        return 1
    board = Board(folder.resolve(), options, lambda line: say(f"board: {line}"))
    board.turn(final=True)
    return 0 if board.address else 1


def stop_server(options: BoardOptions, say: Callable[[str], None] = print) -> int:
    """End the visdom server that `--visdom auto` started on this port. Returns the exit code."""
    from utils.board_server import our_ports, stop

    port = options.visdom_port
    try:
        pid = stop(port)
    except BoardError as error:
        others = ", ".join(map(str, our_ports()))
        hint = f"; there is one on --visdom_port {others}" if others else ""
        say(f"board: {error}{hint}")
        return 1
    say(f"board: stopped the visdom server on port {port} (pid {pid})")
    return 0


# The board's process.


class Board:
    """One run on a visdom server, in an env named as its folder.

    `tell` is called with each new line for the person: notes, and the address once the env is
    there. A lost server is looked for at each turn, and gets every window when it is back.
    """

    def __init__(self, folder: Path, options: BoardOptions, tell: Callable[[str], None]) -> None:
        self.env = re.sub(r"[^A-Za-z0-9.-]", "_", folder.name)
        self.address: str | None = None
        self.notes: list[str] = []
        self._folder = folder
        self._options = options
        self._tell = tell
        self._url = f"{options.visdom_server}:{options.visdom_port}"
        self._curves = Curves(folder / "progress.csv")
        self._sight = Sight(folder)
        self._client: Any = None
        self._may_start = options.visdom == "auto"
        self._in_trouble = False
        self._newest, self._mark = "run", ""  # the window posted last, and its content's name
        self._saved: object = None

    def turn(self, final: bool = False) -> None:
        """Post what is new; with `final` also save the env. Raises nothing about the server."""
        config = read_json(self._folder / "config.json").get("options") or {}
        self._curves.memory_limit = config.get("memory_limit")
        self._curves.read()
        # Twice, since a server that was restarted wants a new connection and every window.
        error = self._try(final) and self._try(final)
        if error:
            self._trouble(f"the curves could not be posted to {self._url}: {error}")

    def _try(self, final: bool) -> str | None:
        """Returns why a visdom server did not take the curves; None if it did, or there is none."""
        try:
            if self._client is None and not self._connect():
                return None
            self._post(final)
        except ConnectionError as error:
            self._client = None
            return str(error)
        self._in_trouble = False
        return None

    def _connect(self) -> bool:
        if self._look() != "visdom":
            return False
        self._client = _client(self._options, self.env)
        self._start_over()
        return True

    def _look(self) -> str:
        """What is at the address now, after starting a server if that is asked for."""
        from utils import board_server as server

        answer: str = server.probe(self._url)
        may_start = self._may_start and server.is_loopback(self._url)
        self._may_start = False  # a server that was stopped later was stopped by someone
        if answer == "absent" and may_start:
            try:
                answer = server.bring_up(self._options.visdom_port, self._note)
            except (BoardError, OSError) as error:
                self._trouble(str(error))
        if why := server.complaint(answer, self._url):
            self._trouble(why)
        return answer

    def _start_over(self) -> None:
        """Fill a server that has nothing of this run, or something old."""
        config, versions = (
            read_json(self._folder / f"{name}.json") for name in ("config", "versions")
        )
        self._client.text(**config_window(self._folder.name, config, versions))
        self._newest, self._mark = "run", self._content_id("run")
        self._curves.touch()
        self._sight.touch()
        self._saved = None
        if self.address is None:
            self.address = f"{self._url}/env/{quote(self.env)}"
            self._tell(self.address)

    def _post(self, final: bool) -> None:
        # A server that came back with an older state, or none, does not have the newest window.
        if self._content_id(self._newest) != self._mark:
            self._start_over()
        self._newest = self._sight.post(self._client) or self._newest
        for curve in CURVES:
            if curve.window in self._curves.changed:
                self._client.scatter(**curve_window(curve, self._curves.traces(curve)))
                self._curves.changed.discard(curve.window)
                self._newest = curve.window
        self._mark = self._content_id(self._newest)
        self._save(final)

    def _save(self, final: bool) -> None:
        """A server forgets at its end what was not saved: at checkpoints, and with the last."""
        step = read_json(self._folder / "live" / "status.json").get("checkpoint_step")
        if final or step != self._saved:
            self._client.save([self.env])
            self._saved = step

    def _content_id(self, window: str) -> str:
        """What the server named this window's content when it was posted, at random."""
        found = self._client.get_window_data(win=window, env=self.env)
        try:
            return str(json.loads(found)["contentID"])
        except (ValueError, LookupError, TypeError):
            raise ConnectionError("it does not answer as visdom does") from None

    def _trouble(self, line: str) -> None:
        """One note as long as the trouble lasts, however it changes."""
        if not self._in_trouble:
            self._in_trouble = True
            self._note(line)

    def _note(self, line: str) -> None:
        if line not in self.notes:
            self.notes.append(line)
            self._tell(line)


def _visdom() -> Any:
    """The visdom package, kept from loading torch as it would."""
    sys.meta_path.insert(0, cast(Any, NoTorch))
    try:
        import visdom
    finally:
        sys.meta_path.remove(cast(Any, NoTorch))
    return visdom


def _client(options: BoardOptions, env: str) -> Any:
    """A visdom client of which every call ends in time, and raises ConnectionError if it failed."""
    from utils.board_server import is_loopback

    visdom = _visdom()
    logging.getLogger("visdom").setLevel(logging.CRITICAL)
    client: Any = visdom.Visdom(
        server=options.visdom_server,
        port=options.visdom_port,
        env=env,
        send=False,  # the constructor would post before it has a timeout
        use_incoming_socket=False,
        raise_exceptions=True,
    )
    session = client.session
    session.trust_env = not is_loopback(options.visdom_server)

    def send(address: str, data: str | None = None) -> str:
        reply = session.post(address, data=data, timeout=TIMEOUT)
        if reply.status_code != 200:
            raise ConnectionError(f"HTTP {reply.status_code}")
        return str(reply.text)

    client._handle_post = send
    client.send = True
    return client


def follow(folder: Path, options: BoardOptions, parent: int) -> None:
    """Post a run until it has ended, or `parent`, which started us, says so or is gone."""
    board = Board(folder, options, lambda _: _publish(board))
    while True:
        final = _ended(folder, parent)
        began = time.process_time()
        board.turn(final)
        if final:
            return
        busy = DUTY * (time.process_time() - began)
        wake = time.monotonic() + min(max(PERIOD_SECONDS, busy), PAUSE_SECONDS)
        while time.monotonic() < wake and not _ended(folder, parent):
            time.sleep(0.1)


def _ended(folder: Path, parent: int) -> bool:
    if os.getppid() != parent or select.select([sys.stdin], [], [], 0)[0]:
        return True
    status = read_json(folder / "live" / "status.json")
    # The status of another process is what an earlier part of a resumed run has left.
    return status.get("pid") == parent and status.get("state") != "running"


def _publish(board: Board) -> None:
    live = board._folder / "live"
    news = {"env": board.env, "address": board.address, "notes": board.notes}
    with contextlib.suppress(OSError):
        (live / "board.json.new").write_text(json.dumps(news), encoding="utf-8")
        (live / "board.json.new").replace(live / "board.json")


def _end_without(parent: int) -> None:
    """End this process, and a download it waits for, some time after its run has gone."""
    while os.getppid() == parent:
        time.sleep(1)
    time.sleep(ORPHAN_SECONDS)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """The board's process, as `start` runs it: a folder, the pid of training, the options."""
    folder, parent, options = sys.argv[1:]
    os.nice(5)  # training comes first
    if os.getpgrp() == os.getpid():
        threading.Thread(target=_end_without, args=(int(parent),), daemon=True).start()
    follow(Path(folder), BoardOptions.model_validate_json(options), int(parent))


if __name__ == "__main__":
    main()
