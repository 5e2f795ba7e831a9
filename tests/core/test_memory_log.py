"""A memory in a folder: after any end of its process it is what it was at its last commit."""

import copy
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import CorruptMemoryError, RunFailedError, UsageError
from core.memory_log import MemoryLog
from core.storage import log as log_module
from tests.conftest import SOAK, examples
from tests.harness import ROOT, environment
from tests.oracles.test_sequential_oracle import LIVES, SHORT, small_blocks, tight_worlds, worlds
from tests.oracles.worlds import CODES, Twin, World

SMALL = 4_000
"""Bytes of a segment, so that a short life fills several."""


def never_said(line: str) -> None:
    raise AssertionError(line)


def reopened(twin: Twin, folder: Path, say=never_said) -> tuple[Twin, object]:
    """A twin whose memory comes out of the folder, and what was saved with it."""
    other = Twin(twin.world)
    log = MemoryLog(other.memory, folder, SMALL)
    extra = log.load(say)
    log.close()
    other.history = copy.deepcopy(twin.history)
    other.go_on_as(twin)
    other.renew()
    return other, extra


def live_and_commit(folder: Path, world: World, lives: list[bytes]) -> None:
    twin = Twin(world)
    log = MemoryLog(twin.memory, folder, SMALL)
    try:
        go_on(folder, twin, log, lives)
    finally:
        log.close()
    other, _ = reopened(twin, folder)
    # what comes out goes on as what went in, and is saved again
    again = MemoryLog(other.memory, folder, SMALL)
    try:
        again.load(never_said)
        other.renew()
        for life in lives:
            other.live(life)
            again.commit()
    finally:
        again.close()
    reopened(other, folder)[0].agree()


def go_on(folder: Path, twin: Twin, log: MemoryLog, lives: list[bytes]) -> None:
    assert log.load(never_said) is None
    for number, life in enumerate(lives):
        twin.live(life)
        if len(twin.memory):
            twin.memory.sample(3)
        log.commit({"number": number})
        other, extra = reopened(twin, folder)
        assert extra == {"number": number}
        other.agree()
        if len(twin.memory):
            assert_same_draws(twin, other)


def assert_same_draws(twin: Twin, other: Twin) -> None:
    state = twin.memory._rng.bit_generator.state
    one, two = twin.memory.sample(20), other.memory.sample(20)
    twin.memory._rng.bit_generator.state = state
    for name, array in one.items():
        assert np.array_equal(array, two[name]), name


@examples(25)
@given(worlds(), st.lists(SHORT, min_size=1, max_size=4))
def test_what_was_committed_comes_back(
    tmp_path_factory: pytest.TempPathFactory, world: World, lives: list[bytes]
) -> None:
    live_and_commit(tmp_path_factory.mktemp("log"), world, lives)


@examples(12)
@given(tight_worlds(), st.lists(LIVES, min_size=1, max_size=3))
def test_under_a_bound_on_bytes_too(
    tmp_path_factory: pytest.TempPathFactory, world: World, lives: list[bytes]
) -> None:
    with small_blocks():
        live_and_commit(tmp_path_factory.mktemp("log"), world, lives)


WORLD = World("pixels", lanes=2, window=3, capacity=400, codec="lz4", chunk_frames=4)


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.glob("segment-*")}


@pytest.mark.parametrize("codec", ["raw", "lz4", "zstd"])
def test_a_commit_costs_what_is_new(tmp_path: Path, codec: str) -> None:
    world = World("pixels", lanes=2, window=3, capacity=4_000, codec=codec)
    twin = Twin(world)
    log = MemoryLog(twin.memory, tmp_path)
    twin.live(bytes(4_000))
    log.commit()
    first = sum(files(tmp_path).values())
    twin.live(bytes(40))  # one percent
    log.commit()
    if codec == "raw":  # records hold many rows each: their heads are nothing beside them
        assert first < 1.02 * 4_000 * twin.memory.ring.plan.bytes_per_row
    second = sum(files(tmp_path).values())
    assert second - first <= 0.05 * first
    log.commit()
    assert sum(files(tmp_path).values()) == second, "nothing new, nothing written"
    log.close()
    reopened(twin, tmp_path)[0].agree()


