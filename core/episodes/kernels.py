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
def fetch_rows(records: Numbers, stride: int, slot: int, count: int) -> None:
    """Asks for `count` rows from a slot on: they lie side by side, and mostly in no cache."""
    first = slot * stride
    last = first + count * stride - 1
    for at in range(first, last, LINE):
        fetch(records, at)
    fetch(records, last)


@njit(cache=True, nogil=True)
def count_starts(
    heads: Numbers, tails: Numbers, per_lane: int, reach: int, episode: Numbers, closing: Numbers,
    age: Numbers,
) -> int:  # fmt: skip
    """How many rows are starts: candidates but closing rows and those whose stack the tail cut.

    Closing rows are counted by `episode`, the number of those before, which may have wrapped.
    """
    total = 0
    for lane in range(len(heads)):
        tail, newest, base = tails[lane], heads[lane] - 1, lane * per_lane
        if newest > tail:
            ends = episode[base + newest % per_lane] - episode[base + tail % per_lane]
            total += newest - tail - np.int32(ends)
            for row in range(tail, min(tail + reach, newest)):
                slot = base + row % per_lane
                back: Numbers = min(np.int64(age[slot]), reach)
                if not closing[slot] and row - back < tail:
                    total -= 1
    return total


@njit(cache=True, nogil=True)
def count_candidates(heads: Numbers, tails: Numbers, ends: Numbers) -> int:
    """How many rows of the lanes up to each have a step: all but a lane's newest; gives the sum."""
    total = 0
    for lane in range(len(heads)):
        total += max(heads[lane] - 1 - tails[lane], 0)
        ends[lane] = total
    return total


@njit(cache=True, nogil=True)
def find_candidates(
    spread: Numbers, tails: Numbers, ends: Numbers, per_lane: int, records: Numbers, stride: int,
    ids: Numbers, slots: Numbers,
) -> None:  # fmt: skip
    """Turns places in [0, 1) along all candidates into the ids of rows, and their slots.

    All of them are asked for here, so that much of it comes at once.
    """
    total = ends[-1]
    for place in range(len(spread)):
        pick = min(np.int64(spread[place] * total), total - 1)  # a place next to 1 may round up
        lane, lanes = 0, len(ends)
        while lanes > 1:  # by halves, and without a branch: which it is nobody can foretell
            half = lanes // 2
            lane += half if ends[lane + half - 1] <= pick else 0
            lanes -= half
        row = tails[lane] + pick - (ends[lane - 1] if lane else 0)
        slots[place] = lane * per_lane + row % per_lane
        ids[place] = (lane << LANE_SHIFT) | row
        fetch_rows(records, stride, slots[place], 2)


@njit(cache=True, nogil=True)
def find_starts(
    spread: Numbers, heads: Numbers, tails: Numbers, per_lane: int, reach: int, records: Numbers,
    stride: int, closing: Numbers, age: Numbers, found: Numbers,
) -> int:  # fmt: skip
    """Puts the first legal starts among candidates into `found` `[2, n]`; gives how many.

    Of `found` the first are lanes, the second rows. `spread` says at which parts, in [0, 1), of all
    rows with a step the candidates are. A start is a step, and its stack reaches back `reach` rows
    or to its episode's first, none before the lane's tail.
    """
    ends = np.empty(len(heads), np.int64)
    if count_candidates(heads, tails, ends) == 0:
        return 0
    ids, slots = np.empty(len(spread), np.int64), np.empty(len(spread), np.int64)
    find_candidates(spread, tails, ends, per_lane, records, stride, ids, slots)
    count = 0
    for place in range(len(ids)):
        if count == found.shape[1]:
            break
        lane, row = ids[place] >> LANE_SHIFT, ids[place] & ((1 << LANE_SHIFT) - 1)
        back = min(age[slots[place]], reach)
        found[0, count], found[1, count] = lane, row
        # no branch: which of them is a step nobody can foretell
        count += np.int64(not closing[slots[place]]) & np.int64(row - back >= tails[lane])
    return count


