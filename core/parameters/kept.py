"""Judged candidates: a ring of returns beside a store of parameters."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptMemoryError
from ..types import Batch, Tree, filled
from .generation import Generation, Vector
from .returns import CANDIDATE
from .store import Copies, ParameterStore

INDEX_BITS: Final = 20
NO_GENERATION: Final = -1
FIRST_VECTOR: Final = -(1 << 62)
RECORD: Final = np.dtype(
    [("id", np.int64), ("generation", np.int64), ("total_reward", np.float64), ("length", np.int64)]
)

COLUMNS: Final = ("parameters", *(RECORD.names or ()), "weight")


def candidate_id(number: int, index: NDArray[np.int64] | int) -> Any:
    """Names a candidate for ever: its generation above bit 20, its index below.

    Those of no generation are counted from `FIRST_VECTOR` instead.
    """
    return (number << INDEX_BITS) | index


class Pending:
    """The returns of a generation, as they come in, whichever lane they come from."""

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self.total_reward = np.zeros(len(generation))
        self.length = np.zeros(len(generation), np.int64)
        self.done = np.zeros(len(generation), np.bool_)

    def add(self, results: Mapping[str, NDArray[Any]]) -> None:
        """Takes the results of this generation's candidates out of some; the first one counts."""
        mine = np.flatnonzero(results[CANDIDATE] >> INDEX_BITS == self.generation.number)
        index = results[CANDIDATE][mine] & ((1 << INDEX_BITS) - 1)
        index, first = np.unique(index, return_index=True)
        fresh = ~self.done[index]
        index, rows = index[fresh], mine[first][fresh]
        self.total_reward[index] = results["total_reward"][rows]
        self.length[index] = results["length"][rows]
        self.done[index] = True

    def state(self) -> Tree:
        """Everything that makes it."""
        own = {"total_reward": self.total_reward, "length": self.length, "done": self.done}
        return {"generation": self.generation.state(), **own}

    @classmethod
    def of(cls, state: Tree) -> "Pending":
        """The one that was saved."""
        pending = cls(Generation.of(state["generation"]))
        for name in ("total_reward", "length", "done"):
            getattr(pending, name)[...] = state[name]
        return pending


class Kept:
    """The newest candidates of the newest generations, oldest first out."""

    def __init__(self, store: ParameterStore, capacity: int, generations: int) -> None:
        self.store = store
        self._generations = generations
        self._records = np.zeros(capacity, RECORD)
        self.head = 0
        self.tail = 0

    def __len__(self) -> int:
        """Candidates held."""
        return self.head - self.tail

    @property
    def records(self) -> NDArray[Any]:
        """What is known of each candidate held, oldest first; a copy."""
        return self._records[self.slots]

    @property
    def slots(self) -> NDArray[np.int64]:
        """Where the candidates lie, oldest first."""
        return np.arange(self.tail, self.head) % len(self._records)

    def add(self, generation: Generation, index: int, total_reward: float, length: int) -> None:
        """Keeps a judged candidate, and lets go of what can no longer be rebuilt."""
        name = candidate_id(generation.number, index)
        slot = self._next((name, generation.number, total_reward, length))
        self.store.put(slot, generation, index)
        if not isinstance(self.store, Copies):
            oldest = generation.number - self._generations + 1
            while self._records[self.tail % len(self._records)]["generation"] < oldest:
                self.tail += 1

    def add_vector(self, parameters: Vector, total_reward: float, length: int) -> None:
        """Keeps a copy of any parameters; raises ValueError for a store that keeps no copies.

        What `Copies.put_vector` refuses changes nothing.
        """
        if not isinstance(self.store, Copies):
            raise ValueError("only --remember copies keeps parameters that no generation proposed")
        self.store.put_vector(self.head % len(self._records), parameters)
        self._next((FIRST_VECTOR + self.head, NO_GENERATION, total_reward, length))

    def _next(self, record: tuple[int, int, float, int]) -> int:
        slot = self.head % len(self._records)
        self._records[slot] = record
        self.head += 1
        self.tail = max(self.tail, self.head - len(self._records))
        return slot

    def batch(
        self,
        slots: NDArray[np.int64],
        columns: Sequence[str] | None = None,
        out: Batch | None = None,
    ) -> Batch:
        """Parameters `[B, D]` and what is known of them `[B]`.

        Raises ValueError for a column that does not exist.
        """
        wanted = COLUMNS if columns is None else columns
        if unknown := set(wanted) - set(COLUMNS):
            raise ValueError(f"no column {sorted(unknown)}; there are {COLUMNS}")
        batch = {name: self._records[slots][name] for name in RECORD.names or ()}
        batch["weight"] = np.ones(len(slots), np.float32)
        if "parameters" in wanted:
            batch["parameters"] = np.stack([self.store.get(int(slot)) for slot in slots])
        batch = {name: batch[name] for name in wanted}
        return batch if out is None else filled(out, batch)

    def order(self) -> NDArray[np.int64]:
        """The candidates held, best first: places among `records`; the older of equals first."""
        records = self.records
        return np.lexsort((records["id"], -records["total_reward"]))

    def best(self, count: int, since: int | None = None) -> NDArray[np.int64]:
        """Slots of the `count` best returns, best first; of generations from `since` on."""
        order = self.order()
        if since is not None:
            order = order[self.records["generation"][order] >= since]
        return self.slots[order[:count]]

    def check(self) -> None:
        """Raises CorruptMemoryError unless what is held is finite, and can be rebuilt."""
        if not 0 <= self.head - self.tail <= len(self._records):
            raise CorruptMemoryError(f"candidates {self.tail} to {self.head} are held")
        if not np.isfinite(self.records["total_reward"]).all():
            raise CorruptMemoryError("a candidate's return is not finite")
        for slot in self.slots:
            try:
                parameters = self.store.get(int(slot))
            except KeyError as error:
                raise CorruptMemoryError(f"candidate in slot {slot}: {error}") from None
            if not np.isfinite(parameters).all():
                raise CorruptMemoryError(f"candidate in slot {slot} is not finite")

    def usage(self) -> int:
        """Bytes in use."""
        written = min(self.head, len(self._records))
        return written * RECORD.itemsize + self.store.usage(written)

    def state(self) -> Tree:
        """Everything that changes."""
        records = self._records.view(np.uint8).reshape(len(self._records), -1)
        return {
            "records": records,
            "head": self.head,
            "tail": self.tail,
            "store": self.store.state(),
        }

    def load(self, state: Tree) -> None:
        """Takes over a saved state."""
        self._records.view(np.uint8).reshape(len(self._records), -1)[...] = state["records"]
        self.head, self.tail = state["head"], state["tail"]
        self.store.load(state["store"])
