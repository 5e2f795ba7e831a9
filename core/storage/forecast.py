"""What frames will take, judged by a few of them."""

import numpy as np

from ..types import Array
from .allocators import Heap
from .coder import Coder
from .columns import ColumnPlan, to_stored
from .layout import ChunkLayout


def forecast_bytes(column: ColumnPlan, frames: Array) -> float:
    """Bytes that a frame of a chunked column takes, by frames `[N, ...]` in the order of play.

    Priors learn from the first half, and the second is measured; of fewer frames than two chunks
    nothing is known, and they are taken for frames that nothing compresses.
    """
    layout = ChunkLayout(column, lanes=1, rows=len(frames))
    chunks = _chunks(layout, frames)
    learnt = len(chunks) // 2
    if not learnt:
        return float(layout.size)
    coder = Coder(layout, Heap())
    for chunk in chunks[:learnt]:
        coder.code(chunk)
    coder.priors.settle()
    blobs = [len(coder.code(chunk)[2]) for chunk in chunks[learnt:]]
    return sum(blobs) / (len(blobs) * layout.frames)


def _chunks(layout: ChunkLayout, frames: Array) -> Array:
    """Whole chunks, `[chunks, n, size]`, padded as they are stored."""
    stored = np.ascontiguousarray(to_stored(layout.column, frames)).view(np.uint8)
    flat = stored.reshape(len(frames), layout.column.bytes_per_row)
    count = len(flat) // layout.frames
    padded = np.zeros((count, layout.frames, layout.size), np.uint8)
    kept = flat[: count * layout.frames].reshape(count, layout.frames, flat.shape[1])
    padded[:, :, : flat.shape[1]] = kept
    return padded
