"""Compiled loops of the chunked frame column; numba alone, no object, no allocation.

A chunk is a stream of frames, each the length of its part in `width` bytes, and then what changed
against the frame before it (the first against a base): runs of `gap, length, bytes`, the two
numbers as varints. The stream is then compressed as a whole. Because a frame says how long it is, a
stream of LZ4 is decoded no further than the last frame that is wanted. Every decoder checks its
bounds, and answers -1 where the bytes are none that an encoder wrote.

All that is compiled together stands in this file, constants too: numba keeps what it compiled by
the age of the file alone.
"""

import sys
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

SLACK: Final = 16  # bytes that are copied at once, and that buffers have to spare
RAW: Final = 0  # the form of a chunk whose frames lie as they are
Bytes = Any

if sys.byteorder != "little":
    raise ImportError("the compiled loops need a little-endian machine")


def _copy16(out: Bytes, to: int, data: Bytes, at: int) -> None:
    """Copies `data[at:at + 16]` to `out[to:to + 16]`, read as a whole before it is written."""
    out[to : to + SLACK] = data[at : at + SLACK].copy()


@intrinsic
def _copy16_compiled(_context: Any, out: Any, to: Any, data: Any, at: Any) -> Any:
    """Copies `data[at:at + 16]` to `out[to:to + 16]`; no bound is checked."""
    signature = types.void(out, to, data, at)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        out_type, _, data_type, _ = signature.args
        target = context.make_array(out_type)(context, builder, values[0]).data
        source = context.make_array(data_type)(context, builder, values[2]).data
        register = ir.VectorType(ir.IntType(8), SLACK).as_pointer()
        source = builder.bitcast(builder.gep(source, [values[3]]), register)
        target = builder.bitcast(builder.gep(target, [values[1]]), register)
        builder.store(builder.load(source, align=1), target, align=1)
        return context.get_dummy_value()

    return signature, generate


OFF: Final = bool(getattr(config, "DISABLE_JIT", False))
copy16: Any = _copy16 if OFF else _copy16_compiled


@njit(cache=True, nogil=True)
def copy_wild(out: Bytes, to: int, data: Bytes, at: int, count: int) -> None:
    """Copies `count` bytes, and up to 15 more. Within one array, `at` lies 16 before `to`, or more.

    Both arrays have `SLACK` bytes behind what is wanted.
    """
    done = 0
    while done < count:
        copy16(out, to + done, data, at + done)
        done += SLACK


@njit(cache=True, nogil=True)
def copy_exact(out: Bytes, to: int, data: Bytes, at: int, count: int) -> None:
    """Copies `count` bytes and nothing else, between arrays apart."""
    if count < SLACK:
        for done in range(count):
            out[to + done] = data[at + done]
        return
    for done in range(0, count - SLACK, SLACK):
        copy16(out, to + done, data, at + done)
    copy16(out, to + count - SLACK, data, at + count - SLACK)  # some of it a second time


@njit(cache=True, nogil=True)
def take_field(
    records: Bytes, stride: int, offset: int, size: int, slots: Bytes, out: Bytes
) -> None:
    """Copies `size` bytes at `offset` of each record of `stride` bytes, one after the other."""
    for place in range(len(slots)):
        copy_exact(out, place * size, records, slots[place] * stride + offset, size)


@njit(cache=True, nogil=True)
def take_fields(
    records: Bytes, stride: int, table: Bytes, slots: tuple[Bytes, ...], out: Bytes
) -> None:
    """Copies several fields of records of `stride` bytes, each as `take_field` does.

    Line k of the table is a field: its offset, its size, which of the `slots` it is taken at, and
    how many bytes of a unit stand before it in `out`; a unit is what belongs to one of `slots[0]`.
    """
    for line in range(len(table)):
        offset, size, which, before = table[line]
        places = slots[which]
        to = before * len(slots[0])
        for place in range(len(places)):
            at = places[place] * stride + offset
            # as `copy_exact`, which a call for every few bytes would be too much for
            if size < SLACK:
                for byte in range(size):
                    out[to + byte] = records[at + byte]
            else:
                for done in range(0, size - SLACK, SLACK):
                    copy16(out, to + done, records, at + done)
                copy16(out, to + size - SLACK, records, at + size - SLACK)
            to += size


