"""Coding and decoding chunks: the priors, the codec, the compiled loop, and room to work in."""

from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from . import kernels
from .allocators import Allocator
from .codecs import Zstd
from .encode_kernels import encode_frames
from .layout import RAW, SLACK, ZSTD, ChunkLayout, length_width, stream_bound
from .priors import Priors

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]


class Coder:
    """Makes blobs of chunks, and frames of blobs, one chunk at a time."""

    def __init__(self, layout: ChunkLayout, allocator: Allocator) -> None:
        self.priors = Priors(layout, allocator)
        self._compresses = layout.column.chunking.codec != "raw"
        self._stream = np.zeros(stream_bound(layout.frames, layout.size), np.uint8)
        self._work = np.zeros(layout.size + SLACK, np.uint8)
        self._width = length_width(layout.size)
        self._size = layout.column.bytes_per_row
        self._padded = layout.size
        self._chunk_bytes = layout.chunk_bytes

    @property
    def nbytes(self) -> int:
        """Bytes of priors and buffers."""
        return self.priors.nbytes + self.private

    @property
    def private(self) -> int:
        """Bytes to work in, and of what is being learnt from."""
        return self.priors.learning + self._stream.nbytes + self._work.nbytes

    def code(self, frames: Bytes, *, learn: bool = True) -> tuple[int, int, Bytes]:
        """Form, prior and blob of a chunk's frames `[n, size]`, from which the priors may learn.

        What cannot be made smaller stays as it is. The blob is valid until the next call.
        """
        if not self._compresses:
            return RAW, 0, frames.reshape(-1)
        prior = self.priors.newest
        stream = self._encode(frames, self.priors.bases[prior, : self._padded])
        codec = self.priors.codec(prior)
        packed = codec.compress(stream)
        if learn:
            self.priors.learn(frames, stream)
        if len(packed) < frames.nbytes:
            return codec.form, prior, np.frombuffer(packed, np.uint8)
        return RAW, prior, frames.reshape(-1)

    def _encode(self, frames: Bytes, base: Bytes) -> Bytes:
        words, base_words = frames.view(np.uint64), base.view(np.uint64)
        length = encode_frames(frames, base, words, base_words, self._stream, self._width)
        return self._stream[:length]

    def knows(self, entries: Any) -> Any:
        """Which entries of an index are of a form and a prior that it could have made, `[n]`."""
        raw = (entries["form"] == RAW) & (entries["length"] == self._chunk_bytes)
        coded = (entries["form"] == self.priors.form) & (entries["length"] > 0)
        return (raw | coded) & (entries["prior"] <= self.priors.newest)

    def copy(self, frames: Bytes, places: Places, targets: Places, out: Bytes) -> None:
        """Copies frames that lie open, padded and flat, into `out`, flat."""
        kernels.copy_frames(frames, 0, self._padded, places, targets, out, self._size)

    def unpack(
        self,
        arena: Bytes,
        found: Places,
        groups: Places,
        places: Places,
        targets: Places,
        out: Bytes,
    ) -> int:
        """Rebuilds the frames of groups of a chunk each into `out`, flat; see `find_chunks`.

        Gives -1, or the first group that is broken.
        """
        begins, ends, forms, coded = found
        packed = np.flatnonzero(forms == ZSTD) if self.priors.form == ZSTD else forms[:0]
        if not len(packed):
            broken: int = kernels.unpack_chunks(
                arena, begins, ends, forms, coded, self.priors.bases, groups, places, targets, out,
                self._size, self._stream, self._work, self._width,
            )  # fmt: skip
            return broken
        for first, last in _runs(forms == ZSTD):
            part, bounds = slice(first, last), groups[first : last + 1]
            if forms[first] == ZSTD:
                broken = self._unpack_zstd(arena, found[:, part], bounds, places, targets, out)
            else:
                broken = kernels.unpack_chunks(
                    arena, begins[part], ends[part], forms[part], coded[part], self.priors.bases,
                    bounds, places, targets, out, self._size, self._stream, self._work, self._width,
                )  # fmt: skip
            if broken >= 0:
                return first + broken
        return -1

    def _unpack_zstd(
        self,
        arena: Bytes,
        found: Places,
        groups: Places,
        places: Places,
        targets: Places,
        out: Bytes,
    ) -> int:
        """As many streams at a time as there is room for."""
        begins, ends, _, coded = found
        first, at = 0, 0
        bounds: list[int] = []
        for group, (begin, end, prior) in enumerate(
            zip(begins.tolist(), ends.tolist(), coded.tolist(), strict=True)
        ):
            if prior > self.priors.newest:
                return group
            codec = cast(Zstd, self.priors.codec(prior))
            stream = codec.decompress(arena[begin:end], len(self._stream) - SLACK)
            if at + len(stream) > len(self._stream) - SLACK:
                broken = self._unpack_streams(first, bounds, coded, groups, places, targets, out)
                if broken >= 0:
                    return broken
                first, bounds, at = group, [], 0
            self._stream[at : at + len(stream)] = np.frombuffer(stream, np.uint8)
            at += len(stream)
            bounds.append(at)
        return self._unpack_streams(first, bounds, coded, groups, places, targets, out)

    def _unpack_streams(
        self,
        first: int,
        bounds: list[int],
        coded: Places,
        groups: Places,
        places: Places,
        targets: Places,
        out: Bytes,
    ) -> int:
        """The groups from `first` on whose streams are there, up to those bounds."""
        last = first + len(bounds)
        broken: int = kernels.unpack_streams(
            self._stream, np.array(bounds, np.int64), coded[first:last], self.priors.bases,
            groups[first : last + 1], places, targets, out, self._size, self._work, self._width,
        )  # fmt: skip
        return broken if broken < 0 else first + broken


def _runs(packed: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Begin and end of each stretch of groups that are alike."""
    bounds = [0, *(np.flatnonzero(np.diff(packed)) + 1).tolist(), len(packed)]
    return list(pairwise(bounds))
