"""How large a chunked column is, in every part, before a byte of it is taken."""

import mmap
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .columns import ColumnPlan

SLACK: Final = 16
"""Bytes that the compiled loops may read or write past the end of what they want."""
WORD: Final = 8
WIDE: Final = 1 << 16
LEAST_BLOCK: Final = 1 << 16
PAGE: Final = mmap.PAGESIZE
RAW, LZ4, ZSTD = 0, 1, 2
"""Forms of a chunk: frames as they are, or a stream, compressed by one or the other."""

DICTIONARY_BYTES: Final = 32_768
LEARN_CHUNKS: Final = 16
LEARN_BYTES: Final = 4 << 20
"""A background is learnt from so many chunks, a dictionary from so many bytes of streams."""

SPARE: Final = 4
LEAST_SPARE: Final = 5
"""One block in so many is kept free for what is new since a commit, and at least so many."""

LOW, HIGH = 0.5, 3.0
"""What pictures may take, as parts of what a short sample of random play took."""
ENTRY: Final = np.dtype(
    [("chunk", np.int64), ("offset", np.int64), ("length", np.int32), ("form", np.uint8),
     ("prior", np.uint8)]
)  # fmt: skip


def length_width(size: int) -> int:
    """Bytes that say how long a frame's part of a stream is."""
    return 2 if frame_bound(size) < WIDE else 4


def frame_bound(size: int) -> int:
    """Bytes that the runs of a frame never exceed: a run pays for its two numbers."""
    return size + size // 4 + 32


def stream_bound(count: int, size: int) -> int:
    """Bytes that a stream of `count` frames never exceeds, read past its end included."""
    return count * (frame_bound(size) + length_width(size)) + SLACK


def whole(count: int, unit: int) -> int:
    """Units that hold so many, the last perhaps in part."""
    return -(-count // unit)


def pages(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of the pages that so many bytes each take."""
    return -(-sizes // PAGE) * PAGE


@dataclass(frozen=True)
class ChunkLayout:
    """A chunked column of `rows` rows a lane.

    `cap` bounds the bytes of its arena, and 0 leaves as much as frames take that nothing
    compresses. `forecast` is what a frame is expected to take, in bytes, and 0 says that nobody
    knows; it bounds the arena too, but `least` rows have room whatever they show. Of what is `kept`
    a block is not used again before it is saved that it went, so that there are some to spare.
    """

    column: ColumnPlan
    lanes: int
    rows: int
    cap: int = 0
    forecast: float = 0.0
    least: int = 1

    @property
    def frames(self) -> int:
        """Frames of a chunk."""
        return self.column.chunking.frames

    @property
    def size(self) -> int:
        """Bytes of a frame, padded to whole words, which the encoder compares."""
        return whole(self.column.bytes_per_row, WORD) * WORD

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk as it is."""
        return self.frames * self.size

    @property
    def block_bytes(self) -> int:
        """Bytes of a block: whole pages, with room for any chunk."""
        return whole(max(LEAST_BLOCK, self.chunk_bytes), PAGE) * PAGE

    def blocks_for(self, rows: int) -> int:
        """Blocks in which a lane holds so many rows, whatever they show.

        Beside those chunks one that the tail cut, one that is about to be let go as its successor
        is stored, and a block that is being filled.
        """
        return whole(whole(rows, self.frames) + 2, self.block_bytes // self.chunk_bytes) + 1

    @property
    def blocks(self) -> int:
        """Blocks of a lane."""
        most = self.blocks_for(self.rows)
        bounds = [most]
        if self.cap:
            most = self.cap // (self.lanes * self.block_bytes)
            bounds.append((most - LEAST_SPARE) * SPARE // (SPARE + 1) if self.kept else most)
        if self.forecast:
            likely = whole(int(HIGH * self.forecast * self.rows), self.block_bytes) + 2
            bounds.append(max(likely, self.blocks_for(self.least)))
        return min(bounds)

    @property
    def kept(self) -> bool:
        """Whether chunks lie where a restart finds them."""
        return self.column.chunking.kept

    def spare_for(self, blocks: int) -> int:
        """Blocks of a lane to spare beside so many that are in use at a time."""
        return whole(blocks, SPARE) + LEAST_SPARE if self.kept else 0

    @property
    def spare(self) -> int:
        """Blocks of a lane beyond those that are in use at a time."""
        return self.spare_for(self.blocks)

    @property
    def arena_bytes(self) -> int:
        """Bytes of the blocks in use: what closed chunks never exceed."""
        return self.lanes * self.blocks * self.block_bytes

    @property
    def spare_bytes(self) -> int:
        """Bytes of the blocks to spare."""
        return self.lanes * self.spare * self.block_bytes

    def expected(self, part: float = 1.0) -> int:
        """Bytes of closed chunks once the ring is full, if frames take `part` of the forecast."""
        if not self.forecast:
            return self.arena_bytes
        filled = part * self.forecast * self.rows + self.block_bytes / 2
        return min(self.arena_bytes, int(self.lanes * filled))

    @property
    def rows_expected(self) -> int:
        """Rows of all lanes once full: fewer than there is room for where the arena is too small.

        Of what nobody knows the size, those that fit as they are.
        """
        a_row = self.forecast or float(self.size)
        fit = int((self.blocks - 1) * self.block_bytes / a_row)
        return self.lanes * min(self.rows, fit)

    @property
    def entries(self) -> int:
        """Entries of a lane's index."""
        return self.rows // self.frames + 3

    @property
    def fixed(self) -> int:
        """Bytes beside the closed chunks: open chunks, index, priors, room to code in."""
        opened = 2 * self.lanes * self.chunk_bytes
        learnt = self.priors * (self.size + SLACK) + self.trained
        return opened + self.index + learnt + self.scratch

    @property
    def index(self) -> int:
        """Bytes of the entries."""
        return self.lanes * self.entries * ENTRY.itemsize

    @property
    def priors(self) -> int:
        """How many priors there can be: none, a background, and that with a dictionary."""
        return 2 + self.column.chunking.dictionary

    @property
    def trained(self) -> int:
        """Bytes of a dictionary."""
        return DICTIONARY_BYTES * self.column.chunking.dictionary

    @property
    def learning(self) -> int:
        """Bytes of what priors are learnt from, let go before the memory is large."""
        if self.column.chunking.codec == "raw":
            return 0
        streams = LEARN_BYTES + stream_bound(self.frames, self.size)
        return max(LEARN_CHUNKS * self.chunk_bytes, streams * self.column.chunking.dictionary)

    @property
    def scratch(self) -> int:
        """Bytes to code and decode one chunk in."""
        return stream_bound(self.frames, self.size) + self.size + SLACK
