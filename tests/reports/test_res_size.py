"""Reports of users about how much saving takes, each kept from coming back. Named after their ids.

The reports' CounterPixel-v0 is the toy counter with pixels.
"""

import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from core.memory_log import MemoryLog
from core.storage import log as log_module
from core.storage.log import Key, Log
from tests.harness import ROOT, environment
from tests.oracles.compare import read_all
from tests.oracles.worlds import Twin, World

MB = 10**6


# RES-05: pickling a buffer of 2.5 GB needed more than 17 GB of memory.

KEEPER = """
import sys
from pathlib import Path
from core.memory_log import MemoryLog
from core.rollout import Rollout
from tests.harness import EMPTY, parts_of
world = {"game": "counter", "observation": "pixels", "size": 84, "episode_length": 500}
keys = {"frame_codec": "raw", "memory_limit": int(sys.argv[2])}
parts = parts_of({**EMPTY, **world, **keys})
log = MemoryLog(parts.memory, Path(sys.argv[1]))
actor = parts.agent.actor(parts.env.lanes, parts.seeds.generator("explore"))
print("ready", flush=True)
rollout = None
for line in sys.stdin:
    what, _, number = line.strip().partition(" ")
    if what == "fill":
        if rollout is None:
            rollout = Rollout(parts.env, actor, parts.memory.writer())
            rollout.begin(parts.seeds.integers("env", parts.env.lanes))
        for _ in range(int(number)):
            rollout.step(0)
    elif what == "save":
        log.commit()
    else:
        assert log.load(print) is not None
        parts.memory.check()
    print(sum(parts.memory.usage().values()), flush=True)
log.close()
"""


def proc(pid: int, file: str, field: str) -> int:
    """A number that the system tells of a process."""
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


class Cost(NamedTuple):
    """What a request took: anonymous memory on top at its peak, and bytes that were written."""

    peak: int
    written: int
    store: int


class Keeper:
    """A memory in a process of its own, metered from outside."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child

    def ask(self, what: str) -> Cost:
        """Asks it to do something, and meters that."""
        pid, done = self._child.pid, threading.Event()
        begun, written = proc(pid, "status", "RssAnon"), proc(pid, "io", "wchar")
        peaks = [begun]

        def meter() -> None:
            while not done.wait(0.002):
                peaks.append(proc(pid, "status", "RssAnon"))

        thread = threading.Thread(target=meter)
        thread.start()
        try:
            assert self._child.stdin is not None and self._child.stdout is not None
            print(what, file=self._child.stdin, flush=True)
            answer = self._child.stdout.readline()
        finally:
            done.set()
            thread.join()
        peak = max(*peaks, proc(pid, "status", "RssAnon"))
        return Cost((peak - begun) * 1024, proc(pid, "io", "wchar") - written, int(answer))


@contextmanager
def keeper(folder: Path, capacity: int) -> Iterator[Keeper]:
    with subprocess.Popen(
        [sys.executable, "-c", KEEPER, str(folder), str(capacity)],
        cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield Keeper(child)


@pytest.mark.parametrize("size", [105, pytest.param(300, marks=pytest.mark.soak)])
def test_res_05_saving_takes_little_memory(tmp_path: Path, size: int) -> None:
    # pass: RssAnon peak during save <= +64 MB; during load <= store + 64 MB
    rows = size * MB // (84 * 84)
    capacity = rows * 11 // 10
    with keeper(tmp_path, capacity) as one:
        assert one.ask(f"fill {rows}").store > 0.98 * size * MB
        first = one.ask("save")
        assert first.peak <= 64 * MB
        assert first.written > 0.98 * size * MB, "all of it is saved"
        # and saving again after 1 % of new data writes <= 5 % of the bytes
        one.ask(f"fill {rows // 100}")
        again = one.ask("save")
        assert again.peak <= 64 * MB
        assert 0 < again.written <= 0.05 * first.written
    with keeper(tmp_path, capacity) as other:
        loaded = other.ask("load")
        assert loaded.store == again.store
        assert 0.98 * size * MB < loaded.peak <= loaded.store + 64 * MB


# RES-06: saving failed for objects beyond 4 GiB.

GIB = 1 << 30
HOLE = np.zeros(1 << 20, np.uint8)


class Sparse:
    """A file that steps over a hole, whether it is written or read."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> "Sparse":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def write(self, data: Any) -> None:
        """As of a file."""
        if memoryview(data).nbytes == HOLE.nbytes:
            self._file.seek(HOLE.nbytes, 1)
        else:
            self._file.write(data)

    def read(self, size: int) -> Any:
        """As of a file."""
        if size != HOLE.nbytes:
            return self._file.read(size)
        self._file.seek(size, 1)
        return HOLE


