"""Compiled loops of the chunked frame column; numba alone, no object, no allocation.

A chunk is a stream of frames, each given as what changed against the frame before it (the first
against a base): runs of `gap, length, bytes`, the two numbers as varints; a run of length 0 ends
the frame. The stream is then compressed as a whole. Every decoder checks its bounds and answers -1
where the bytes are none that an encoder wrote.
"""

from typing import Any

import numpy as np
from numba import njit

JOIN = 4  # equal bytes that a run runs on over: two numbers more would cost about as much
Bytes = Any


@njit(cache=True, nogil=True)
def put_varint(out: Bytes, at: int, number: int) -> int:
    """Writes a number in groups of 7 bits, least first; gives the place behind it."""
    while number >= 128:
        out[at] = (number & 127) | 128
        number >>= 7
        at += 1
    out[at] = number
    return at + 1


@njit(cache=True, nogil=True)
def get_varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Reads a number; gives it and the place behind it, or -1 and the end."""
    number = 0
    shift = 0
    while at < end and shift < 35:
        byte = np.int64(data[at])
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
    return -1, end


@njit(cache=True, nogil=True)
def next_change(new: Bytes, old: Bytes, at: int, size: int) -> int:
    """The first place from `at` on where two frames differ, or `size`."""
    while at < size and new[at] == old[at]:
        at += 1
    return at


@njit(cache=True, nogil=True)
def next_change_by_words(
    new: Bytes, old: Bytes, new_words: Bytes, old_words: Bytes, at: int, size: int
) -> int:
    """As `next_change`, eight bytes at a time over what is equal."""
    stop = min((at + 7) // 8 * 8, size)
    at = next_change(new, old, at, stop)
    if at < stop:
        return at
    word, words = at // 8, size // 8
    while word < words and new_words[word] == old_words[word]:
        word += 1
    return next_change(new, old, max(at, word * 8), size)


@njit(cache=True, nogil=True)
def run_end(new: Bytes, old: Bytes, at: int, size: int) -> int:
    """Where a run that begins at `at` ends: before `JOIN` equal bytes, or at `size`."""
    end = at + 1
    equal = 0
    place = end
    while place < size and equal < JOIN:
        if new[place] == old[place]:
            equal += 1
        else:
            equal = 0
            end = place + 1
        place += 1
    return end


@njit(cache=True, nogil=True)
def encode_frames(
    frames: Bytes, base: Bytes, frame_words: Bytes, base_words: Bytes, out: Bytes
) -> int:
    """Writes the stream of frames `[n, size]` against a base `[size]`; gives its length.

    `out` has room for `stream_bound` bytes. The `_words` are the same memory as uint64, padded
    arrays without a last part where `size` is no multiple of 8.
    """
    count, size = frames.shape
    at = 0
    for number in range(count):
        new, new_words = frames[number], frame_words[number]
        old = base if number == 0 else frames[number - 1]
        old_words = base_words if number == 0 else frame_words[number - 1]
        done = 0
        begin = next_change_by_words(new, old, new_words, old_words, 0, size)
        while begin < size:
            end = run_end(new, old, begin, size)
            at = put_varint(out, at, begin - done)
            at = put_varint(out, at, end - begin)
            for place in range(begin, end):
                out[at] = new[place]
                at += 1
            done = end
            begin = next_change_by_words(new, old, new_words, old_words, end, size)
        at = put_varint(out, at, 0)
        at = put_varint(out, at, 0)
    return at


def stream_bound(count: int, size: int) -> int:
    """Bytes that a stream of `count` frames never exceeds: a run pays for its two numbers."""
    return count * (size + size // 4 + 32)


@njit(cache=True, nogil=True)
def patch_frame(stream: Bytes, at: int, end: int, frame: Bytes) -> int:
    """Makes a frame of the frame before it; gives the place behind its runs, or -1."""
    place = 0
    while True:
        gap, at = get_varint(stream, at, end)
        length, at = get_varint(stream, at, end)
        if length == 0 and gap == 0:
            return at
        place += gap
        if gap < 0 or length <= 0 or place + length > len(frame) or at + length > end:
            return -1
        for offset in range(length):
            frame[place + offset] = stream[at + offset]
        place += length
        at += length


@njit(cache=True, nogil=True)
def lz4_length(data: Bytes, at: int, end: int, length: int) -> tuple[int, int]:
    """A length whose first 4 bits were 15 goes on in bytes until one is not 255; -1 if cut."""
    while True:
        if at >= end:
            return -1, at
        byte = np.int64(data[at])
        at += 1
        length += byte
        if byte != 255:
            return length, at


@njit(cache=True, nogil=True)
def lz4_decode(data: Bytes, at: int, end: int, out: Bytes) -> int:
    """Decodes one LZ4 block `data[at:end]`; gives the bytes written, or -1 for no such block."""
    to = 0
    while at < end:
        token = np.int64(data[at])
        at += 1
        literals = token >> 4
        if literals == 15:
            literals, at = lz4_length(data, at, end, 15)
        if literals < 0 or at + literals > end or to + literals > len(out):
            return -1
        for offset in range(literals):
            out[to + offset] = data[at + offset]
        at += literals
        to += literals
        if at == end:
            return to
        if at + 2 > end:
            return -1
        back = np.int64(data[at]) | (np.int64(data[at + 1]) << 8)
        at += 2
        match = token & 15
        if match == 15:
            match, at = lz4_length(data, at, end, 15)
        match += 4
        if match < 4 or back == 0 or back > to or to + match > len(out):
            return -1
        for _ in range(match):
            out[to] = out[to - back]
            to += 1
    return -1


@njit(cache=True, nogil=True)
def unpack(
    stream: Bytes, end: int, base: Bytes, places: Bytes, targets: Bytes, out: Bytes, work: Bytes
) -> int:
    """Rebuilds frames out of a stream: those at `places`, rising, into the rows `targets` of `out`.

    `work` is room for one frame. Gives 0, or -1 where the stream is broken.
    """
    work[:] = base
    at = 0
    number = -1
    for wish in range(len(places)):
        while number < places[wish]:
            at = patch_frame(stream, at, end, work)
            if at < 0:
                return -1
            number += 1
        out[targets[wish], :] = work[: out.shape[1]]
    return 0


@njit(cache=True, nogil=True)
def unpack_lz4(
    arena: Bytes,
    begins: Bytes,
    ends: Bytes,
    bases: Bytes,
    priors: Bytes,
    groups: Bytes,
    places: Bytes,
    targets: Bytes,
    out: Bytes,
    stream: Bytes,
    work: Bytes,
) -> int:
    """Rebuilds frames out of many chunks in one loop; gives -1, or the first group that is broken.

    Group g is the chunk `arena[begins[g]:ends[g]]` against `bases[priors[g]]`, and gives the frames
    `places[groups[g]:groups[g + 1]]` of it.
    """
    for group in range(len(begins)):
        length = lz4_decode(arena, begins[group], ends[group], stream)
        first, last = groups[group], groups[group + 1]
        if length < 0 or unpack(
            stream, length, bases[priors[group]], places[first:last], targets[first:last], out, work
        ):
            return group
    return -1
