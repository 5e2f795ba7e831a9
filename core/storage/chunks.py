"""The chunked frame column: frames of a lane compressed a chunk at a time, without loss."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptMemoryError, UsageError
from ..types import Array, Tree
from .allocators import Allocator
from .arena import NONE, Arena
from .codecs import RAW, Codec, Lz4, Zstd, background, train_dictionary
from .columns import Chunking, ColumnPlan, Where, to_stored
from .scratch import Scratch

BACKGROUND_CHUNKS: Final = 16
DICTIONARY_CHUNKS: Final = 256
DICTIONARY_BYTES: Final = 32_768
LEAST_BLOCK: Final = 1 << 16
ENTRY: Final = np.dtype(
    [("chunk", np.int64), ("offset", np.int64), ("length", np.int32), ("form", np.uint8),
     ("prior", np.uint8)]
)  # fmt: skip


class Priors:
    """What chunks are coded against: nothing at first, then a background, then a dictionary too.

    Each is learnt once, from the first frames, and never changes after: a chunk names its prior.
    """

    def __init__(self, chunking: Chunking, size: int) -> None:
        self._chunking = chunking
        self._frames: list[NDArray[np.uint8]] = []
        self._streams: list[bytes] = []
        self._learns_dictionary = chunking.dictionary and chunking.codec == "zstd"
        self.bases = np.zeros((1, size), np.uint8)
        self.codecs: list[Codec] = [Lz4() if chunking.codec == "lz4" else Zstd()]
        self.dictionary = b""

    @property
    def newest(self) -> int:
        """The prior that new chunks are coded against."""
        return len(self.bases) - 1

    def learn(self, frames: NDArray[np.uint8], stream: NDArray[np.uint8]) -> None:
        """Looks at a closed chunk, as long as there is something left to learn."""
        if self.newest == 0:
            self._frames.append(frames.copy())
            if len(self._frames) == BACKGROUND_CHUNKS:
                self._add(background(np.concatenate(self._frames)), self.codecs[0])
                self._frames.clear()
        elif self.newest == 1 and self._learns_dictionary:
            self._streams.append(stream.tobytes())
            if len(self._streams) == DICTIONARY_CHUNKS:
                self.dictionary = train_dictionary(self._streams, DICTIONARY_BYTES)
                self._add(self.bases[1], Zstd(self.dictionary))
                self._streams.clear()

    def _add(self, base: NDArray[np.uint8], codec: Codec) -> None:
        self.bases = np.concatenate([self.bases, base[None]])
        self.codecs.append(codec)

    def state(self) -> Tree:
        """What was learnt, and what is being learnt from."""
        return {
            "bases": self.bases.copy(),
            "dictionary": np.frombuffer(self.dictionary, np.uint8),
            "frames": np.concatenate(self._frames) if self._frames else self.bases[:0],
            "streams": [stream.hex() for stream in self._streams],
        }

    def load(self, state: Tree) -> None:
        """Takes over what was saved."""
        self.bases = np.array(state["bases"])
        self.dictionary = state["dictionary"].tobytes()
        self.codecs = self.codecs[:1] * min(len(self.bases), 2)
        self.codecs += [Zstd(self.dictionary)] * (len(self.bases) - len(self.codecs))
        count = self._chunking.frames
        self._frames = [
            state["frames"][at : at + count] for at in range(0, len(state["frames"]), count)
        ]
        self._streams = [bytes.fromhex(stream) for stream in state["streams"]]

    @property
    def nbytes(self) -> int:
        """Bytes of what was learnt, and of what is being learnt from."""
        learning = sum(frames.nbytes for frames in self._frames) + sum(map(len, self._streams))
        return self.bases.nbytes + len(self.dictionary) + learning


class ChunkedColumn:
    """A `Column` of frames. Chunk k of a lane holds its rows from k * n to (k + 1) * n - 1.

    The newest chunk of a lane is open, and raw; as its last row is followed by another, it is coded
    and closed. Two raw buffers are used in turn, so that a chunk's entry stands before its buffer
    is used again.
    """

    def __init__(self, plan: ColumnPlan, lanes: int, rows: int, allocator: Allocator) -> None:
        chunking = plan.chunking
        self.plan = plan
        self._frames = chunking.frames
        self._size = plan.bytes_per_row
        padded = -(-self._size // 8) * 8  # whole words, which the encoder compares
        self._open = allocator.allocate((lanes, 2, chunking.frames, padded), np.dtype(np.uint8))
        self._open_chunk = np.zeros(lanes, np.int64)
        self._oldest = np.zeros(lanes, np.int64)
        entries = rows // chunking.frames + 3
        self._entries = np.zeros((lanes, entries), ENTRY)
        self.priors = Priors(chunking, padded)
        self._arena = make_arena(allocator, lanes, rows, chunking.frames, padded)
        self._scratch = Scratch(chunking.frames, padded)

    def make_room(self, lanes: NDArray[np.int64], rows: NDArray[np.int64], tails: Array) -> Array:
        """Prepares for a row each; gives the tails `[n]` that this leaves.

        Where a row begins a chunk, the chunk before it is closed. If the arena has no room, the
        oldest chunks go, and the tail moves over them.
        """
        tails = tails.copy()
        for place in np.flatnonzero((rows % self._frames == 0) & (rows > 0)):
            lane, chunk = int(lanes[place]), int(rows[place]) // self._frames - 1
            self._drop(lane, int(tails[place]) // self._frames)
            tails[place] = max(tails[place], self._close(lane, chunk) * self._frames)
        return tails

    def _drop(self, lane: int, oldest: int) -> None:
        """Lets go of a lane's closed chunks before `oldest`."""
        for chunk in range(int(self._oldest[lane]), oldest):
            entry = self._entry(lane, chunk)
            if entry["chunk"] == chunk and entry["length"]:
                self._arena.free(lane, int(entry["offset"]))
        self._oldest[lane] = max(self._oldest[lane], oldest)

    def _entry(self, lane: int, chunk: int) -> Any:
        return self._entries[lane, chunk % self._entries.shape[1]]

    def _close(self, lane: int, chunk: int) -> int:
        """Codes a chunk and stores it, once; gives the oldest chunk that is still held."""
        if self._entry(lane, chunk)["chunk"] == chunk and self._entry(lane, chunk)["length"]:
            return int(self._oldest[lane])
        frames = self._open[lane, chunk % 2]
        form, prior, blob = self._code(frames)
        offset = self._arena.put(lane, blob)
        while offset == NONE:
            if self._oldest[lane] >= chunk:
                raise UsageError("the arena is too small to hold a chunk of frames a lane")
            self._drop(lane, int(self._oldest[lane]) + 1)
            offset = self._arena.put(lane, blob)
        slot = chunk % self._entries.shape[1]
        self._entries[lane, slot] = (chunk, offset, len(blob), form, prior)
        return int(self._oldest[lane])

    def _code(self, frames: NDArray[np.uint8]) -> tuple[int, int, NDArray[np.uint8]]:
        prior = self.priors.newest
        stream = self._scratch.encode(frames, self.priors.bases[prior])
        codec = self.priors.codecs[prior]
        packed = codec.compress(stream)
        self.priors.learn(frames, stream)
        if len(packed) < frames.nbytes:
            return codec.form, prior, np.frombuffer(packed, np.uint8)
        return RAW, prior, frames.reshape(-1)

    def write(self, where: Where, values: Array) -> None:
        """See `Column.write`."""
        stored = np.ascontiguousarray(to_stored(self.plan, values))
        chunk, place = np.divmod(where.rows, self._frames)
        frames = stored.view(np.uint8).reshape(len(chunk), self._size)
        self._open[where.lanes, chunk % 2, place, : self._size] = frames
        self._open_chunk[where.lanes] = chunk

    def gather(self, where: Where, out: Array | None = None) -> Array:
        """See `Column.gather`; each chunk is decoded once."""
        lanes, rows = np.broadcast_arrays(where.lanes, where.rows)
        shape = (*rows.shape, *self.plan.spec.shape)
        direct = out is not None and out.dtype == self.plan.stored and out.flags.c_contiguous
        target = out if direct else np.empty(shape, self.plan.stored)
        assert target is not None
        flat = target.view(np.uint8).reshape(-1, self._size)
        lane, row = lanes.reshape(-1), rows.reshape(-1)
        chunk, place = np.divmod(row, self._frames)
        open_ = chunk == self._open_chunk[lane]
        if open_.any():
            raw = self._open[lane[open_], chunk[open_] % 2, place[open_], : self._size]
            flat[open_] = raw
        closed = np.flatnonzero(~open_)
        if len(closed):
            order = closed[np.lexsort((row[closed], lane[closed]))]
            self._unpack(lane[order], chunk[order], place[order], order, flat)
        if direct:
            return target
        given = target.astype(self.plan.spec.dtype, copy=False)
        if out is None:
            return given
        out[...] = given
        return out

    def _unpack(
        self, lane: Array, chunk: Array, place: Array, targets: Array, flat: NDArray[np.uint8]
    ) -> None:
        """Rebuilds frames of closed chunks, sorted by lane and row."""
        new = np.flatnonzero((np.diff(lane, prepend=-1) != 0) | (np.diff(chunk, prepend=-1) != 0))
        groups = np.append(new, len(lane))
        entries = self._entries[lane[new], chunk[new] % self._entries.shape[1]]
        if (entries["chunk"] != chunk[new]).any():
            raise CorruptMemoryError(f"'{self.plan.name}' is asked for a chunk that is not held")
        broken = self._scratch.unpack(
            self._arena.bytes, entries, self.priors, groups, place, targets, flat
        )
        if broken != NONE:
            which = f"chunk {chunk[new[broken]]} of lane {lane[new[broken]]}"
            raise CorruptMemoryError(f"'{self.plan.name}': {which} is broken")

    def check(self, lanes: Array, rows: Array) -> None:
        """Raises CorruptMemoryError unless those rows, in order, can be rebuilt."""
        for begin in range(0, len(rows), self._frames):
            part = slice(begin, begin + self._frames)
            self.gather(Where(lanes[part], rows[part], rows[part]))

    def state(self) -> Tree:
        """Everything that changes."""
        own = {"open": self._open, "open_chunk": self._open_chunk, "oldest": self._oldest}
        entries = self._entries.view(np.uint8).reshape(len(self._entries), -1)
        return {
            **own,
            "entries": entries,
            "priors": self.priors.state(),
            "arena": self._arena.state(),
        }

    def load(self, state: Tree) -> None:
        """Takes over a state of a column of the same plan."""
        self._entries.view(np.uint8).reshape(len(self._entries), -1)[...] = state["entries"]
        self._open[...], self._open_chunk[...] = state["open"], state["open_chunk"]
        self._oldest[...] = state["oldest"]
        self.priors.load(state["priors"])
        self._arena.load(state["arena"])

    def usage(self, written: int) -> int:
        """Bytes in use, whatever was written: raw buffers, entries, priors and touched blocks."""
        open_ = min(int(self._open.nbytes), written * int(self._open.shape[-1]))
        own = int(self._entries.nbytes) + self.priors.nbytes + self._scratch.nbytes
        return open_ + own + self._arena.used


def make_arena(allocator: Allocator, lanes: int, rows: int, frames: int, size: int) -> Arena:
    """An arena that holds the chunks of so many rows a lane, even if none can be compressed."""
    largest = frames * size
    block = max(LEAST_BLOCK, largest)
    chunks = rows // frames + 2  # one that the tail cut and one that the open chunk will make
    blocks = -(-chunks // (block // largest)) + 1
    return Arena(allocator, lanes, blocks, block)
