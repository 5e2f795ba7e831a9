"""Compiled loops that encode chunks of frames; see `kernels`, which decodes them.

All that is compiled together stands in one file: numba keeps what it compiled by that file's age.
"""

from typing import Any, Final

from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

JOIN: Final = 4  # equal bytes that a run runs on over: two numbers more would cost about as much
Bytes = Any


def _first_byte(word: Any) -> int:
    """The place of the lowest byte that is not 0, of a uint64 that is not 0."""
    number = int(word)
    return ((number & -number).bit_length() - 1) // 8


def _last_byte(word: Any) -> int:
    """The place of the highest byte that is not 0, of a uint64 that is not 0."""
    return (int(word).bit_length() - 1) // 8


@intrinsic
def _first_byte_compiled(_context: Any, word: Any) -> Any:
    """The place of the lowest byte that is not 0, of a uint64 that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        zeros = builder.cttz(values[0], ir.Constant(ir.IntType(1), 1))
        return builder.lshr(zeros, ir.Constant(zeros.type, 3))

    return types.int64(word), generate


@intrinsic
def _last_byte_compiled(_context: Any, word: Any) -> Any:
    """The place of the highest byte that is not 0, of a uint64 that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        zeros = builder.ctlz(values[0], ir.Constant(ir.IntType(1), 1))
        place = builder.lshr(zeros, ir.Constant(zeros.type, 3))
        return builder.sub(ir.Constant(zeros.type, 7), place)

    return types.int64(word), generate


OFF: Final = bool(getattr(config, "DISABLE_JIT", False))
first_byte: Any = _first_byte if OFF else _first_byte_compiled
last_byte: Any = _last_byte if OFF else _last_byte_compiled


@njit(cache=True, nogil=True)
def put_number(out: Bytes, at: int, number: int, width: int) -> None:
    """Writes a number in `width` bytes, least first."""
    for place in range(width):
        out[at + place] = (number >> (8 * place)) & 255


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
def put_run(out: Bytes, at: int, gap: int, new: Bytes, begin: int, end: int) -> int:
    """Writes the run `new[begin:end]`, `gap` bytes behind the last; gives the place behind it."""
    at = put_varint(out, at, gap)
    at = put_varint(out, at, end - begin)
    for place in range(begin, end):
        out[at] = new[place]
        at += 1
    return at


@njit(cache=True, nogil=True)
def next_change(new_words: Bytes, old_words: Bytes, word: int) -> int:
    """The first word from `word` on that differs, or their number; eight at once where equal."""
    count = len(new_words)
    while word + 8 <= count:
        changed = new_words[word] ^ old_words[word]
        for further in range(word + 1, word + 8):
            changed |= new_words[further] ^ old_words[further]
        if changed:
            break
        word += 8
    while word < count and new_words[word] == old_words[word]:
        word += 1
    return word


@njit(cache=True, nogil=True)
def encode_frame(
    new: Bytes, old: Bytes, new_words: Bytes, old_words: Bytes, out: Bytes, at: int
) -> int:
    """Writes the runs of a frame against the one before it; gives the place behind them.

    Of a word that differs, everything from its first to its last changed byte goes in. A run goes
    on over fewer than `JOIN` equal bytes.
    """
    done = begin = end = 0
    word = next_change(new_words, old_words, 0)
    while word < len(new_words):
        changed = new_words[word] ^ old_words[word]
        first = word * 8 + first_byte(changed)
        if first - end >= JOIN or end == 0:
            if end > begin:
                at = put_run(out, at, begin - done, new, begin, end)
                done = end
            begin = first
        end = word * 8 + last_byte(changed) + 1
        word = next_change(new_words, old_words, word + 1)
    return put_run(out, at, begin - done, new, begin, end) if end > begin else at


@njit(cache=True, nogil=True)
def encode_frames(
    frames: Bytes, base: Bytes, frame_words: Bytes, base_words: Bytes, out: Bytes, width: int
) -> int:
    """Writes the stream of frames `[n, size]` against a base `[size]`; gives its length.

    `out` has room for `layout.stream_bound` bytes. The `_words` are the same memory as uint64;
    `size` is a multiple of 8.
    """
    at = 0
    for number in range(len(frames)):
        old, old_words = base, base_words
        if number > 0:
            old, old_words = frames[number - 1], frame_words[number - 1]
        first = at + width
        at = encode_frame(frames[number], old, frame_words[number], old_words, out, first)
        put_number(out, first - width, at - first, width)
    return at
