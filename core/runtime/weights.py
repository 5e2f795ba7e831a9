"""Weights as whoever acts reads them: two slots in shared memory, and nothing that can be held.

The writer fills the slot that the newest version is not in, and then names it. A reader copies the
slot of the newest version, and looks at whether that one is being filled again by now: only then
were two versions written since. A writer that dies while it fills a slot leaves the newest version
as it was.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import RunFailedError
from ..storage.allocators import Allocator, nbytes
from ..types import Array, Tree

BEGUN, DONE = 0, 1
"""Counters: the newest version that was begun, and the newest that is whole."""
ALIGNED: Final = 64
ATTEMPTS: Final = 1_000
INT64, BYTES = np.dtype(np.int64), np.dtype(np.uint8)


class Leaf(NamedTuple):
    """An array of the tree: the names that lead to it, and where its bytes lie in a slot."""

    path: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    begin: int


class Weights:
    """The newest weights that one writer published, for any number of readers.

    Made from weights whose shapes stay. With the allocator `Shared` it can be pickled into a child
    process, which then reads what is published here.
    """

    def __init__(self, weights: Tree, allocator: Allocator) -> None:
        """Room for weights like these; raises MemoryError where there is none."""
        self._leaves, self._size = _laid_out(weights)
        self._allocator = allocator
        self._take_room()

    def _take_room(self) -> None:
        self._counters: NDArray[np.int64] = self._allocator.allocate((2,), INT64)
        self._slots = self._allocator.allocate((2, max(self._size, 1)), BYTES)

    def __getstate__(self) -> dict[str, Any]:
        return {"_leaves": self._leaves, "_size": self._size, "_allocator": self._allocator}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._take_room()

    @property
    def version(self) -> int:
        """The newest version that is whole; 0 before the first."""
        return int(self._counters[DONE])

    def publish(self, weights: Tree) -> int:
        """Copies weights of the same names and shapes for the readers; gives their version."""
        version = int(self._counters[DONE]) + 1
        self._counters[BEGUN] = version
        for leaf, place in zip(self._leaves, self._places(version), strict=True):
            place[...] = _at(weights, leaf.path)
        self._counters[DONE] = version
        return version

    def read(self) -> tuple[int, Tree]:
        """The newest version, and a copy of its weights.

        Raises RunFailedError before anything was published.
        """
        for _ in range(ATTEMPTS):
            version = int(self._counters[DONE])
            if not version:
                raise RunFailedError("no weights were published yet")
            tree = _tree_of(self._leaves, [place.copy() for place in self._places(version)])
            if self._counters[BEGUN] <= version + 1:
                return version, tree
        raise RunFailedError("weights are published faster than they can be read")

    def _places(self, version: int) -> list[Array]:
        slot = self._slots[version % 2]
        return [
            slot[leaf.begin : leaf.begin + nbytes(leaf.shape, leaf.dtype)]
            .view(leaf.dtype)
            .reshape(leaf.shape)
            for leaf in self._leaves
        ]


def _laid_out(weights: Tree) -> tuple[list[Leaf], int]:
    leaves, before = [], 0
    for path, array in _walk(weights, ()):
        leaves.append(Leaf(path, array.shape, array.dtype, before))
        before += -(-array.nbytes // ALIGNED) * ALIGNED
    return leaves, before


def _walk(tree: Tree, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Array]]:
    found = []
    for name, value in tree.items():
        if isinstance(value, dict):
            found += _walk(value, (*path, name))
        else:
            found.append(((*path, name), np.asarray(value)))
    return found


def _at(tree: Tree, path: tuple[str, ...]) -> Any:
    value: Any = tree
    for name in path:
        value = value[name]
    return value


def _tree_of(leaves: list[Leaf], arrays: list[Array]) -> Tree:
    tree: dict[str, Any] = {}
    for leaf, array in zip(leaves, arrays, strict=True):
        inner = tree
        for name in leaf.path[:-1]:
            inner = inner.setdefault(name, {})
        inner[leaf.path[-1]] = array
    return tree