@pytest.fixture
def holes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of mostly holes, of which nothing is read but where they end."""
    opened, few = Path.open, 4_096
    monkeypatch.setattr(Path, "open", lambda *where: Sparse(opened(*where)))
    crc32 = SimpleNamespace(crc32=lambda data, crc=0: zlib.crc32(data[:few], crc))
    monkeypatch.setattr(log_module, "zlib", crc32)


def test_res_06_a_log_reaches_beyond_4_gib(tmp_path: Path, holes: None) -> None:
    # pass: round trip exact; file is sparse so the test is quick
    log = Log(tmp_path, {}, 5 * GIB)
    ends = [(Key(0, 0, 0, 3), b"first"), (Key(1, 2, 2**40, 2**31 - 1, 1, 255), b"last")]
    log.append(*ends[0])
    count = 4 * GIB // HOLE.nbytes
    for number in range(count):
        log.append(Key(0, 1, 2**33 + number, 1), HOLE)
    log.append(*ends[1])
    log.commit([0, 0, 2**40], b"state")
    log.close()
    (path,) = tmp_path.glob("segment-*")
    assert path.stat().st_blocks * 512 < 30 * MB < 4 * GIB < path.stat().st_size
    other = Log(tmp_path, {}, 5 * GIB)
    (commit,) = other.commits()
    assert (commit.size, commit.tails) == (path.stat().st_size, (0, 0, 2**40))
    found = []
    for key, payload in other.records(commit):
        found.append((key, payload))
        if payload is HOLE:
            assert key == Key(0, 1, 2**33 + len(found) - 2, 1)
    assert len(found) == count + 2
    assert [found[0], found[-1]] == ends
    # and what no commit counts is cut off there
    with path.open("ab") as file:
        file.write(b"torn")
    other.append(Key(0, 0, 3, 1), b"more")
    other.close()
    assert path.stat().st_size == commit.size


@pytest.mark.parametrize("codec", ["raw", "lz4", "zstd"])
def test_res_06_rows_are_counted_beyond_32_bits(tmp_path: Path, codec: str) -> None:
    # right: format tested beyond 4 GiB offsets
    twin = Twin(World("pixels", lanes=2, window=3, capacity=400, codec=codec, chunk_frames=4))
    begin_at(twin.memory, 2**33)
    log = MemoryLog(twin.memory, tmp_path, 4_000)
    for _ in range(3):
        for _ in range(150):
            twin.tick([1] * 2)
        log.commit()
    log.close()
    assert (twin.memory.ring.tails > 2**33).all() and twin.memory.ring.full
    memory = twin.world.memory()
    log = MemoryLog(memory, tmp_path, 4_000)
    assert log.load(pytest.fail) is not None
    log.close()
    memory.check()
    wanted, found = read_all(twin.memory), read_all(memory)
    assert len(wanted["id"]) == len(twin.memory) > 300
    for name, array in wanted.items():
        assert np.array_equal(found[name], array), name


def begin_at(memory: Any, row: int) -> None:
    """Makes an empty memory one that has let go of so many rows of each lane."""
    ring = memory.ring
    ring.heads += row
    ring.tails += row
