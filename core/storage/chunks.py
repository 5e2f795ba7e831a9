"""The chunked frame column: frames of a lane compressed a chunk at a time, without loss."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptMemoryError, UsageError
from ..types import Array, Tree
from .allocators import Allocator
from .arena import NONE, Arena
from .coder import Coder
from .columns import Where, to_stored
from .layout import ENTRY, ChunkLayout


class ChunkedColumn:
    """A `Column` of frames. Chunk k of a lane holds its rows from k * n to (k + 1) * n - 1.

    The newest chunk of a lane is open, and raw; as its last row is followed by another, it is coded
    and closed. Two raw buffers are used in turn, so that a chunk's entry stands before its buffer
    is used again.
    """

    def __init__(self, layout: ChunkLayout, allocator: Allocator) -> None:
        lanes, size = layout.lanes, layout.size
        self.plan = layout.column
        self._frames = layout.frames
        self._size = self.plan.bytes_per_row
        self._open = allocator.allocate((lanes * 2 * layout.frames, size), np.dtype(np.uint8))
        self._unpadded = self._open[:, : self._size]
        self._open_chunk = np.zeros(lanes, np.int64)
        self._oldest = np.zeros(lanes, np.int64)
        self._closed = np.full(lanes, NONE, np.int64)
        self._entries = np.zeros((lanes, layout.entries), ENTRY)
        self._offsets = self._entries["offset"]
        self._arena = Arena(allocator, lanes, layout.blocks, layout.block_bytes)
        self._coder = Coder(layout)

    def make_room(
        self, lanes: NDArray[np.int64], rows: NDArray[np.int64], tails: Array
    ) -> Array | None:
        """Prepares for a row each; gives the tails `[n]` that this leaves, or None for the same.

        Where a row begins a chunk, the chunk before it is closed. If the arena has no room, the
        oldest chunks go, and the tail moves over them.
        """
        begun = np.flatnonzero(rows % self._frames == 0)
        if not len(begun):
            return None
        tails = tails.copy()
        for place in begun:
            lane, chunk = int(lanes[place]), int(rows[place]) // self._frames - 1
            if chunk >= 0:
                self._drop(lane, min(int(tails[place]) // self._frames, chunk))
                tails[place] = max(tails[place], self._close(lane, chunk) * self._frames)
            self._open_chunk[lane] = chunk + 1
        return tails

    def _drop(self, lane: int, oldest: int) -> None:
        """Lets go of a lane's closed chunks before `oldest`."""
        first = int(self._oldest[lane])
        for chunk in range(first, min(oldest, int(self._closed[lane]) + 1)):
            self._arena.free(lane, int(self._offsets[lane, chunk % self._offsets.shape[1]]))
        self._oldest[lane] = max(first, oldest)

    def _close(self, lane: int, chunk: int) -> int:
        """Codes a chunk and stores it, once; gives the oldest chunk that is still held."""
        if self._closed[lane] >= chunk:  # a row was refused after it, and comes again
            return int(self._oldest[lane])
        first = (2 * lane + chunk % 2) * self._frames
        form, prior, blob = self._coder.code(self._open[first : first + self._frames])
        offset = self._arena.put(lane, blob)
        while offset == NONE:
            if self._oldest[lane] >= chunk:
                raise UsageError("the arena is too small to hold a chunk of frames a lane")
            self._drop(lane, int(self._oldest[lane]) + 1)
            offset = self._arena.put(lane, blob)
        entry = (chunk, offset, len(blob), form, prior)
        self._entries[lane, chunk % self._entries.shape[1]] = entry
        self._closed[lane] = chunk
        return int(self._oldest[lane])

    def write(self, where: Where, values: Array) -> None:
        """See `Column.write`."""
        stored = np.ascontiguousarray(to_stored(self.plan, values))
        frames = stored.view(np.uint8).reshape(len(stored), self._size)
        self._unpadded[self._places(where.lanes, where.rows)] = frames

    def _places(self, lanes: Array, rows: Array) -> Array:
        """Where rows of an open chunk lie: its two buffers a lane are a ring of their own."""
        places: Array = lanes * (2 * self._frames) + rows % (2 * self._frames)
        return places

    def gather(self, where: Where, out: Array | None = None) -> Array:
        """See `Column.gather`; each chunk is decoded once."""
        lanes, rows = np.broadcast_arrays(where.lanes, where.rows)
        shape = (*rows.shape, *self.plan.spec.shape)
        if out is not None and out.shape != shape:
            raise ValueError(f"'{self.plan.name}' fills {shape}, not {out.shape}")
        target = np.empty(shape, self.plan.stored) if out is None or not self._fits(out) else out
        flat = target.view(np.uint8).reshape(-1, self._size)
        lane, row = lanes.reshape(-1), rows.reshape(-1)
        chunk, place = np.divmod(row, self._frames)
        open_ = chunk == self._open_chunk[lane]
        opened = np.flatnonzero(open_)
        if len(opened):
            places = self._places(lane[opened], row[opened])
            self._coder.copy(self._open.reshape(-1), places, opened, flat.reshape(-1))
        closed = np.flatnonzero(~open_)
        if len(closed):
            order = closed[np.lexsort((row[closed], lane[closed]))]
            self._unpack(lane[order], chunk[order], place[order], order, flat)
        if target is out:
            return target
        given = target.astype(self.plan.spec.dtype, copy=False)
        if out is None:
            return given
        out[...] = given
        return out

    def _fits(self, out: Array) -> bool:
        """Whether the compiled loops can write there: they know neither strides nor dtypes."""
        flags = out.flags
        return out.dtype == self.plan.stored and flags.c_contiguous and flags.writeable

    def _unpack(
        self, lane: Array, chunk: Array, place: Array, targets: Array, flat: NDArray[np.uint8]
    ) -> None:
        """Rebuilds frames of closed chunks, sorted by lane and row."""
        new = np.flatnonzero((np.diff(lane, prepend=-1) != 0) | (np.diff(chunk, prepend=-1) != 0))
        groups = np.append(new, len(lane))
        entries = self._entries[lane[new], chunk[new] % self._entries.shape[1]]
        if (entries["chunk"] != chunk[new]).any():
            raise CorruptMemoryError(f"'{self.plan.name}' is asked for a chunk that is not held")
        broken = self._coder.unpack(
            self._arena.bytes, entries, groups, place, targets, flat.reshape(-1)
        )
        if broken != NONE:
            which = f"chunk {chunk[new[broken]]} of lane {lane[new[broken]]}"
            raise CorruptMemoryError(f"'{self.plan.name}': {which} is broken")

    def check_index(self) -> None:
        """Raises CorruptMemoryError unless every entry names bytes of its lane, and a known form.

        What the compiled loops are told of where a chunk lies they do not doubt.
        """
        for lane in range(len(self._oldest)):
            chunks = np.arange(self._oldest[lane], self._closed[lane] + 1)
            entries = self._entries[lane, chunks % self._entries.shape[1]]
            ends = entries["offset"] + entries["length"]
            first, last = self._arena.span(lane)
            right = (entries["chunk"] == chunks) & (entries["offset"] >= first) & (ends <= last)
            right &= self._coder.knows(entries)
            if not right.all():
                which = f"chunk {chunks[~right][0]} of lane {lane}"
                raise CorruptMemoryError(f"'{self.plan.name}': the index of {which} is broken")

    def check(self, lanes: Array, rows: Array) -> None:
        """Raises CorruptMemoryError unless those rows, in order, can be rebuilt."""
        for begin in range(0, len(rows), self._frames):
            part = slice(begin, begin + self._frames)
            self.gather(Where(lanes[part], rows[part], rows[part]))

    def state(self) -> Tree:
        """Everything that changes."""
        own = {"open": self._open, "open_chunk": self._open_chunk, "oldest": self._oldest}
        own["closed"] = self._closed
        entries = self._entries.view(np.uint8).reshape(len(self._entries), -1)
        return {
            **own,
            "entries": entries,
            "priors": self._coder.priors.state(),
            "arena": self._arena.state(),
        }

    def load(self, state: Tree) -> None:
        """Takes over a state of a column of the same plan."""
        self._entries.view(np.uint8).reshape(len(self._entries), -1)[...] = state["entries"]
        self._open[...], self._open_chunk[...] = state["open"], state["open_chunk"]
        self._oldest[...], self._closed[...] = state["oldest"], state["closed"]
        self._coder.priors.load(state["priors"])
        self._arena.load(state["arena"])
        self.check_index()

    def closed(self, lane: int, first: int) -> Iterator[tuple[int, int, int, Array]]:
        """Chunk, form, prior and blob of a lane's held chunks from `first` on, oldest first."""
        begin = max(first, int(self._oldest[lane]))
        for chunk in range(begin, int(self._closed[lane]) + 1):
            entry = self._entries[lane, chunk % self._entries.shape[1]]
            offset = int(entry["offset"])
            blob = self._arena.bytes[offset : offset + int(entry["length"])]
            yield chunk, int(entry["form"]), int(entry["prior"]), blob

    def empty(self, tails: Array) -> None:
        """Lets go of everything, to take chunks from the tails `[L]` on by `put_back`."""
        self._arena.clear()
        self._entries["chunk"] = NONE
        self._oldest[...] = tails // self._frames
        self._closed[...] = self._oldest - 1

    def put_back(self, lane: int, chunk: int, form: int, prior: int, blob: Array) -> None:
        """Takes a chunk as `closed` gave it, each after the one before it in its lane.

        Raises CorruptMemoryError where there is no room for it.
        """
        offset = self._arena.put(lane, blob)
        if offset == NONE:
            raise CorruptMemoryError(f"'{self.plan.name}' has no room for chunk {chunk}")
        entry = (chunk, offset, len(blob), form, prior)
        self._entries[lane, chunk % self._entries.shape[1]] = entry
        self._closed[lane] = chunk

    def open_state(self) -> Tree:
        """The newest chunk of every lane, as it is, and the priors."""
        return {
            "frames": self._open[self._open_rows()],
            "chunk": self._open_chunk,
            "priors": self._coder.priors.state(),
        }

    def load_open(self, state: Tree) -> None:
        """Takes over what `open_state` gave."""
        self._open_chunk[...] = state["chunk"]
        self._open[self._open_rows()] = state["frames"]
        self._coder.priors.load(state["priors"])

    def _open_rows(self) -> Array:
        lanes = np.arange(len(self._open_chunk))[:, None]
        rows = self._open_chunk[:, None] * self._frames + np.arange(self._frames)
        return self._places(lanes, rows).reshape(-1)

    def usage(self, written: int) -> int:
        """Bytes in use, whatever was written: raw buffers, entries, priors and touched blocks."""
        open_ = min(int(self._open.nbytes), written * int(self._open.shape[-1]))
        own = int(self._entries.nbytes) + self._coder.nbytes
        return open_ + own + self._arena.used
