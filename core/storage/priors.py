"""What chunks are coded against: learnt once from the first frames, and never changed after."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..types import Tree
from .allocators import Heap
from .codecs import Codec, Lz4, Zstd, background, train_dictionary
from .columns import Chunking
from .layout import DICTIONARY_BYTES, LEARN_BYTES, LEARN_CHUNKS, SLACK

DICTIONARY_CHUNKS: Final = 256
Bytes = NDArray[np.uint8]


class Priors:
    """Nothing at first, then a background, then a dictionary too; a chunk names its prior.

    `bases` is `[P, size + SLACK]`, and `codecs` has one a prior.
    """

    def __init__(self, chunking: Chunking, size: int) -> None:
        self._chunking = chunking
        self._frames: Bytes | None = None
        self._seen = 0
        self._streams: list[bytes] = []
        self._learns_dictionary = chunking.dictionary and chunking.codec == "zstd"
        self.bases = np.zeros((1, size + SLACK), np.uint8)
        self.codecs: list[Codec] = [Lz4(chunking.frames) if chunking.codec == "lz4" else Zstd()]
        self.dictionary = b""

    @property
    def newest(self) -> int:
        """The prior that new chunks are coded against."""
        return len(self.bases) - 1

    def learn(self, frames: Bytes, stream: Bytes) -> None:
        """Looks at a closed chunk `[n, size]`, as long as there is something left to learn."""
        if self.newest == 0:
            self._see(frames)
            if self._seen == LEARN_CHUNKS * self._chunking.frames:
                self._settle_background()
        elif self.newest == 1 and self._learns_dictionary:
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
        base = np.zeros(self.bases.shape[1], np.uint8)
        assert self._frames is not None
        base[:-SLACK] = background(self._frames[: self._seen])
        self._add(base, self.codecs[0])
        self._frames, self._seen = None, 0

    def _settle_dictionary(self) -> None:
        self.dictionary = train_dictionary(self._streams, DICTIONARY_BYTES)
        self._add(self.bases[1], Zstd(self.dictionary))
        self._streams.clear()

    def _add(self, base: Bytes, codec: Codec) -> None:
        self.bases = np.concatenate([self.bases, base[None]])
        self.codecs.append(codec)

    def state(self) -> Tree:
        """What was learnt, and what is being learnt from."""
        return {
            "bases": self.bases.copy(),
            "dictionary": np.frombuffer(self.dictionary, np.uint8),
            "frames": self.bases[:0, :-SLACK]
            if self._frames is None
            else self._frames[: self._seen],
            "streams": np.frombuffer(b"".join(self._streams), np.uint8),
            "stream_lengths": np.array([len(stream) for stream in self._streams], np.int64),
        }

    def load(self, state: Tree) -> None:
        """Takes over what was saved."""
        self.bases = np.array(state["bases"])
        self.dictionary = state["dictionary"].tobytes()
        self.codecs = self.codecs[:1] * min(len(self.bases), 2)
        self.codecs += [Zstd(self.dictionary)] * (len(self.bases) - len(self.codecs))
        self._frames, self._seen = None, 0
        if len(state["frames"]):
            self._see(state["frames"])
        ends = np.cumsum(state["stream_lengths"])
        begins = ends - state["stream_lengths"]
        streams = state["streams"].tobytes()
        self._streams = [streams[a:b] for a, b in zip(begins, ends, strict=True)]

    @property
    def nbytes(self) -> int:
        """Bytes of what was learnt, and of what is being learnt from."""
        learning = self._seen * (self.bases.shape[1] - SLACK) + sum(map(len, self._streams))
        return self.bases.nbytes + len(self.dictionary) + learning
