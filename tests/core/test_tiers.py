"""Memories in shared memory and on disk give what those on the heap give."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import CorruptMemoryError, RunFailedError
from core.memory_log import MemoryLog
from tests.conftest import examples
from tests.oracles.test_sequential_oracle import LIVES, SHORT, small_blocks, tight_worlds, worlds
from tests.oracles.worlds import CODES, STEP, Twin, World

SMALL = 4_000
TIERS = ("shared", "disk")
WORLD = World("pixels", lanes=2, window=3, capacity=400, codec="lz4", chunk_frames=4)


def never_said(line: str) -> None:
    raise AssertionError(line)


@examples(60)
@given(worlds(), LIVES, st.booleans(), st.sampled_from(TIERS))
def test_everything_it_may_give_is_what_happened(
    world: World, life: bytes, split: bool, storage: str
) -> None:
    Twin(replace(world, storage=storage), split=split).live(life, check_every=9)


@examples(40)
@given(tight_worlds(), LIVES, st.sampled_from(TIERS))
def test_under_a_bound_on_bytes_it_gives_what_happened(
    world: World, life: bytes, storage: str
) -> None:
    with small_blocks():
        Twin(replace(world, storage=storage)).live(life, check_every=9)


def reopened(twin: Twin, folder: Path) -> tuple[Twin, MemoryLog]:
    """A twin whose memory comes out of the folder, ready to go on."""
    other = Twin(twin.world)
    log = MemoryLog(other.memory, folder, SMALL)
    log.load(never_said)
    other.history = copy.deepcopy(twin.history)
    other.go_on_as(twin)
    other.renew()
    return other, log


def go_on_and_off(folder: Path, world: World, lives: list[bytes]) -> None:
    """Lives, each of a new process over the same files, each with a part that is not saved."""
    twin = Twin(replace(world, storage="disk", folder=folder))
    log = MemoryLog(twin.memory, folder, SMALL)
    for life in lives:
        twin.after_each = lambda log=log: log.commit() if log.due else None
        twin.live(life)
        log.commit()
        history, random = copy.deepcopy(twin.history), twin.rng.bit_generator.state
        twin.after_each = None
        live_unsaved(twin, log, life[: len(life) // 8])
        log.close()
        twin.history, twin.rng.bit_generator.state = history, random
        twin, log = reopened(twin, folder)
        twin.agree()
    log.close()


def live_unsaved(twin: Twin, log: MemoryLog, life: bytes) -> None:
    """A part of a life that is lost: at the longest, until a commit is due."""
    for events in twin.events(life):
        if log.due:
            return
        twin.tick(events)


@examples(25)
@given(worlds(), st.lists(SHORT, min_size=1, max_size=4))
def test_what_was_committed_on_disk_comes_back(
    tmp_path_factory: pytest.TempPathFactory, world: World, lives: list[bytes]
) -> None:
    go_on_and_off(tmp_path_factory.mktemp("disk"), world, lives)


@examples(15)
@given(tight_worlds(), st.lists(LIVES, min_size=1, max_size=3))
def test_and_under_a_bound_on_bytes(
    tmp_path_factory: pytest.TempPathFactory, world: World, lives: list[bytes]
) -> None:
    with small_blocks():
        go_on_and_off(tmp_path_factory.mktemp("disk"), world, lives)


def on_disk(folder: Path, **changed: object) -> tuple[Twin, MemoryLog]:
    twin = Twin(replace(WORLD, storage="disk", folder=folder, **changed))
    return twin, MemoryLog(twin.memory, folder, SMALL)


def steps(count: int) -> bytes:
    return bytes([CODES.index(STEP)]) * count


@pytest.mark.parametrize("codec", ["raw", "lz4", "zstd"])
def test_frames_on_disk_are_written_once(tmp_path: Path, codec: str) -> None:
    twin, log = on_disk(tmp_path, codec=codec, capacity=2_000)
    twin.live(steps(1_600))
    log.commit()
    logged = sum(path.stat().st_size for path in tmp_path.glob("segment-*"))
    rows = 1_600 * twin.memory.ring.arrays[0].shape[1]
    assert rows < logged < 2.5 * rows + 800 * 32, "rows, and where frames lie: no frame"
    log.close()
    twin.agree()


@pytest.mark.parametrize("damage", ["flipped", "cut"])
def test_a_damaged_file_is_named_and_the_commit_before_taken(tmp_path: Path, damage: str) -> None:
    twin, log = on_disk(tmp_path)
    twin.live(steps(300))
    log.commit({"number": 1})
    kept, random = copy.deepcopy(twin.history), twin.rng.bit_generator.state
    column = twin.memory.ring.chunked[0]
    first = int(column._ended[1])
    twin.live(steps(100))
    log.commit({"number": 2})
    log.close()
    offset = int(column.entries(1, first)[0]["offset"])
    path = tmp_path / "frames-0.bin"
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[offset + 3] ^= 1
        path.write_bytes(content)
    else:
        path.write_bytes(content[: offset + 3])
    lines: list[str] = []
    other = Twin(twin.world)
    again = MemoryLog(other.memory, tmp_path, SMALL)
    assert again.load(lines.append) == {"number": 1}
    assert len(lines) == 1
    assert f"frames-0.bin is damaged at byte {offset}: checksum" in lines[0]
    other.history, other.rng.bit_generator.state = kept, random
    other.renew()
    other.agree()
    other.live(steps(60))
    again.commit({"number": 3})
    again.close()


def test_where_no_commit_is_whole_the_memory_is_empty_and_can_be_filled_anew(
    tmp_path: Path,
) -> None:
    twin, log = on_disk(tmp_path)
    twin.live(steps(300))
    log.commit()
    log.close()
    path = tmp_path / "frames-0.bin"
    path.write_bytes(bytes(path.stat().st_size))
    other = Twin(twin.world)
    again = MemoryLog(other.memory, tmp_path, SMALL)
    with pytest.raises(CorruptMemoryError, match="no whole commit"):
        again.load(lambda line: None)
    again.clear()
    other.renew()
    assert len(other.memory) == 0
    other.live(steps(500))
    again.commit()
    again.close()
    once_more, log = reopened(other, tmp_path)
    once_more.agree()
    log.close()


def test_what_a_commit_holds_is_not_written_over(tmp_path: Path) -> None:
    with small_blocks():
        twin, log = on_disk(tmp_path)
        twin.live(steps(800))
        log.commit()
        kept = {path.name: path.read_bytes() for path in tmp_path.glob("frames-*")}
        entries = twin.memory.ring.chunked[0].entries(0, 0)
        with pytest.raises(RunFailedError, match="the last commit holds all that is left"):
            twin.live(steps(2_000))
        content = (tmp_path / "frames-0.bin").read_bytes()
        for entry in entries:
            part = slice(entry["offset"], entry["offset"] + entry["length"])
            assert content[part] == kept["frames-0.bin"][part]
        log.close()


def test_a_commit_is_due_before_there_is_no_room(tmp_path: Path) -> None:
    with small_blocks():
        twin, log = on_disk(tmp_path)
        log.commit()
        commits = 0
        for _ in range(300):
            twin.live(steps(10), check_every=10_000)
            if log.due:
                log.commit()
                commits += 1
                assert not log.due
        assert 5 < commits < 150
        log.close()


def test_a_heap_memory_is_due_after_a_quarter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.storage.plan.LEAST_NEW", 0)
    twin = Twin(WORLD)
    log = MemoryLog(twin.memory, tmp_path, SMALL)
    twin.live(steps(98))
    assert not log.due
    twin.live(steps(8))
    assert log.due
    log.commit()
    assert not log.due
    log.close()


def test_a_full_disk_ends_a_commit_and_the_one_before_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin, log = on_disk(tmp_path)
    twin.live(steps(300))
    log.commit()
    kept, random = copy.deepcopy(twin.history), twin.rng.bit_generator.state
    twin.live(steps(100))

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("core.storage.disk.os.fdatasync", full)
    with pytest.raises(RunFailedError, match=r"takes no more.*No space left"):
        log.commit()
    monkeypatch.undo()
    log.close()
    twin.history, twin.rng.bit_generator.state = kept, random
    other, log = reopened(twin, tmp_path)
    other.agree()
    log.close()


def test_usage_is_what_was_reserved(tmp_path: Path) -> None:
    for storage in TIERS:
        twin = Twin(replace(WORLD, storage=storage, folder=tmp_path / storage))
        plan, empty = twin.memory.ring.plan, twin.memory.usage()
        twin.live(steps(1_200))
        used = twin.memory.usage()
        assert used[storage] == empty[storage] == pytest.approx(plan.tiers[storage], abs=2**16)
        assert used["heap"] <= plan.tiers["heap"] + plan._learning
        assert np.isclose(sum(plan.tiers.values()), plan.bytes_full)
