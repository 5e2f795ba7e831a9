"""Batches copied ahead, by a thread, while the agent learns from the one before."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, cast

from .sampling.uniform import Draw
from .types import Batch, Columns, Tree

Ask = tuple[int, tuple[str, ...] | None]
NOTHING: Final[Tree] = {"batches": {}, "size": 0, "columns": None}


class Prefetch:
    """Draws in the caller's thread, at a fixed point, and reads in its own.

    So the same seed draws the same units, however fast the thread is. It only reads: whoever writes
    the memory, or reads it otherwise, calls `settle` first, and waits for what is being read.
    """

    def __init__(
        self,
        depth: int,
        draw: Callable[[int], Draw],
        read: Callable[[Draw, Sequence[str] | None], Batch],
    ) -> None:
        """`depth` batches are ready, or being read, beside the one that is asked for."""
        self._depth = depth
        self._draw = draw
        self._read = read
        self._asked: Ask = (0, None)
        self._pending: deque[Future[Batch]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prefetch")

    def sample(self, size: int, columns: Sequence[str] | None) -> Batch:
        """The oldest batch that was drawn like this; what was drawn otherwise is dropped."""
        asked = (size, None if columns is None else tuple(columns))
        if asked != self._asked:
            self.settle()
            self._pending.clear()
            self._asked = asked
        while len(self._pending) <= self._depth:
            self._pending.append(self._thread.submit(self._read, self._draw(size), columns))
        return self._pending.popleft().result()

    def settle(self) -> None:
        """Waits until nothing is being read any more."""
        for batch in self._pending:
            if not batch.done():
                batch.exception()

    def state(self) -> Tree:
        """The batches that are ready: rows of theirs may be gone by now."""
        self.settle()
        size, columns = self._asked
        batches = {str(at): dict(batch.result()) for at, batch in enumerate(self._pending)}
        return {"batches": batches, "size": size, "columns": columns and list(columns)}

    def load(self, state: Tree) -> None:
        """Takes over what `state` gave."""
        self.settle()
        columns = state["columns"]
        self._asked = (state["size"], columns and tuple(columns))
        self._pending.clear()
        for at in range(len(state["batches"])):
            ready: Future[Any] = Future()
            ready.set_result(cast(Columns, dict(state["batches"][str(at)])))
            self._pending.append(ready)
