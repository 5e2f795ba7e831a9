"""What a reader sees of a ring that other processes may be writing."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptMemoryError
from ..types import Array
from .columns import Where
from .fields import Fields, Wish
from .plan import StorePlan
from .ring import RingBuffer

Result = TypeVar("Result")
ATTEMPTS: Final = 100
FIRST_MARGIN: Final = 16
WRONG: Final = (CorruptMemoryError, ValueError, IndexError)
"""What reading rows may raise as they are written over, since then they say anything."""


class Rows(Protocol):
    """Rows that can be read: a ring, or a view of one."""

    plan: StorePlan

    @property
    def heads(self) -> NDArray[np.int64]:
        """See `RingBuffer`."""

    @property
    def tails(self) -> NDArray[np.int64]:
        """See `RingBuffer`."""

    def where(self, lanes: NDArray[np.int64], rows: NDArray[np.int64]) -> Where:
        """See `RingBuffer.where`."""

    def gather(self, name: str, where: Where, out: Array | None = None) -> Array:
        """See `RingBuffer.gather`."""

    def book(self, name: str) -> Array:
        """See `RingBuffer.book`."""

    @property
    def packed(self) -> tuple[Array, int]:
        """See `RingBuffer.packed`."""

    def fields(self, wishes: Mapping[str, Wish]) -> Fields:
        """See `RingBuffer.fields`."""


class RingView:
    """The counters of a ring as they were at some moment, and its rows.

    As long as this process is alone, the counters are the ring's own. Else whatever is read, is
    read by `steadily`: writers lock nothing, and may take back rows while they are read.
    """

    def __init__(self, ring: RingBuffer) -> None:
        self._ring = ring
        self.plan = ring.plan
        self.heads, self.tails = ring.heads, ring.tails
        self._seen = ring.tails
        self._margin = 0

    def __reduce__(self) -> Any:
        return RingView, (self._ring,)  # the counters are where the ring is

    def where(self, lanes: NDArray[np.int64], rows: NDArray[np.int64]) -> Where:
        """See `RingBuffer.where`."""
        return self._ring.where(lanes, rows)

    def gather(self, name: str, where: Where, out: Array | None = None) -> Array:
        """See `RingBuffer.gather`."""
        return self._ring.gather(name, where, out)

    def book(self, name: str) -> Array:
        """See `RingBuffer.book`."""
        return self._ring.book(name)

    @property
    def packed(self) -> tuple[Array, int]:
        """See `RingBuffer.packed`."""
        return self._ring.packed

    def fields(self, wishes: Mapping[str, Wish]) -> Fields:
        """See `RingBuffer.fields`."""
        return self._ring.fields(wishes)

    def steadily(self, read: Callable[[], Result]) -> Result:
        """What `read` gives, all of it of rows that were held from its beginning to its end.

        Where a writer came by meanwhile, it reads again, and leaves out as many of the oldest rows
        as writers take back in that time; as they slow down, fewer. Raises CorruptMemoryError where
        they take back all there is.
        """
        if self._ring.alone:
            return read()
        for _ in range(ATTEMPTS):
            self._look()
            try:
                result = read()
            except WRONG:
                if not self._overtaken():
                    raise
            else:
                if not self._overtaken():
                    self._margin = self._margin * 15 // 16
                    return result
            self._margin = min(2 * self._margin + FIRST_MARGIN, self.plan.rows_per_lane)
        raise CorruptMemoryError(
            "rows are written over faster than they can be read: set a larger memory_limit"
        )

    def _look(self) -> None:
        """Takes note of the counters as they are now: tails first, which never pass the heads."""
        tails = self._ring.tails.copy()
        self.heads = self._ring.heads.copy()
        if (tails == self._seen).all():  # nobody writes any more
            self._margin = 0
        self._seen = tails
        self.tails = tails + np.minimum(self._margin, (self.heads - tails) // 2)

    def _overtaken(self) -> bool:
        return bool((self._ring.tails > self.tails).any())