@njit(cache=True, nogil=True)
def following_place(place: int, steps: int, per_lane: int) -> int:
    """The place in a lane so many rows on, fewer than it has; a division would take longer."""
    place += steps
    return place - per_lane if place >= per_lane else place


@njit(cache=True, nogil=True)
def stack_rows(
    slots: Numbers, bases: Numbers, rows: Numbers, ahead: Numbers, per_lane: int, ages: Numbers,
    stacks: Numbers,
) -> None:  # fmt: skip
    """Of each unit, the rows of the stack that ends `ahead` rows on, oldest first, and their slots.

    Before the first row of an episode there is none, and the first is repeated; `ages` is how far
    a unit's own row is into its episode. `stacks` is `[2, B, depth]`.
    """
    depth = stacks.shape[2]
    for unit in range(len(rows)):
        slot, base, steps = slots[unit], bases[unit], ahead[unit]
        place = following_place(slot - base, steps, per_lane)
        row, age = rows[unit] + steps, np.int64(ages[slot]) + steps
        for frame in range(depth):
            back = min(depth - 1 - frame, age)
            stacks[0, unit, frame] = row - back
            stacks[1, unit, frame] = base + place - back + (per_lane if place < back else 0)


@njit(cache=True, nogil=True)
def sum_rewards(
    slots: Numbers, bases: Numbers, left: Numbers, per_lane: int, books: Numbers, powers: Numbers,
    sums: Numbers, ahead: Numbers,
) -> None:  # fmt: skip
    """Of each start, up to n rewards summed, each discounted; and the discount of what follows.

    Up to and including the first terminal, or up to the last of the `left` steps that exist; those
    that it took are `ahead`. `sums` is `[2, B]`.
    """
    _, closing, terminal, reward = books
    for unit in range(len(slots)):
        slot, base, steps = slots[unit], bases[unit], 1
        total, ended = float(reward[slot]), terminal[slot]
        while steps < len(powers) - 1 and not ended:
            following = base + following_place(slot - base, steps, per_lane)
            if steps >= left[unit] or closing[following]:
                break
            total += reward[following] * powers[steps]
            ended = terminal[following]
            steps += 1
        sums[0, unit] = total
        sums[1, unit] = 0.0 if ended else powers[steps]
        ahead[unit] = steps


@njit(cache=True, nogil=True)
def unroll(
    lanes: Numbers, rows: Numbers, heads: Numbers, per_lane: int, records: Numbers, stride: int,
    books: Numbers, powers: Numbers, steps_of: Numbers,
) -> None:  # fmt: skip
    """What follows each start: the n-step sum, and the rows of its two stacks.

    `books` are age, closing, terminal and reward; `powers` are gamma^0 to gamma^n. Of `steps_of`,
    in its order, `sums` `[2, B]` becomes what `sum_rewards` says, and `slots` are of the starts
    themselves. `stacks` and `following` `[2, B, depth]` become rows and slots. Of a single step the
    two share all frames but one: then `following` has no depth, and `stacks` one more.

    Each loop goes over the whole batch: an array that is handed on costs more than a unit does.
    """
    sums, ids, slots, stacks, following = steps_of
    bases, left, ahead = np.empty((3, len(rows)), np.int64)
    for unit in range(len(rows)):
        lane, row = lanes[unit], rows[unit]
        bases[unit] = lane * per_lane
        slots[unit] = bases[unit] + row % per_lane
        left[unit] = heads[lane] - 1 - row
        ids[unit] = (lane << LANE_SHIFT) | row
        fetch_rows(records, stride, slots[unit], len(powers))
    sum_rewards(slots, bases, left, per_lane, books, powers, sums, ahead)
    if following.shape[2] > 0:
        stack_rows(slots, bases, rows, ahead, per_lane, books[0], following)
        ahead[:] = 0
    stack_rows(slots, bases, rows, ahead, per_lane, books[0], stacks)