@njit(cache=True, nogil=True)
def get_number(data: Bytes, at: int, width: int) -> int:
    """Reads a number of `width` bytes."""
    number = 0
    for place in range(width):
        number |= np.int64(data[at + place]) << (8 * place)
    return number


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
def patch_frame(stream: Bytes, at: int, end: int, frame: Bytes, size: int) -> int:
    """Makes a frame of the frame before it, by the runs `stream[at:end]`; gives 0, or -1."""
    place = 0
    while at < end:
        gap, at = get_varint(stream, at, end)
        length, at = get_varint(stream, at, end)
        if gap < 0 or length <= 0 or place + gap + length > size or at + length > end:
            return -1
        place += gap
        for offset in range(length):
            frame[place + offset] = stream[at + offset]
        place += length
        at += length
    return 0


@njit(cache=True, nogil=True)
def lz4_length(data: Bytes, at: int, end: int, length: int) -> tuple[int, int]:
    """A length whose first 4 bits were 15 goes on in bytes until one is not 255; -1 if cut."""
    while at < end:
        byte = np.int64(data[at])
        at += 1
        length += byte
        if byte != 255:
            return length, at
    return -1, end


@njit(cache=True, nogil=True)
def lz4_decode(data: Bytes, at: int, end: int, out: Bytes, to: int, need: int) -> tuple[int, int]:
    """Decodes the LZ4 block `data[at:end]` until `need` bytes are written, or a few more.

    Gives where it stands, in `data` and in `out`, to be called again with; the second is -1 where
    there is no such block. A block that has ended gives what it has. `data` can be read `SLACK`
    bytes past `end`, and `out` is never filled up to its last `SLACK` bytes.
    """
    most = len(out) - SLACK
    while to < need and at < end:
        token = np.int64(data[at])
        at += 1
        literals = token >> 4
        if literals == 15:
            literals, at = lz4_length(data, at, end, 15)
        if literals < 0 or at + literals > end or to + literals > most:
            return at, -1
        copy_wild(out, to, data, at, literals)
        at += literals
        to += literals
        if at == end:
            return at, to
        if at + 2 > end:
            return at, -1
        back = np.int64(data[at]) | (np.int64(data[at + 1]) << 8)
        at += 2
        match = token & 15
        if match == 15:
            match, at = lz4_length(data, at, end, 15)
        match += 4
        if match < 4 or back == 0 or back > to or to + match > most:
            return at, -1
        if back >= SLACK:
            copy_wild(out, to, out, to - back, match)
        else:
            for place in range(to, to + match):
                out[place] = out[place - back]
        to += match
    return at, to


@njit(cache=True, nogil=True)
def unpack_chunk(
    packed: Bytes,
    at: int,
    end: int,
    stream: Bytes,
    there: int,
    base: Bytes,
    places: Bytes,
    targets: Bytes,
    out: Bytes,
    size: int,
    work: Bytes,
    width: int,
) -> int:
    """Rebuilds the frames at `places`, rising, of one chunk, into `out` at `targets` frames.

    The stream is there as far as `there`, and goes on in the LZ4 block `packed[at:end]`. `out` is
    flat, of frames of `size` bytes; `base` and `work` hold a padded frame and `SLACK`. Gives 0, or
    -1 where the stream is broken.
    """
    padded = len(base) - SLACK
    copy_wild(work, 0, base, 0, padded)
    done = 0
    number = -1
    for wish in range(len(places)):
        while number < places[wish]:
            first = done + width
            if there < first:
                at, there = lz4_decode(packed, at, end, stream, there, first)
            if there < first:
                return -1
            done = first + get_number(stream, first - width, width)
            if there < done:
                at, there = lz4_decode(packed, at, end, stream, there, done)
            if there < done or patch_frame(stream, first, done, work, padded) < 0:
                return -1
            number += 1
        copy_exact(out, targets[wish] * size, work, 0, size)
    return 0


@njit(cache=True, nogil=True)
def copy_frames(
    packed: Bytes, at: int, padded: int, places: Bytes, targets: Bytes, out: Bytes, size: int
) -> None:
    """As `unpack_chunk`, of a chunk whose frames of `padded` bytes lie in `packed` as they are."""
    for wish in range(len(places)):
        copy_exact(out, targets[wish] * size, packed, at + places[wish] * padded, size)


