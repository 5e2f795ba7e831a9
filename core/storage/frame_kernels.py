"""The compiled copy of raw frames out of a ring; numba alone.

All that is compiled together stands in this file, constants too: numba keeps what it compiled by
the age of the file alone.
"""

from typing import Any, Final

from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

WIDE: Final = 32  # bytes that are copied at once; no frame is smaller
STREAMS: Final = 4
Bytes = Any


def _copy_wide(out: Bytes, to: int, data: Bytes, at: int) -> None:
    """Copies `data[at:at + 32]` to `out[to:to + 32]`."""
    out[to : to + WIDE] = data[at : at + WIDE]


@intrinsic
def _copy_wide_compiled(_context: Any, out: Any, to: Any, data: Any, at: Any) -> Any:
    """Copies `data[at:at + 32]` to `out[to:to + 32]`; no bound is checked."""
    signature = types.void(out, to, data, at)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        out_type, _, data_type, _ = signature.args
        target = context.make_array(out_type)(context, builder, values[0]).data
        source = context.make_array(data_type)(context, builder, values[2]).data
        register = ir.VectorType(ir.IntType(8), WIDE).as_pointer()
        source = builder.bitcast(builder.gep(source, [values[3]]), register)
        target = builder.bitcast(builder.gep(target, [values[1]]), register)
        builder.store(builder.load(source, align=1), target, align=1)
        return context.get_dummy_value()

    return signature, generate


OFF: Final = bool(getattr(config, "DISABLE_JIT", False))
copy_wide: Any = _copy_wide if OFF else _copy_wide_compiled


@njit(cache=True, nogil=True)
def begin_of(slots: Bytes, place: int, rows: int, size: int) -> int:
    """Where the frame of a slot begins; of a slot that does not exist, the nearest."""
    slot: int = max(0, min(slots[place], rows - 1))
    return slot * size


@njit(cache=True, nogil=True)
def take_frames(frames: Bytes, size: int, slots: Bytes, out: Bytes) -> None:
    """Copies the frames of those slots, one after the other; each has `size` bytes, 32 or more.

    Four lie far apart in a ring and are copied side by side: where one waits for memory, so that
    the processor has four places to fetch from at once, and not one.
    """
    rows, count = len(frames) // size, len(slots) // STREAMS
    end = size - WIDE
    for place in range(count):
        a, b = begin_of(slots, place, rows, size), begin_of(slots, place + count, rows, size)
        c = begin_of(slots, place + 2 * count, rows, size)
        d = begin_of(slots, place + 3 * count, rows, size)
        to, step = place * size, count * size
        for done in range(0, end, WIDE):
            copy_wide(out, to + done, frames, a + done)
            copy_wide(out, to + step + done, frames, b + done)
            copy_wide(out, to + 2 * step + done, frames, c + done)
            copy_wide(out, to + 3 * step + done, frames, d + done)
        copy_wide(out, to + end, frames, a + end)  # some of it a second time
        copy_wide(out, to + step + end, frames, b + end)
        copy_wide(out, to + 2 * step + end, frames, c + end)
        copy_wide(out, to + 3 * step + end, frames, d + end)
    for place in range(STREAMS * count, len(slots)):
        begin, to = begin_of(slots, place, rows, size), place * size
        for done in range(0, end, WIDE):
            copy_wide(out, to + done, frames, begin + done)
        copy_wide(out, to + end, frames, begin + end)
