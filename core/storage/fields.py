"""Several packed columns read together: one compiled loop instead of a call for each."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..types import Array
from .columns import ColumnPlan
from .layout import whole

ALIGNED: Final = 16
Slots = tuple[NDArray[np.int64], ...]


class Wish(NamedTuple):
    """A packed column, which of the slots it is read at, and how many of those make a unit."""

    column: str
    which: int = 0
    depth: int = 0
    """0: one item a unit, without an axis of its own."""


class Fields:
    """Reads the same packed columns again and again, of rows that lie anywhere."""

    def __init__(
        self, records: Array, plans: Mapping[str, ColumnPlan], wishes: Mapping[str, Wish]
    ) -> None:
        from .kernels import take_fields  # numba is loaded where a memory is made, and not before

        assert records.dtype.fields is not None
        self._take = take_fields
        self._records = records.view(np.uint8).reshape(-1)
        self._stride = records.itemsize
        self._parts: list[tuple[str, np.dtype[Any], np.dtype[Any], tuple[int, ...], int]] = []
        lines, before = [], 0
        for name, wish in wishes.items():
            plan, axes = plans[wish.column], (wish.depth,) if wish.depth else ()
            size = plan.bytes_per_row
            lines.append((records.dtype.fields[wish.column][1], size, wish.which, before))
            shape = (*axes, *plan.spec.shape)
            self._parts.append((name, plan.stored, plan.spec.dtype, shape, before))
            before += whole(max(wish.depth, 1) * size, ALIGNED) * ALIGNED
        self._table = np.array(lines, np.int64).reshape(-1, 4)
        self._unit = before

    def read(self, slots: Slots) -> dict[str, Array]:
        """By name, `[B, *item]` or `[B, depth, *item]`; `slots` are flat, the first `[B]`.

        The arrays are fresh, and parts of one buffer.
        """
        count = len(slots[0])
        out = np.empty(self._unit * count, np.uint8)
        self._take(self._records, self._stride, self._table, slots, out)
        return {
            name: np.ndarray((count, *shape), stored, out, before * count).astype(given, copy=False)
            for name, stored, given, shape, before in self._parts
        }
