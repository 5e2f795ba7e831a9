"""Compiled loops over the books of rows: where units start, and what follows each; numba alone.

`age`, `closing`, `terminal` and `reward` are the columns of a ring by slot, and a slot is
`lane * per_lane + row % per_lane`. They are parts of `records`, bytes, `stride` of them a row.
"""

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

LANE_SHIFT: Final = 40
LINE: Final = 64
"""Bytes of a line of the cache."""

Numbers = Any


def _fetch(data: Numbers, at: int) -> None:
    """Has the processor fetch the line in which `data[at]` lies, and does not wait for it."""


@intrinsic
def _fetch_compiled(_context: Any, data: Any, at: Any) -> Any:
    """As `_fetch`; no bound is checked, and beyond them nothing happens."""
    signature = types.void(data, at)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, values[0])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
        place = builder.bitcast(builder.gep(array.data, [values[1]]), byte)
        builder.call(fetch, [place, *(ir.Constant(number, it) for it in (0, 3, 1))])
        return context.get_dummy_value()

    return signature, generate


fetch: Any = _fetch if getattr(config, "DISABLE_JIT", False) else _fetch_compiled


@njit(cache=True, nogil=True)
def find_candidates(
    picks: Numbers,
    lows: Numbers,
    ends: Numbers,
    per_lane: int,
    records: Numbers,
    stride: int,
    slots: Numbers,
) -> None:
    """Turns the numbers of candidates into lane and row, in one number as an id, and their slots.

    All that is read of a start lies side by side, and mostly in no cache: it is asked for here, so
    that much of it comes at once.
    """
    for place in range(len(picks)):
        pick, lane = picks[place], 0
        while ends[lane] <= pick:
            lane += 1
        row = lows[lane] + pick - (ends[lane - 1] if lane else 0)
        slots[place] = lane * per_lane + row % per_lane
        picks[place] = (lane << LANE_SHIFT) | row
        begin = slots[place] * stride
        for line in range(0, 2 * stride, LINE):
            fetch(records, begin + line)


@njit(cache=True, nogil=True)
def find_starts(
    picks: Numbers,
    lows: Numbers,
    ends: Numbers,
    tails: Numbers,
    per_lane: int,
    reach: int,
    records: Numbers,
    stride: int,
    closing: Numbers,
    age: Numbers,
    lanes: Numbers,
    rows: Numbers,
) -> int:
    """Puts the first legal starts among candidates into `lanes` and `rows`; gives how many.

    Candidate `pick` is counted over all lanes: a lane's begin at row `lows[lane]`, and those of it
    and the lanes before it are `ends[lane]`; `picks` are written over. A start is a step, and its
    stack reaches back `reach` rows or to its episode's first, none of them before the lane's tail.
    """
    slots = np.empty(len(picks), np.int64)
    find_candidates(picks, lows, ends, per_lane, records, stride, slots)
    found = 0
    for place in range(len(picks)):
        lane, row = picks[place] >> LANE_SHIFT, picks[place] & ((1 << LANE_SHIFT) - 1)
        back = min(age[slots[place]], reach)
        lanes[found], rows[found] = lane, row
        # no branch: which of them is a step nobody can foretell
        found += np.int64(not closing[slots[place]]) & np.int64(row - back >= tails[lane])
        if found == len(lanes):
            break
    return found


@njit(cache=True, nogil=True)
def stack_rows(
    row: int, place: int, age: int, per_lane: int, base: int, rows: Numbers, slots: Numbers
) -> None:
    """The rows of a stack that ends with `row`, oldest first, and their slots.

    `place` is its place in its lane, whose slots begin at `base`, and `age` its place in its
    episode: before the first row of an episode there is none, and the first is repeated.
    """
    depth = len(rows)
    for frame in range(depth):
        back = min(depth - 1 - frame, age)
        rows[frame] = row - back
        slots[frame] = base + place - back + (per_lane if place < back else 0)


@njit(cache=True, nogil=True)
def following_place(place: int, steps: int, per_lane: int) -> int:
    """The place in a lane so many rows on, fewer than it has; a division would take longer."""
    place += steps
    return place - per_lane if place >= per_lane else place


@njit(cache=True, nogil=True)
def sum_rewards(
    base: int, first: int, left: int, per_lane: int, books: Numbers, powers: Numbers
) -> tuple[float, int, bool]:
    """Up to n rewards from a start on, discounted and summed; how many, and whether one is last.

    The start is at place `first` of the lane whose slots begin at `base`, and `left` steps exist
    from it on, itself included.
    """
    _, closing, terminal, reward = books
    total, steps, ended = 0.0, 0, False
    while steps < len(powers) - 1 and not ended:
        slot = base + following_place(first, steps, per_lane)
        if steps and (steps >= left or closing[slot]):
            break
        total += reward[slot] * powers[steps]
        ended = terminal[slot]
        steps += 1
    return total, steps, ended


@njit(cache=True, nogil=True)
def unroll(
    lanes: Numbers,
    rows: Numbers,
    heads: Numbers,
    per_lane: int,
    books: Numbers,
    powers: Numbers,
    steps_of: Numbers,
) -> None:
    """What follows each start: the n-step sum, and the rows of its two stacks.

    `books` are age, closing, terminal and reward; `powers` are gamma^0 to gamma^n. Of `steps_of`,
    in its order, `sums` `[2, B]`
    becomes the sum of up to n rewards, up to and including the first terminal or up to the last
    step that exists, and the discount of what follows them. `slots` are of the starts themselves.
    `stacks` and `following`
    `[2, B, depth]` become rows and slots. Of a single step the two share all frames but one: then
    `following` has no depth, and `stacks` one more.
    """
    sums, ids, slots, stacks, following = steps_of
    apart = following.shape[2] > 0
    for unit in range(len(rows)):
        lane, row = lanes[unit], rows[unit]
        base, first = lane * per_lane, row % per_lane
        slots[unit] = base + first
        begin = np.int64(books[0][base + first])
        left = heads[lane] - 1 - row
        total, steps, ended = sum_rewards(base, first, left, per_lane, books, powers)
        sums[0, unit] = total
        sums[1, unit] = 0.0 if ended else powers[steps]
        ids[unit] = (lane << LANE_SHIFT) | row
        ahead = steps if apart else 1
        place, last = following_place(first, ahead, per_lane), begin + ahead
        if apart:
            stack_rows(row, first, begin, per_lane, base, stacks[0, unit], stacks[1, unit])
            stack_rows(
                row + ahead, place, last, per_lane, base, following[0, unit], following[1, unit]
            )
        else:
            stack_rows(row + 1, place, last, per_lane, base, stacks[0, unit], stacks[1, unit])
