"""The status line, on a terminal and elsewhere."""

import io
import os
import pty
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import pytest

from utils import status_line
from utils.status_line import StatusLine, describe

STATUS = {
    "state": "running",
    "step": 22_500,
    "steps": 50_000,
    "steps_per_second": 2_310.4,
    "seconds_left": 11.9,
    "last_return": 195.0,
    "epsilon": 0.0512,
    "memory_fill": 0.225,
    "memory_bytes": 3_100_000,
    "memory_bytes_full": 13_900_000,
}


@contextmanager
def terminal(columns: int = 140) -> Iterator[tuple[TextIO, list[str]]]:
    """A stream that is a terminal, and what was written to it once the block is left."""
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    written: list[str] = []

    def read() -> None:
        try:
            while block := os.read(ours, 4096):
                written.append(block.decode())
        except OSError:
            pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    with os.fdopen(theirs, "w") as stream:
        yield stream, written
        stream.flush()
        time.sleep(0.05)
    reader.join(5)
    os.close(ours)


class Clock:
    """Time that passes when a test says so."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(status_line, "time", clock)
    return clock


def test_a_line_says_all_there_is_to_say():
    assert describe(STATUS) == (
        " 45% | 22,500/50,000 | 2,310 steps/s | 0:12 left | return 195.0 | epsilon 0.05 | "
        "memory 22%: 3.1 MB of 13.9 MB"
    )


def test_what_is_not_known_yet_is_a_dash():
    unknown = dict.fromkeys(STATUS) | {"step": 0, "steps": 100, "last_return": float("nan")}
    assert describe(unknown) == (
        "  0% | 0/100 | - steps/s | - left | return - | epsilon - | memory -: - of -"
    )
    assert describe({})


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (90_061, "25:01:01")]
)
def test_time_left(seconds: float, text: str):
    assert f"| {text} left |" in describe(STATUS | {"seconds_left": seconds})


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (7.06e9, "7.1 GB")]
)
def test_sizes(count: float, text: str):
    assert f": {text} of" in describe(STATUS | {"memory_bytes": count})


def test_plain_lines_come_every_five_seconds(clock: Clock):
    stream = io.StringIO()
    line = StatusLine(stream)
    for step in range(120):  # 30 s, four times a second
        line.update(STATUS | {"step": step})
        clock.now += 0.25
    line.close()
    shown = [text.split("|")[1].strip() for text in stream.getvalue().splitlines()]
    assert shown[:3] == ["0/50,000", "20/50,000", "40/50,000"]
    assert shown[-1] == "119/50,000"
    assert len(shown) == 7


def test_plain_lines_hold_no_control_characters(clock: Clock):
    stream = io.StringIO()
    line = StatusLine(stream)
    for _ in range(3):
        line.update(STATUS)
        line.say("a note")
        clock.now += 6
    line.close()
    assert all(letter.isprintable() or letter == "\n" for letter in stream.getvalue())


def test_a_terminal_has_one_live_line_and_notes_above_it():
    with terminal() as (stream, written):
        line = StatusLine(stream, interval=0.001)
        for step in (1, 2, 3):
            line.update(STATUS | {"step": step})
            time.sleep(0.002)
        line.say("a note")
        line.update(STATUS | {"step": 4})
        line.close()
    text = "".join(written)
    assert screen(text) == ["a note", describe(STATUS | {"step": 4})]
    assert text.count("\n") == 2


def screen(text: str) -> list[str]:
    """What stands on a terminal after this text, of which only carriage returns move."""
    lines = []
    for row in text.replace("\x1b[A", "").split("\n"):
        shown: list[str] = []
        for part in row.split("\r"):
            shown[: len(part)] = part
        lines.append("".join(shown).rstrip())
    return [line.removesuffix(" ") for line in lines if line]


def test_a_narrow_terminal_gets_a_shorter_line():
    with terminal(columns=40) as (stream, written):
        line = StatusLine(stream)
        line.update(STATUS)
        line.close()
    assert all(len(part) <= 40 for part in "".join(written).replace("\n", "\r").split("\r"))
    assert "45% | 22,500/50,000" in "".join(written)


def test_a_terminal_that_does_not_know_its_size_gets_the_whole_line():
    with terminal(columns=0) as (stream, written):
        line = StatusLine(stream)
        line.update(STATUS)
        line.close()
    assert describe(STATUS) in "".join(written)


def test_a_close_without_news_shows_nothing_twice(clock: Clock):
    stream = io.StringIO()
    line = StatusLine(stream)
    line.update(STATUS)
    line.close()
    line.close()
    assert stream.getvalue().count("\n") == 1


def test_no_thread_is_started():
    before = threading.active_count()
    with terminal() as (stream, _):
        line = StatusLine(stream)
        line.update(STATUS)
        assert threading.active_count() == before + 1  # the reader of this test
        line.close()


@pytest.mark.parametrize("live", [False, True])
def test_a_stream_that_is_gone_is_no_error(live: bool):
    class Gone(io.StringIO):
        def isatty(self) -> bool:
            return live

        def write(self, text: str) -> int:
            raise BrokenPipeError

        def fileno(self) -> int:
            return 2

    line = StatusLine(Gone(), interval=1e-9)
    for _ in range(3):
        line.update(STATUS)
        line.say("a note")
    line.close()


def test_an_update_that_is_not_due_costs_microseconds():
    line = StatusLine(io.StringIO(), interval=60)
    line.update(STATUS)
    best = min(seconds_for(line, 1000) for _ in range(5)) / 1000
    assert best < 5e-6
    line.close()


def seconds_for(line: StatusLine, count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        line.update(STATUS)
    return time.perf_counter() - began


def test_importing_it_loads_no_tqdm():
    import subprocess

    code = "import sys, utils.status_line; sys.exit('tqdm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
