"""A memory against its slow twin."""

from mmap import PAGESIZE

import numpy as np

from core.memories.sequential import SequentialMemory
from core.sampling.uniform import Draw, all_starts
from core.types import Batch

from .history import History


def assert_same(memory: SequentialMemory, history: History) -> None:
    """Same rows, same units, and every one of them the same to the bit."""
    memory.check()
    _follow_bytes(memory, history)
    assert memory.rows == history.rows
    units = history.units()
    lanes, rows = all_starts(memory.starts)
    found = list(zip(lanes.tolist(), rows.tolist(), strict=True))
    assert found == [(unit.lane, unit.row) for unit in units]
    assert len(memory) == len(units)
    if not units:
        return
    batch = read_all(memory)
    expected = [history.expected(unit) for unit in units]
    assert set(batch) == set(expected[0])
    for name, array in batch.items():
        assert_identical(name, array, np.array([want[name] for want in expected]))


def _follow_bytes(memory: SequentialMemory, history: History) -> None:
    """Tells the twin what went for want of bytes, which has to be whole chunks, the oldest."""
    plan = memory._ring.plan
    if not plan.memory_bytes:
        return
    used = sum(memory.usage().values())
    pages = 0 if plan.storage == "heap" else 20 * PAGESIZE  # each array begins a page of its own
    assert used <= plan.memory_bytes + pages, (used, plan.bytes_for(2), plan)
    for lane, tail in enumerate(memory._ring.tails.tolist()):
        written = history.written(lane)
        assert tail >= history.oldest(lane), "what is gone does not come back"
        by_rows = max(0, written - plan.rows_per_lane)
        if plan.layouts:
            chunk = plan.columns[0].chunking.frames
            assert tail == by_rows or (tail > by_rows and tail % chunk == 0)
            assert written - tail >= min(written, history.window + history.n_step)
        else:
            assert tail == by_rows
        history.floor[lane] = tail


def read_all(memory: SequentialMemory, **how) -> Batch:
    """Every unit of a memory, in order."""
    lanes, rows = all_starts(memory.starts)
    return memory.reader.read(Draw(lanes, rows, np.ones(len(rows), np.float32)), **how)


def assert_identical(name: str, found: np.ndarray, wanted: np.ndarray) -> None:
    """Same shape, dtype and bits."""
    assert found.dtype == wanted.dtype, f"{name}: {found.dtype} is not {wanted.dtype}"
    assert found.shape == wanted.shape, f"{name}: {found.shape} is not {wanted.shape}"
    same = np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(wanted).tobytes()
    assert same, f"{name} differs at {np.argwhere(found != wanted)[:3].tolist()}"
