"""A sum tree of priorities: draws in proportion, and knows the greatest."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptMemoryError
from . import kernels
from .layout import FAN, LINE, level_lines


class SumTree:
    """Priorities of leaves, of any number; a leaf weighs its priority, or nothing if that is < 0.

    Nodes are sums of their children, never updated by differences: no error adds up, and a tree
    made anew of the same leaves is the same to the bit.
    """

    def __init__(self, leaves: int) -> None:
        counts = level_lines(leaves)
        self.levels: NDArray[np.int64] = np.cumsum([0, *counts[:-1]])
        space = np.empty((sum(counts) + 1) * LINE, np.uint8)
        begin = -space.ctypes.data % LINE
        numbers = space[begin : begin + sum(counts) * LINE].view(np.float64)
        numbers[:] = 0  # written at once, so that it takes from the first what is told
        self.lines: NDArray[np.float64] = numbers.reshape(-1, FAN)
        self.leaves: NDArray[np.float64] = numbers[:leaves]
        self.changed = np.zeros(-(-leaves // 8), np.uint8)

    @property
    def total(self) -> float:
        """What all leaves weigh."""
        return float(self.lines[self.levels[-1], 0])

    @property
    def greatest(self) -> float:
        """The greatest weight of a leaf, 0 where none weighs anything."""
        return float(self.lines[self.levels[-1] + 1, 0])

    @property
    def bytes(self) -> int:
        """Bytes that it takes."""
        return self.lines.nbytes + self.changed.nbytes

    def find(self, masses: NDArray[np.float64]) -> NDArray[np.int64]:
        """The leaf at each point of the mass axis, `[B]`; see `kernels.find`.

        Raises ValueError where no leaf weighs anything.
        """
        if not self.total > 0:
            raise ValueError("no leaf of the tree weighs anything")
        leaves = np.empty(len(masses), np.int64)
        kernels.find(self.lines, self.levels, np.array(masses, np.float64), leaves)
        return leaves

    def put(self, leaves: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Sets leaves `[B]`, one that is named twice to the later value."""
        kernels.put(self.lines, self.levels, self.changed, np.array(leaves, np.int64), values)

    def restore(self, values: NDArray[Any]) -> None:
        """Sets all leaves, which then count as unchanged. Raises ValueError for a wrong shape."""
        if values.shape != self.leaves.shape or not np.isfinite(values).all():
            raise ValueError(f"{values.shape} finite priorities, not {self.leaves.shape}")
        self.leaves[:] = values
        kernels.renew_all(self.lines, self.levels, len(self.leaves))
        self.changed[:] = 0

    def take_changed(self) -> NDArray[np.int64]:
        """The leaves that were written since the last call, rising."""
        bits = np.unpackbits(self.changed, bitorder="little")[: len(self.leaves)]
        self.changed[:] = 0
        return np.flatnonzero(bits)

    def check(self) -> None:
        """Raises CorruptMemoryError unless every node is what its children make."""
        if not np.isfinite(self.leaves).all():
            leaf = int(np.flatnonzero(~np.isfinite(self.leaves))[0])
            raise CorruptMemoryError(f"the priority of slot {leaf} is {self.leaves[leaf]}")
        again = self.lines.copy()
        kernels.renew_all(again, self.levels, len(self.leaves))
        wrong = np.argwhere(again != self.lines)
        if len(wrong):
            line, column = wrong[0].tolist()
            raise CorruptMemoryError(
                f"node {column} of line {line} of the priorities is {self.lines[line, column]}, "
                f"and its children make {again[line, column]}"
            )