@njit(cache=True, nogil=True)
def unpack_chunks(
    arena: Bytes,
    begins: Bytes,
    ends: Bytes,
    forms: Bytes,
    priors: Bytes,
    bases: Bytes,
    groups: Bytes,
    places: Bytes,
    targets: Bytes,
    out: Bytes,
    size: int,
    stream: Bytes,
    work: Bytes,
    width: int,
) -> int:
    """Rebuilds frames out of many chunks in one loop; gives -1, or the first group that is broken.

    Group g is the chunk `arena[begins[g]:ends[g]]`, of form LZ4 or RAW, against `bases[priors[g]]`,
    and gives the frames `places[groups[g]:groups[g + 1]]` of it. Where a chunk lies is doubted too:
    whoever reads while another process writes may have read half an entry.
    """
    padded = bases.shape[1] - SLACK
    for group in range(len(begins)):
        first, last = groups[group], groups[group + 1]
        place, target = places[first:last], targets[first:last]
        begin, end, prior = begins[group], ends[group], np.int64(priors[group])
        if begin < 0 or end < begin or end > len(arena) - SLACK or prior >= len(bases):
            return group
        base = bases[prior]
        if forms[group] == RAW:
            if begin + (place[-1] + 1) * padded > end:
                return group
            copy_frames(arena, begin, padded, place, target, out, size)
        elif unpack_chunk(
            arena, begin, end, stream, 0, base, place, target, out, size, work, width
        ):
            return group
    return -1


@njit(cache=True, nogil=True)
def look_up(index: tuple[Bytes, ...], lane: int, chunk: int, found: Bytes) -> bool:
    """Offset, end, form and prior of a chunk; False where its entry is of another."""
    entry = chunk % index[0].shape[1]
    begin = index[1][lane, entry]
    found[0], found[1] = begin, begin + index[2][lane, entry]
    found[2], found[3] = index[3][lane, entry], index[4][lane, entry]
    right: bool = index[0][lane, entry] == chunk
    return right


@njit(cache=True, nogil=True)
def find_chunks(
    wanted: tuple[Bytes, ...],
    frames: int,
    newest: Bytes,
    index: tuple[Bytes, ...],
    into: tuple[Bytes, ...],
) -> tuple[int, int, int]:
    """Sorts wanted rows into those of open chunks and groups of a closed chunk each.

    `wanted` is lanes, rows and order: unit u wants `rows[u]` of lane `lanes[u]`; units are taken in
    order, and what follows one another of a chunk is a group. `newest` says which chunk of a lane
    is open; `index` is chunk, offset, length, form and prior of the entries. `into` are places in a
    chunk, and where they go; where each group begins among those; offsets, ends, forms, priors and
    first units of groups; and places in the open buffers, and where they go. Gives how many rows
    are closed, of how many groups (-1: an entry is of another chunk), and how many open.
    """
    lanes, rows, order = wanted
    places, groups, found, opened = into
    closed, count, others = 0, 0, 0
    last_lane, last_chunk, last_place = -1, -1, -1
    for unit in order:
        lane = lanes[unit]
        for frame, row in enumerate(rows[unit]):
            chunk, target = row // frames, unit * rows.shape[1] + frame
            place = row - chunk * frames
            if chunk == newest[lane]:
                opened[0, others] = lane * (2 * frames) + row % (2 * frames)
                opened[1, others] = target
                others += 1
                continue
            if lane != last_lane or chunk != last_chunk or place < last_place:
                groups[count], found[4, count] = closed, unit
                if not look_up(index, lane, chunk, found[:, count]):
                    return closed, -1, others
                count += 1
            places[0, closed], places[1, closed] = place, target
            closed += 1
            last_lane, last_chunk, last_place = lane, chunk, place
    groups[count] = closed
    return closed, count, others


@njit(cache=True, nogil=True)
def unpack_streams(
    streams: Bytes,
    ends: Bytes,
    priors: Bytes,
    bases: Bytes,
    groups: Bytes,
    places: Bytes,
    targets: Bytes,
    out: Bytes,
    size: int,
    work: Bytes,
    width: int,
) -> int:
    """As `unpack_chunks`, of streams that are there already, one after the other."""
    begin = 0
    for group in range(len(ends)):
        first, last = groups[group], groups[group + 1]
        stream = streams[begin : ends[group] + SLACK]
        if unpack_chunk(
            stream, 0, 0, stream, ends[group] - begin, bases[priors[group]], places[first:last],
            targets[first:last], out, size, work, width,
        ):  # fmt: skip
            return group
        begin = ends[group]
    return -1
