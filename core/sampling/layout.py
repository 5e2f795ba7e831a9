"""What samplers keep beside a ring, and where a sum tree's nodes lie; no numba, since plans ask."""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

from ..storage.plan import StorePlan

FAN: Final = 8
"""Children of a node: as many numbers as a line of the cache holds."""
LINE: Final = 64
"""Bytes of a line."""


def level_lines(leaves: int) -> list[int]:
    """Lines of each level: of the leaves, and then of nodes, each the parent of a line, up to one.

    Nodes have two lines each `FAN`: sums, and the greatest.
    """
    lines = [-(-leaves // FAN)]
    count = lines[0]
    while True:
        lines.append(2 * -(-count // FAN))
        if count <= 1:
            return lines
        count = -(-count // FAN)


def tree_bytes(leaves: int) -> int:
    """Bytes of a tree: its lines, and a bit a leaf that says whether it changed."""
    return sum(level_lines(leaves)) * LINE + -(-leaves // 8)


STRATUM: Final = 4
"""Bytes of a count; there is one a row of each stratum."""
STRATA: Final = 3


def strata_bytes(rows: int) -> int:
    """Bytes of the counts of strata along all lanes."""
    return STRATA * STRATUM * rows


BytesOf = Callable[[int], int]
"""Bytes that something takes, by the rows of all lanes."""


@dataclass(frozen=True)
class SampledPlan(StorePlan):
    """A ring, and on the heap beside it what its sampler keeps of each row."""

    beside: tuple[BytesOf, ...] = ()

    def _more(self, rows: int) -> int:
        return sum(part(rows) for part in self.beside)

    @property
    def _uncompressed(self) -> int:
        return super()._uncompressed + self._more(self.rows)

    def bounded(self, memory_bytes: int, forecasts: Mapping[str, float], least: int) -> Self:
        """See `StorePlan.bounded`."""
        plan = super().bounded(memory_bytes, forecasts, least)
        if not memory_bytes or plan.layouts:
            return plan
        # how many of 1, 2, 3 ... rows a lane do not take too much
        fit = bisect_right(range(1, plan.rows_per_lane + 1), memory_bytes, key=self._raw_bytes)
        return replace(plan, rows_per_lane=fit)

    def bytes_for(self, rows: int) -> int:
        """See `StorePlan.bytes_for`."""
        return super().bytes_for(rows) if self.layouts else self._raw_bytes(rows)

    def _raw_bytes(self, rows_per_lane: int) -> int:
        """Bytes of so many rows a lane, where nothing is compressed."""
        rows = self.lanes * rows_per_lane
        return rows * self.bytes_per_row + self._more(rows)

    @property
    def tiers(self) -> Mapping[str, int]:
        """See `StorePlan.tiers`."""
        tiers, more = super().tiers, self._more(self.rows)
        if self.storage == "heap":
            return tiers
        return {**tiers, self.storage: tiers[self.storage] - more, "heap": tiers["heap"] + more}
