"""A memory in a folder: saved as it grows, and whole again after any end of its process.

    log = MemoryLog(memory, folder)
    log.load(print)      # whatever an earlier process committed
    log.commit()         # what is new since, at a cost that is in proportion

A commit writes each row once, compressed pictures as they lie in memory, and takes constant memory.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from .checkpoint import BrokenCheckpointError, from_bytes, to_bytes
from .errors import CorruptMemoryError, RunFailedError
from .row_memory import RingMemory
from .storage.log import Key, Log
from .storage.pair_log import COLUMN, PairLog
from .storage.ring_log import RingLog, about
from .types import Tree

NOTHING: Final[Mapping[str, Any]] = {}


class MemoryLog:
    """Saves a memory over a ring, and fills it again. One process writes a folder."""

    def __init__(self, memory: RingMemory, folder: Path, segment: int | None = None) -> None:
        """Opens the folder's log, or begins one.

        Raises UsageError where the folder holds a memory of another shape, naming what differs.
        """
        self._memory = memory
        size = segment or memory.ring.plan.segment_bytes
        self._log = Log(folder, about(memory.ring), size)
        self._rows = RingLog(memory.ring, self._log)
        plan = memory.ring.plan
        self._pairs = PairLog(self._log, plan.lanes, plan.rows if memory.priorities else 0)

    @property
    def due(self) -> bool:
        """Whether so much is new that it has to be committed before much more is written."""
        return self._rows.due

    def commit(self, extra: Tree = NOTHING) -> None:
        """Saves what is new, and `extra` with it; all of it counts, or nothing.

        Raises RunFailedError where the disk takes no more; the commit before stays.
        """
        self._rows.append_new()
        own = self._append_priorities(self._memory.own_state())
        state = {"ring": self._rows.state(), "own": own, "extra": extra, "pairs": self._pairs.first}
        try:
            self._memory.ring.flush()
        except OSError as error:
            raise RunFailedError(f"'{self._log.folder}' takes no more: {error}") from None
        tails = [*self._memory.ring.tails.tolist(), self._pairs.first]
        self._log.commit(tails, to_bytes(state))
        self._rows.committed()

    def _append_priorities(self, own: Tree) -> Tree:
        """What of a memory's own state is not in the log: all but priorities, which are many."""
        priorities = self._memory.priorities
        if priorities is None:
            return own
        sampler = dict(own["sampler"])
        self._pairs.append(*priorities.changed(), sampler.pop("values"))
        return {**own, "sampler": sampler}

    def load(
        self,
        say: Callable[[str], None],
        wanted: Callable[[Tree], bool] = lambda extra: True,
    ) -> Tree | None:
        """Fills the memory from the newest commit that is whole, and gives its `extra`.

        A commit that is damaged is named, and the one before it taken; one whose `extra` is not
        `wanted` is passed over. None where there is none at all; raises CorruptMemoryError where
        none can be taken. Writers are to be made anew.
        """
        commits = self._log.commits()
        for commit in commits:
            try:
                state = from_bytes(commit.state, f"commit {commit.number}")
                if not wanted(state["extra"]):
                    continue
                self._pairs.begin(state.get("pairs", 0))
                self._rows.load(state["ring"], self._of_rows(self._log.records(commit)))
            except (CorruptMemoryError, BrokenCheckpointError) as error:
                say(f"{self._log.folder}: {error}; taking the commit before")
                continue
            if commit is not commits[0]:
                self._log.rewind(commit)
            self._memory.load_own(self._with_priorities(state["own"]))
            extra: Tree = state["extra"]
            return extra
        if commits:
            raise CorruptMemoryError(f"{self._log.folder} holds no whole commit to go on from")
        return None

    def _of_rows(self, records: Iterable[tuple[Key, bytes]]) -> Iterator[tuple[Key, bytes]]:
        """The records of rows; those of priorities are taken on the way."""
        for key, payload in records:
            if key.column == COLUMN:
                self._pairs.take(key, payload)
            else:
                yield key, payload

    def _with_priorities(self, own: Tree) -> Tree:
        if self._memory.priorities is None:
            return own
        return {**own, "sampler": {**own["sampler"], "values": self._pairs.numbers}}

    def clear(self) -> None:
        """Forgets every commit: the memory is filled anew."""
        self._log.clear()

    def close(self) -> None:
        """Closes the files; what was not committed does not count."""
        self._log.close()