def test_what_the_memory_let_go_is_let_go(tmp_path: Path) -> None:
    twin = Twin(WORLD)
    log = MemoryLog(twin.memory, tmp_path, 20_000)
    sizes = []
    for _ in range(30):
        twin.live(bytes(200))
        log.commit()
        sizes.append(sum(files(tmp_path).values()))
    assert max(sizes) < 2 * 400 * 300 + 3 * 20_000
    assert max(sizes[10:]) == pytest.approx(max(sizes[20:]), rel=0.2)
    log.close()
    reopened(twin, tmp_path)[0].agree()


def test_what_was_not_committed_does_not_count(tmp_path: Path) -> None:
    twin = Twin(WORLD)
    log = MemoryLog(twin.memory, tmp_path, SMALL)
    twin.live(bytes(300))
    log.commit()
    kept = copy.deepcopy(twin)
    twin.live(bytes(300))
    log._rows.append_new()
    log.close()
    reopened(kept, tmp_path)[0].agree()


def test_what_a_killed_writer_left_half_done_is_cleared_away(tmp_path: Path) -> None:
    twin = Twin(WORLD)
    log = MemoryLog(twin.memory, tmp_path, SMALL)
    twin.live(bytes(300))
    log.commit()
    log.close()
    newest = tmp_path / max(files(tmp_path))
    with newest.open("ab") as file:
        file.write(b"torn")
    orphan = tmp_path / "segment-00000099.bin"
    orphan.write_bytes(b"torn")
    other, _ = reopened(twin, tmp_path)
    again = MemoryLog(other.memory, tmp_path, SMALL)
    assert again.load(never_said) is not None
    other.renew()
    other.live(bytes(100))
    again.commit()
    again.close()
    assert not orphan.exists()
    reopened(other, tmp_path)[0].agree()


@pytest.mark.parametrize("where", ["newest", "last"])
def test_a_damaged_segment_is_named_and_the_commit_before_taken(tmp_path: Path, where: str) -> None:
    twin = Twin(WORLD)
    log = MemoryLog(twin.memory, tmp_path, SMALL)
    twin.live(bytes(300))
    log.commit({"number": 1})
    kept, before = copy.deepcopy(twin), set(files(tmp_path))
    twin.live(bytes(300))
    log.commit({"number": 2})
    log.close()
    name = (
        max(set(files(tmp_path)) - before)
        if where == "last"
        else min(set(files(tmp_path)) - before)
    )
    content = bytearray((tmp_path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / name).write_bytes(content)
    lines: list[str] = []
    other, extra = reopened(kept, tmp_path, lines.append)
    assert extra == {"number": 1}
    assert len(lines) == 1
    assert name in lines[0]
    other.agree()
    # and it goes on from there
    again = MemoryLog(other.memory, tmp_path, SMALL)
    assert again.load(never_said) == {"number": 1}
    other.renew()
    other.live(bytes(100))
    again.commit({"number": 3})
    again.close()
    assert reopened(other, tmp_path)[1] == {"number": 3}


def test_where_no_commit_is_whole_nothing_is_made_up(tmp_path: Path) -> None:
    twin = Twin(WORLD)
    log = MemoryLog(twin.memory, tmp_path)
    twin.live(bytes(300))
    log.commit()
    log.close()
    path = next(tmp_path.glob("segment-*"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptMemoryError, match="no whole commit"):
        reopened(twin, tmp_path, lambda line: None)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (World("pixels", lanes=3, capacity=400, codec="lz4", chunk_frames=4), "lanes 2, not 3"),
        (World("pixels", lanes=2, capacity=300, codec="lz4", chunk_frames=4), "rows 400, not 300"),
        (World("colour", lanes=2, capacity=400), r"uint8\[16, 16\].*, not obs uint8\[10, 9, 3\]"),
    ],
)
def test_a_memory_of_another_shape_is_refused(tmp_path: Path, other: World, said: str) -> None:
    MemoryLog(Twin(WORLD).memory, tmp_path).close()
    with pytest.raises(UsageError, match=said):
        MemoryLog(Twin(other).memory, tmp_path)


