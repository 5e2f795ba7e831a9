"""Room to code and decode in, taken once; and the choice of the compiled loop."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import kernels
from .codecs import LZ4, RAW, Zstd

Bytes = NDArray[np.uint8]


class Scratch:
    """Buffers for one chunk at a time."""

    def __init__(self, frames: int, size: int) -> None:
        self._stream = np.zeros(kernels.stream_bound(frames, size), np.uint8)
        self._work = np.zeros(size, np.uint8)
        self._size = size

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers."""
        return self._stream.nbytes + self._work.nbytes

    def encode(self, frames: Bytes, base: Bytes) -> Bytes:
        """The stream of a chunk's frames `[n, size]` against a base; valid until the next call."""
        words, base_words = frames.view(np.uint64), base.view(np.uint64)
        length = kernels.encode_frames(frames, base, words, base_words, self._stream)
        return self._stream[:length]

    def unpack(
        self,
        arena: Bytes,
        entries: Any,
        priors: Any,
        groups: NDArray[np.int64],
        places: NDArray[np.int64],
        targets: NDArray[np.int64],
        out: Bytes,
    ) -> int:
        """Rebuilds the frames of groups of a chunk each; -1, or the first group that is broken."""
        begins = entries["offset"].copy()
        ends = begins + entries["length"]
        if (entries["form"] == LZ4).all():
            return int(
                kernels.unpack_lz4(
                    arena, begins, ends, priors.bases, entries["prior"].copy(), groups, places,
                    targets, out, self._stream, self._work,
                )
            )  # fmt: skip
        for group in range(len(entries)):
            first, last = groups[group], groups[group + 1]
            wishes = places[first:last], targets[first:last]
            blob = arena[begins[group] : ends[group]]
            if not self._unpack_one(blob, entries[group], priors, wishes, out):
                return group
        return -1

    def _unpack_one(
        self, blob: Bytes, entry: Any, priors: Any, wishes: tuple[Any, Any], out: Bytes
    ) -> bool:
        places, targets = wishes
        if entry["form"] == RAW:
            out[targets] = blob.reshape(-1, self._size)[places, : out.shape[1]]
            return True
        base = priors.bases[entry["prior"]]
        if entry["form"] == LZ4:
            length = kernels.lz4_decode(blob, 0, len(blob), self._stream)
            stream = self._stream[: max(length, 0)]
        else:
            codec: Zstd = priors.codecs[entry["prior"]]
            stream = codec.decompress(blob)
        return not kernels.unpack(stream, len(stream), base, places, targets, out, self._work)
