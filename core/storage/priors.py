"""What chunks are coded against: learnt once from the first frames, and never changed after."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..types import Tree
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
        self._frames: list[Bytes] = []
        self._streams: list[bytes] = []
        self._learns_dictionary = chunking.dictionary and chunking.codec == "zstd"
        self.bases = np.zeros((1, size + SLACK), np.uint8)
        self.codecs: list[Codec] = [Lz4() if chunking.codec == "lz4" else Zstd()]
        self.dictionary = b""

    @property
    def newest(self) -> int:
        """The prior that new chunks are coded against."""
        return len(self.bases) - 1

    def learn(self, frames: Bytes, stream: Bytes) -> None:
        """Looks at a closed chunk `[n, size]`, as long as there is something left to learn."""
        if self.newest == 0:
            self._frames.append(frames.copy())
            if len(self._frames) == LEARN_CHUNKS:
                self._settle_background()
        elif self.newest == 1 and self._learns_dictionary:
            self._streams.append(stream.tobytes())
            enough = sum(map(len, self._streams)) >= LEARN_BYTES
            if enough or len(self._streams) == DICTIONARY_CHUNKS:
                self._settle_dictionary()

    def settle(self) -> None:
        """Makes do with what was seen so far."""
        if self._frames:
            self._settle_background()
        if self._streams:
            self._settle_dictionary()

    def _settle_background(self) -> None:
        base = np.zeros(self.bases.shape[1], np.uint8)
        base[:-SLACK] = background(np.concatenate(self._frames))
        self._add(base, self.codecs[0])
        self._frames.clear()

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
            "frames": np.concatenate(self._frames) if self._frames else self.bases[:0, :-SLACK],
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