def test_a_full_disk_is_one_line_and_the_commit_before_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = Twin(WORLD)
    log = MemoryLog(twin.memory, tmp_path)
    twin.live(bytes(300))
    log.commit({"number": 1})
    kept = copy.deepcopy(twin)
    twin.live(bytes(300))

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log_module.os, "fsync", full)
    with pytest.raises(RunFailedError, match="No space left on device; the commit before stays"):
        log.commit({"number": 2})
    monkeypatch.undo()
    log.close()
    other, extra = reopened(kept, tmp_path)
    assert extra == {"number": 1}
    other.agree()


TIERS = ("heap", "shared", "disk")
"""Where a memory's bytes may live."""
KILLS = 200 if SOAK else 10
"""Moments at which a writer is killed, of each tier."""
LIVES_OF_A_FOLDER = 5
"""Writers that go on, one after the other, where the one before was killed."""
SOME = 20
CYCLE = 0.03
"""Seconds, about, of `SOME` ticks and a commit."""


def live_some(twin: Twin, number: int, life: int) -> None:
    """What happens in a writer's life before the commit of that number, the same whoever asks."""
    twin.rng = np.random.default_rng([number, life])
    codes = twin.rng.integers(0, len(CODES), (SOME, twin.world.lanes))
    for tick in codes.tolist():
        twin.tick([CODES[code] for code in tick])


def lived(world: World, lives: list[int]) -> Twin:
    """A twin after so many commits, each of such a life."""
    twin = Twin(world)
    for number, life in enumerate(lives):
        live_some(twin, number, life)
    return twin


WRITER = """
import sys
from pathlib import Path
from core.memory_log import MemoryLog
from tests.core.test_memory_log import SMALL, WORLD, lived, live_some, never_said, world_in
from tests.oracles.worlds import Twin
folder, tier, life = sys.argv[1:]
world = world_in(tier, Path(folder))
lived(WORLD, [0] * 5)  # compiles what is compiled
twin = Twin(world)
log = MemoryLog(twin.memory, Path(folder), SMALL)
extra = log.load(never_said)
lives = [] if extra is None else extra["lives"]
past = lived(WORLD, lives)
twin.history = past.history
twin.go_on_as(past)
twin.renew()
print(len(lives), flush=True)
while True:
    live_some(twin, len(lives), int(life))
    lives.append(int(life))
    log.commit({"lives": lives})
    print(len(lives), flush=True)
"""


def world_in(tier: str, folder: Path) -> World:
    """The world of the writers that are killed, its memory on that tier."""
    return replace(WORLD, storage=tier, folder=folder)


def kill_a_writer(folder: Path, tier: str, life: int, rng: np.random.Generator) -> int:
    """Lets a writer commit a few times, and kills it; gives how many commits it has told of."""
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), tier, str(life)],
        cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    told = [child.stdout.readline() for _ in range(rng.integers(1, 8))]
    time.sleep(rng.uniform(0, CYCLE))
    child.kill()
    told += child.stdout.readlines()
    child.wait()
    child.stdout.close()
    return int([line for line in told if line.endswith("\n")][-1])


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("tier", TIERS)
def test_killed_at_any_moment_it_is_what_it_was_at_a_commit(tmp_path: Path, tier: str) -> None:
    rng = np.random.default_rng(0)
    for kill in range(KILLS):
        folder = tmp_path / str(kill // LIVES_OF_A_FOLDER)
        told = kill_a_writer(folder, tier, kill, rng)
        memory = world_in(tier, folder).memory()
        log = MemoryLog(memory, folder, SMALL)
        extra = log.load(never_said)
        log.close()
        lives = [] if extra is None else extra["lives"]
        assert len(lives) in (told, told + 1), "what was told is saved, and at most one more"
        if extra is not None:
            twin = lived(WORLD, lives)
            twin.memory = memory
            twin.agree()
