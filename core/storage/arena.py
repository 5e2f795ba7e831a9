"""The arena: blobs of a lane in blocks, oldest out first, blocks used again as they empty."""

import numpy as np
from numpy.typing import NDArray

from ..types import Array, Tree
from .allocators import Allocator
from .layout import SLACK, pages

NONE = -1


class Arena:
    """Bytes for blobs of different length, `blocks` blocks a lane.

    A lane fills one block after the other and lets go of its oldest blobs first; of the blocks that
    are empty it takes the first, so that memory which was never needed is never touched. `bytes`
    can be read `SLACK` bytes past any blob.
    """

    def __init__(self, allocator: Allocator, lanes: int, blocks: int, block_bytes: int) -> None:
        self.block_bytes = block_bytes
        size = lanes * blocks * block_bytes
        self.bytes: Array = allocator.allocate((size + SLACK,), np.dtype(np.uint8))
        self._blobs = np.zeros((lanes, blocks), np.int64)
        self._touched = np.zeros((lanes, blocks), np.int64)
        self._block = np.full(lanes, NONE, np.int64)
        self._fill = np.zeros(lanes, np.int64)

    def put(self, lane: int, blob: NDArray[np.uint8]) -> int:
        """Copies a blob in and gives its offset, or -1 where no block has room for it."""
        fits = self._block[lane] != NONE and self._fill[lane] + len(blob) <= self.block_bytes
        if not fits and not self._next_block(lane):
            return NONE
        blocks = self._blobs.shape[1]
        block, fill = int(self._block[lane]), int(self._fill[lane])
        begin = (lane * blocks + block) * self.block_bytes + fill
        fill += len(blob)
        self.bytes[begin : begin + len(blob)] = blob
        self._fill[lane] = fill
        self._blobs[lane, block] += 1
        self._touched[lane, block] = max(self._touched[lane, block], fill)
        return begin

    def _next_block(self, lane: int) -> bool:
        current = self._block[lane]
        taken = self._blobs[lane] > 0
        if current != NONE and not taken[current]:  # emptied while it was filled: begin it anew
            self._fill[lane] = 0
            return True
        block = int(np.argmin(taken))
        if taken[block]:
            return False
        self._block[lane], self._fill[lane] = block, 0
        return True

    def free(self, lane: int, offset: int) -> None:
        """Lets go of the blob at an offset."""
        self._blobs[lane, offset // self.block_bytes % self._blobs.shape[1]] -= 1

    def span(self, lane: int) -> tuple[int, int]:
        """The first byte of a lane, and the first behind it."""
        size = self._blobs.shape[1] * self.block_bytes
        return lane * size, (lane + 1) * size

    def clear(self) -> None:
        """Lets go of everything."""
        self._blobs[...], self._block[...], self._fill[...] = 0, NONE, 0

    def state(self) -> Tree:
        """Everything that changes: the blocks that were ever used, and what is known of them."""
        return {
            "bytes": self._blocks()[:, : self._used_blocks()],
            "blobs": self._blobs, "touched": self._touched,
            "block": self._block, "fill": self._fill,
        }  # fmt: skip

    def load(self, state: Tree) -> None:
        """Takes over a state of an arena of the same size; raises ValueError for another."""
        if state["blobs"].shape != self._blobs.shape:
            raise ValueError(f"blocks {state['blobs'].shape}, not {self._blobs.shape}")
        for block in range(state["bytes"].shape[1]):  # blocks that were never used stay untouched
            used = state["touched"][:, block] > 0
            self._blocks()[used, block] = state["bytes"][used, block]
        self._blobs[...], self._touched[...] = state["blobs"], state["touched"]
        self._block[...], self._fill[...] = state["block"], state["fill"]

    def _used_blocks(self) -> int:
        return int((self._touched > 0).sum(axis=1).max())

    def _blocks(self) -> Array:
        return self.bytes[:-SLACK].reshape(*self._blobs.shape, self.block_bytes)

    @property
    def used(self) -> int:
        """Bytes of the pages that were ever written."""
        return int(pages(self._touched).sum())
