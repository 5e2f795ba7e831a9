"""Compressors of a chunk's stream, and what they learn once from the first frames (priors)."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from .layout import LZ4, ZSTD

Stream = NDArray[np.uint8]


LARGE_FRAME: Final = 1_024
THOROUGH: Final[dict[str, Any]] = {"mode": "high_compression", "compression": 3}
STRIP: Final = 512
ZSTD_LEVEL: Final = 6
"""Half again as slow as the usual 3, for two to six percent of the bytes."""


class Codec(Protocol):
    """Makes a stream smaller, exactly reversibly."""

    form: int

    def compress(self, stream: Stream) -> bytes:
        """The stream, smaller or not."""


class Lz4:
    """LZ4 blocks; decoded by our own kernel.

    Streams of more than a kilobyte a frame come of worlds that are slow to draw, and take many
    bytes: they are worth the thorough mode, which takes five times as long and a fifth fewer.
    """

    form = LZ4

    def __init__(self, frames: int) -> None:
        self._large = frames * LARGE_FRAME

    def compress(self, stream: Stream) -> bytes:
        """See `Codec.compress`."""
        from lz4 import block

        how = THOROUGH if len(stream) >= self._large else {}
        packed: bytes = block.compress(stream.data, store_size=False, **how)
        return packed


class Zstd:
    """Zstandard, without what a decoder knows anyway."""

    form = ZSTD

    def __init__(self, dictionary: bytes = b"") -> None:
        import zstandard

        trained = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        options: dict[str, Any] = {"dict_data": trained} if trained else {}
        self._compressor = zstandard.ZstdCompressor(
            level=ZSTD_LEVEL, write_checksum=False, write_dict_id=False, **options
        )
        self._decompressor = zstandard.ZstdDecompressor(**options)
        self._size_of, self._errors = zstandard.frame_content_size, zstandard.ZstdError

    def compress(self, stream: Stream) -> bytes:
        """See `Codec.compress`."""
        packed: bytes = self._compressor.compress(stream.data)
        return packed

    def decompress(self, packed: Stream, most: int) -> bytes:
        """The stream again; empty for bytes that are none, or that would be more than `most`."""
        try:
            # a damaged header may promise terabytes, which would be taken before they are missed
            known = 0 <= self._size_of(packed.data) <= most
            stream: bytes = self._decompressor.decompress(packed.data) if known else b""
        except self._errors:
            return b""
        return stream


def train_dictionary(streams: Sequence[bytes], size: int) -> bytes:
    """A dictionary learnt from streams, or nothing where they are too few or too alike."""
    import zstandard

    try:
        trained = zstandard.train_dictionary(size, list(streams))
    except zstandard.ZstdError:
        return b""
    return bytes(trained.as_bytes())


def background(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """What most frames `[n, size]` show: the median of every byte, a strip at a time."""
    middle = np.empty(frames.shape[1], np.uint8)
    for first in range(0, frames.shape[1], STRIP):
        strip = frames[:, first : first + STRIP]
        middle[first : first + STRIP] = np.sort(strip, axis=0)[len(frames) // 2]
    return middle
