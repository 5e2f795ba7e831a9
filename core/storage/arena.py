"""The arena: blobs of a lane in blocks, oldest out first, blocks used again as they empty."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import RunFailedError
from ..types import Array, Tree
from .layout import SLACK, pages

NONE = -1


class Arena:
    """Bytes for blobs of different length, in blocks: a lane has so many in use, and some to spare.

    A lane fills one block after the other and lets go of its oldest blobs first; of the blocks that
    are empty it takes the first, so that memory which was never needed is never touched. What is
    held by a commit is not written over. `bytes` can be read `SLACK` bytes past any blob.
    """

    def __init__(
        self, data: Array, lanes: int, blocks: int, block_bytes: int, spare: int = 0
    ) -> None:
        self.block_bytes = block_bytes
        self.bytes = data
        self._in_use, self._spare = blocks, spare
        shape = (lanes, blocks + spare)
        self._blobs = np.zeros(shape, np.int64)
        self._touched = np.zeros(shape, np.int64)
        self._committed = np.zeros(shape, np.bool_)
        self._newest: NDArray[np.bool_] | None = None
        self._block = np.full(lanes, NONE, np.int64)
        self._fill = np.zeros(lanes, np.int64)

    def put(self, lane: int, blob: NDArray[np.uint8]) -> int:
        """Copies a blob in and gives its offset, or -1 where a lane has all its blocks in use.

        Raises RunFailedError where there is no block that no commit holds.
        """
        block, begin = int(self._block[lane]), int(self._fill[lane])
        if block == NONE or begin + len(blob) > self.block_bytes:
            block, begin = self._next_block(lane), 0
            if block == NONE:
                return NONE
        offset = (lane * self._blobs.shape[1] + block) * self.block_bytes + begin
        fill = begin + len(blob)
        self.bytes[offset : offset + len(blob)] = blob
        self._block[lane], self._fill[lane] = block, fill
        self._blobs[lane, block] += 1
        self._touched[lane, block] = max(self._touched[lane, block], fill)
        return offset

    def _next_block(self, lane: int) -> int:
        """The block to fill next; one that was emptied while it was filled is begun anew."""
        current, taken = int(self._block[lane]), self._blobs[lane] > 0
        free = ~taken & ~self._committed[lane]
        if current != NONE and free[current]:
            return current
        if taken.sum() >= self._in_use:
            return NONE
        if not free.any():
            raise RunFailedError(
                "the last commit holds all that is left of a memory on disk: commit, and go on"
            )
        return int(np.argmax(free))

    def free(self, lane: int, offset: int) -> None:
        """Lets go of the blob at an offset."""
        self._blobs[lane, offset // self.block_bytes % self._blobs.shape[1]] -= 1

    def hold(self, commits: Sequence[NDArray[np.bool_]]) -> None:
        """From here on, blocks that a commit `[lanes, blocks]` names are not written over."""
        self._committed[...] = np.any(commits, axis=0)
        self._newest = commits[-1]

    @property
    def taken(self) -> NDArray[np.bool_]:
        """Blocks that hold a blob, `[lanes, blocks]`."""
        return self._blobs > 0

    @property
    def short(self) -> bool:
        """Whether a lane took all but two of half of what it has to spare, since the newest commit.

        Not more: another half is what it let go of since the commit before, which is held too, and
        two blocks may be begun until it is asked again.
        """
        if self._newest is None:
            return False
        new = (self.taken & ~self._newest).sum(axis=1)
        return bool(new.max() > self._spare // 2 - 2)

    def recall(self, lane: int, offsets: NDArray[np.int64], lengths: NDArray[np.int32]) -> None:
        """Takes up a lane of which no more is known than where its blobs lie, oldest first."""
        blocks = offsets // self.block_bytes % self._blobs.shape[1]
        ends = offsets % self.block_bytes + lengths
        self._blobs[lane] = np.bincount(blocks, minlength=self._blobs.shape[1])
        self._touched[lane] = 0
        np.maximum.at(self._touched[lane], blocks, ends)
        self._block[lane] = blocks[-1] if len(blocks) else NONE
        self._fill[lane] = ends[-1] if len(blocks) else 0

    def span(self, lane: int) -> tuple[int, int]:
        """The first byte of a lane, and the first behind it."""
        size = self._blobs.shape[1] * self.block_bytes
        return lane * size, (lane + 1) * size

    def clear(self) -> None:
        """Lets go of everything."""
        self._blobs[...], self._committed[...] = 0, False
        self._newest = None
        self._block[...], self._fill[...] = NONE, 0

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
