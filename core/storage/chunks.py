"""The chunked frame column: frames of a lane compressed a chunk at a time, without loss."""

import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptMemoryError, UsageError
from ..types import Array, Tree
from . import kernels
from .allocators import Allocator
from .arena import NONE, Arena
from .coder import Coder
from .columns import Where, to_stored
from .layout import ENTRY, SLACK, ChunkLayout
from .log import KEPT_COMMITS

INT64: Final = np.dtype(np.int64)


class ChunkedColumn:
    """A `Column` of frames. Chunk k of a lane holds its rows from k * n to (k + 1) * n - 1.

    The newest chunk of a lane is open, and raw; as its last row is followed by another, it is coded
    and closed. Two raw buffers are used in turn, so that a chunk's entry stands before its buffer
    is used again. Other processes may read while one writes a lane: nothing is written over before
    the tail has moved over it, and an index entry is written after what it names.
    """

    def __init__(self, layout: ChunkLayout, allocator: Allocator, name: str = "frames") -> None:
        lanes, size = layout.lanes, layout.size
        self.plan = layout.column
        self.name = name
        self._frames = layout.frames
        self._size = self.plan.bytes_per_row
        self._open = allocator.allocate((lanes * 2 * layout.frames, size), np.dtype(np.uint8))
        self._unpadded = self._open[:, : self._size]
        self._open_chunk, self._oldest, self._ended = allocator.allocate((3, lanes), INT64)
        self._entries = allocator.allocate((lanes, layout.entries), ENTRY)
        self._offsets = self._entries["offset"]
        self._index = tuple(self._entries[name] for name in ENTRY.names or ())
        data = allocator.kept(name, layout.arena_bytes + layout.spare_bytes + SLACK)
        self._arena = Arena(data, lanes, layout.blocks, layout.block_bytes, layout.spare)
        self._coder = Coder(layout, allocator)
        self._committed: deque[NDArray[np.bool_]] = deque(maxlen=KEPT_COMMITS)

    @property
    def kept(self) -> bool:
        """Whether closed chunks are where a restart finds them."""
        return self.plan.chunking.kept

    def make_room(self, lanes: NDArray[np.int64], rows: NDArray[np.int64], tails: Array) -> bool:
        """Prepares for a row each; gives whether that took rows for want of bytes.

        Where a row begins a chunk, the chunk before it is closed. If the arena has no room, the
        oldest chunks go, and the lane's tail in `tails` `[L]` moves over them first.
        """
        begun = np.flatnonzero(rows % self._frames == 0)
        short = False
        for place in begun:
            lane, chunk = int(lanes[place]), int(rows[place]) // self._frames - 1
            if chunk >= 0:
                self._drop(lane, min(int(tails[lane]) // self._frames, chunk))
                short |= self._close(lane, chunk, tails)
            self._open_chunk[lane] = chunk + 1
        return short

    def _drop(self, lane: int, oldest: int) -> None:
        """Lets go of a lane's closed chunks before `oldest`."""
        first = int(self._oldest[lane])
        for chunk in range(first, min(oldest, int(self._ended[lane]))):
            self._arena.free(lane, int(self._offsets[lane, chunk % self._offsets.shape[1]]))
        self._oldest[lane] = max(first, oldest)

    def _close(self, lane: int, chunk: int, tails: Array) -> bool:
        """Codes a chunk and stores it, once; gives whether the tail had to move for it."""
        if self._ended[lane] > chunk:  # a row was refused after it, and comes again
            return False
        first = (2 * lane + chunk % 2) * self._frames
        frames = self._open[first : first + self._frames]
        form, prior, blob = self._coder.code(frames, learn=lane == 0)
        short = False
        while (offset := self._arena.put(lane, blob)) == NONE:
            if self._oldest[lane] >= chunk:
                raise UsageError("the arena is too small to hold a chunk of frames a lane")
            oldest = int(self._oldest[lane]) + 1
            short |= bool(tails[lane] < oldest * self._frames)
            tails[lane] = max(int(tails[lane]), oldest * self._frames)
            self._drop(lane, oldest)
        entry = (chunk, offset, len(blob), form, prior)
        self._entries[lane, chunk % self._entries.shape[1]] = entry
        self._ended[lane] = chunk + 1
        return short

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
        """See `Column.gather`; of a stack, or of rows in order, each chunk is decoded once."""
        lanes, rows = where.lanes, where.rows
        if rows.ndim == 2 and lanes.shape == (len(rows), 1):  # stacks: in order as they are
            shape, units, order = rows.shape, lanes[:, 0], np.arange(len(rows))
            wanted = np.ascontiguousarray(rows)
        else:
            shape = np.broadcast_shapes(lanes.shape, rows.shape)
            units, each = (np.broadcast_to(x, shape).flatten() for x in (lanes, rows))
            wanted, order = each[:, None], np.lexsort((each, units))
        shape += self.plan.spec.shape
        if out is not None and out.shape != shape:
            raise ValueError(f"'{self.plan.name}' fills {shape}, not {out.shape}")
        target = np.empty(shape, self.plan.stored) if out is None or not self._fits(out) else out
        flat = target.view(np.uint8).reshape(-1)
        while not self._read(units, wanted, order, flat):
            pass
        if target is out:
            return target
        given = target.astype(self.plan.spec.dtype, copy=False)
        if out is None:
            return given
        out[...] = given
        return out

    def _read(self, lanes: Array, rows: Array, order: Array, flat: NDArray[np.uint8]) -> bool:
        """Rebuilds the frames of those rows, `[units, depth]`, one after the other.

        Gives whether all is there: a writer may have come by twice meanwhile, and be filling again
        the buffer of what was open. Raises CorruptMemoryError for what cannot be rebuilt.
        """
        newest = self._open_chunk.copy()
        room = np.empty((10, rows.size + 1), np.int64)
        places, opened, found, groups = room[:2], room[2:4], room[4:9], room[9]
        closed, count, others = kernels.find_chunks(
            (lanes, rows, order), self._frames, newest, self._index, (places, groups, found, opened)
        )
        if count < 0:
            raise CorruptMemoryError(f"'{self.plan.name}' is asked for a chunk that is not held")
        if others:
            self._coder.copy(self._open.reshape(-1), opened[0, :others], opened[1, :others], flat)
            if (self._open_chunk > newest + 1).any():
                return False
        broken = self._coder.unpack(
            self._arena.bytes, found[:4, :count], groups[: count + 1], places[0, :closed],
            places[1, :closed], flat,
        )  # fmt: skip
        if broken != NONE:
            unit = found[4, broken]
            chunk = rows[unit, 0] // self._frames
            raise CorruptMemoryError(
                f"'{self.plan.name}': chunk {chunk} of lane {lanes[unit]} is broken"
            )
        return True

    def _fits(self, out: Array) -> bool:
        """Whether the compiled loops can write there: they know neither strides nor dtypes."""
        flags = out.flags
        return out.dtype == self.plan.stored and flags.c_contiguous and flags.writeable

    def check_index(self) -> None:
        """Raises CorruptMemoryError unless entries name bytes of their lane, and known forms."""
        for lane in range(len(self._oldest)):
            chunks = np.arange(self._oldest[lane], self._ended[lane])
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
        own["ended"] = self._ended
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
        self._oldest[...], self._ended[...] = state["oldest"], state["ended"]
        self._coder.priors.load(state["priors"])
        self._arena.load(state["arena"])
        self.check_index()

    def closed(self, lane: int, first: int) -> Iterator[tuple[int, int, int, Array]]:
        """Chunk, form, prior and blob of a lane's held chunks from `first` on, oldest first."""
        for entry in self.entries(lane, first):
            yield int(entry["chunk"]), int(entry["form"]), int(entry["prior"]), self.blob(entry)

    def entries(self, lane: int, first: int) -> Array:
        """The index of a lane's held chunks from `first` on, oldest first."""
        chunks = np.arange(max(first, int(self._oldest[lane])), int(self._ended[lane]))
        found: Array = self._entries[lane, chunks % self._entries.shape[1]]
        return found

    def blob(self, entry: Any) -> Array:
        """The bytes that an entry of the index names."""
        offset = int(entry["offset"])
        return self._arena.bytes[offset : offset + int(entry["length"])]

    def empty(self, tails: Array) -> None:
        """Lets go of everything, to take chunks from the tails `[L]` on."""
        self._arena.clear()
        self._entries["chunk"] = NONE
        self._open_chunk[...] = self._oldest[...] = self._ended[...] = tails // self._frames

    def put_back(self, lane: int, chunk: int, form: int, prior: int, blob: Array) -> None:
        """Takes a chunk as `closed` gave it, each after the one before it in its lane.

        Raises CorruptMemoryError where there is no room for it.
        """
        offset = self._arena.put(lane, blob)
        if offset == NONE:
            raise CorruptMemoryError(f"'{self.plan.name}' has no room for chunk {chunk}")
        self.name_again(lane, np.array([(chunk, offset, len(blob), form, prior)], ENTRY))

    def name_again(self, lane: int, entries: Array) -> None:
        """Takes entries as `entries` gave them, of chunks that lie where they lay."""
        self._entries[lane, entries["chunk"] % self._entries.shape[1]] = entries
        self._ended[lane] = entries["chunk"][-1] + 1

    def recall(self, lanes: Iterable[int]) -> None:
        """Takes up lanes of which only the index is known: of another process, or of the past."""
        for lane in lanes:
            entries = self.entries(lane, 0)
            self._arena.recall(lane, entries["offset"], entries["length"])

    @property
    def due(self) -> bool:
        """Whether a lane of what is kept has hardly a block left that no commit holds."""
        return self.kept and self._arena.short

    def checksum(self, entry: Any) -> int:
        """CRC-32 of the bytes that an entry names."""
        return zlib.crc32(self.blob(entry).data)

    def committed(self, *, anew: bool = False) -> None:
        """Holds what is there now until it is part of no commit that is kept."""
        if anew:
            self._committed.clear()
        self._committed.append(self._arena.taken)
        if self.kept:
            self._arena.hold(self._committed)

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

    @property
    def private(self) -> int:
        """Bytes of this process alone, on whatever tier the column is."""
        return self._coder.private
