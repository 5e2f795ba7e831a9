"""What chunks are coded against: learnt once from the first frames, and never changed after."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..types import Tree
from .allocators import Allocator, Heap
from .codecs import Codec, Lz4, Zstd, background, train_dictionary
from .layout import (
    DICTIONARY_BYTES,
    LEARN_BYTES,
    LEARN_CHUNKS,
    LZ4,
    RAW,
    SLACK,
    ZSTD,
    ChunkLayout,
)  # fmt: skip

DICTIONARY: Final = 2
"""The prior with a dictionary."""

DICTIONARY_CHUNKS: Final = 256
Bytes = NDArray[np.uint8]


class Priors:
    """Nothing at first, then a background, then a dictionary too; a chunk names its prior.

    `bases` is `[P, size + SLACK]`. What was learnt is where other processes find it; one of them
    learns.
    """

    def __init__(self, layout: ChunkLayout, allocator: Allocator) -> None:
        self._chunking = layout.column.chunking
        self._frames: Bytes | None = None
        self._seen = 0
        self._streams: list[bytes] = []
        self.bases = allocator.allocate((layout.priors, layout.size + SLACK), np.dtype(np.uint8))
        self._numbers = allocator.allocate((2,), np.dtype(np.int64))  # priors learnt, dictionary
        self._dictionary = allocator.allocate((layout.trained,), np.dtype(np.uint8))
        self._codecs: dict[bool, Codec] = {}

    @property
    def newest(self) -> int:
        """The prior that new chunks are coded against."""
        return int(self._numbers[0])

    @property
    def dictionary(self) -> bytes:
        """What was trained, if it was."""
        return self._dictionary[: self._numbers[1]].tobytes()

    @property
    def form(self) -> int:
        """The form of chunks that were made smaller."""
        return {"lz4": LZ4, "zstd": ZSTD, "raw": RAW}[self._chunking.codec]

    def codec(self, prior: int) -> Codec:
        """The compressor of a prior's chunks."""
        trained = prior == DICTIONARY
        if trained not in self._codecs:
            self._codecs[trained] = self._make(self.dictionary if trained else b"")
        return self._codecs[trained]

    def _make(self, dictionary: bytes) -> Codec:
        lz4 = self._chunking.codec == "lz4"
        return Lz4(self._chunking.frames) if lz4 else Zstd(dictionary)

    def learn(self, frames: Bytes, stream: Bytes) -> None:
        """Looks at a closed chunk `[n, size]`, as long as there is something left to learn."""
        if self.newest == 0:
            self._see(frames)
            if self._seen == LEARN_CHUNKS * self._chunking.frames:
                self._settle_background()
        elif self.newest == 1 and self._chunking.dictionary:
            self._streams.append(stream.tobytes())
            enough = sum(map(len, self._streams)) >= LEARN_BYTES
            if enough or len(self._streams) == DICTIONARY_CHUNKS:
                self._settle_dictionary()

    def _see(self, frames: Bytes) -> None:
        """Keeps frames to learn from, in pages of their own that go back to the system whole."""
        if self._frames is None:
            rows = LEARN_CHUNKS * self._chunking.frames
            self._frames = Heap().allocate((rows, frames.shape[1]), np.dtype(np.uint8))
        self._frames[self._seen : self._seen + len(frames)] = frames
        self._seen += len(frames)

    def settle(self) -> None:
        """Makes do with what was seen so far."""
        if self._seen:
            self._settle_background()
        if self._streams:
            self._settle_dictionary()

    def _settle_background(self) -> None:
        assert self._frames is not None
        self.bases[1, :-SLACK] = background(self._frames[: self._seen])
        self._numbers[0] = 1
        self._frames, self._seen = None, 0

    def _settle_dictionary(self) -> None:
        trained = np.frombuffer(train_dictionary(self._streams, DICTIONARY_BYTES), np.uint8)
        self._dictionary[: len(trained)] = trained
        self._numbers[1] = len(trained)
        self.bases[DICTIONARY] = self.bases[1]
        self._numbers[0] = DICTIONARY
        self._streams.clear()

    def state(self) -> Tree:
        """What was learnt, and what is being learnt from."""
        return {
            "bases": self.bases[: self.newest + 1].copy(),
            "dictionary": np.frombuffer(self.dictionary, np.uint8),
            "frames": self.bases[:0, :-SLACK]
            if self._frames is None
            else self._frames[: self._seen],
            "streams": np.frombuffer(b"".join(self._streams), np.uint8),
            "stream_lengths": np.array([len(stream) for stream in self._streams], np.int64),
        }

    def load(self, state: Tree) -> None:
        """Takes over what was saved."""
        self.bases[: len(state["bases"])] = state["bases"]
        self._numbers[...] = len(state["bases"]) - 1, len(state["dictionary"])
        self._dictionary[: self._numbers[1]] = state["dictionary"]
        self._codecs.clear()
        self._frames, self._seen = None, 0
        if len(state["frames"]):
            self._see(state["frames"])
        ends = np.cumsum(state["stream_lengths"])
        begins = ends - state["stream_lengths"]
        streams = state["streams"].tobytes()
        self._streams = [streams[a:b] for a, b in zip(begins, ends, strict=True)]

    @property
    def nbytes(self) -> int:
        """Bytes of what was learnt."""
        return (self.newest + 1) * int(self.bases.shape[1]) + int(self._numbers[1])

    @property
    def learning(self) -> int:
        """Bytes of what is being learnt from, private to who learns."""
        return self._seen * int(self.bases.shape[1] - SLACK) + sum(map(len, self._streams))
