"""Compiled loops of prioritized sampling; numba alone, no object, no allocation.

A tree lies in lines of `FAN` numbers, `[n, FAN]`, a line being one of the processor's cache. First
come the leaves, then level after level of nodes, up to one; `levels` says at which line each begins
(see `layout.level_lines`). The children of a node are one line; of nodes there are two, their sums
and the greatest below them. A leaf weighs its priority; one that must not be drawn weighs nothing,
and its priority is kept with the sign turned, in case it may be drawn again. In `changed` there is
a bit a leaf, set as it changes.

All that is compiled together stands in this file, constants too: numba keeps what it compiled by
the age of the file alone.
"""

from typing import Any, Final

from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

FAN: Final = 8
LANE_SHIFT: Final = 40
ROW_MASK: Final = (1 << LANE_SHIFT) - 1
Numbers = Any


def _prefetch(lines: Numbers, at: int) -> None:
    """Nothing is to be had ahead without a compiler."""


@intrinsic
def _prefetch_compiled(_context: Any, lines: Any, at: Any) -> Any:
    """Asks for the line `lines[at]`, and does not wait for it."""
    signature = types.void(lines, at)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        first = builder.mul(values[1], ir.Constant(values[1].type, FAN))
        number = ir.IntType(32)
        line = builder.bitcast(builder.gep(data, [first]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [line.type, number, number, number])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [line.type], kind)
        builder.call(ask, [line, number(0), number(3), number(1)])  # to read, to keep, as data
        return context.get_dummy_value()

    return signature, generate


OFF: Final = bool(getattr(config, "DISABLE_JIT", False))
prefetch: Any = _prefetch if OFF else _prefetch_compiled


@njit(cache=True, nogil=True)
def greater(one: float, two: float) -> float:
    """The greater of two numbers, neither of them NaN."""
    return one if one > two else two


@njit(cache=True, nogil=True)
def weight(number: float, leaf: bool) -> float:
    """What a child weighs: a leaf whose sign is turned, nothing."""
    return greater(number, 0.0) if leaf else number


@njit(cache=True, nogil=True)
def line_of(levels: Numbers, level: int, node: int) -> int:
    """The line of a node's children; nodes are numbered within their level, from 0."""
    return node if level == 1 else levels[level - 1] + 2 * node


@njit(cache=True, nogil=True)
def renew(lines: Numbers, levels: Numbers, level: int, node: int) -> None:
    """Makes a node of its children. Whatever changes a tree does it by this alone.

    Sums are made in pairs, the same always, so that a tree made anew is the same to the bit.
    """
    at = line_of(levels, level, node)
    leaf = level == 1
    a, b = weight(lines[at, 0], leaf), weight(lines[at, 1], leaf)
    c, d = weight(lines[at, 2], leaf), weight(lines[at, 3], leaf)
    e, f = weight(lines[at, 4], leaf), weight(lines[at, 5], leaf)
    g, h = weight(lines[at, 6], leaf), weight(lines[at, 7], leaf)
    here, column = levels[level] + node // FAN * 2, node % FAN
    lines[here, column] = ((a + b) + (c + d)) + ((e + f) + (g + h))
    if not leaf:
        at += 1
        a, b, c, d = lines[at, 0], lines[at, 1], lines[at, 2], lines[at, 3]
        e, f, g, h = lines[at, 4], lines[at, 5], lines[at, 6], lines[at, 7]
    left = greater(greater(a, b), greater(c, d))
    lines[here + 1, column] = greater(left, greater(greater(e, f), greater(g, h)))


@njit(cache=True, nogil=True)
def renew_all(lines: Numbers, levels: Numbers, leaves: int) -> None:
    """Makes every node anew. Of a level, what only fills a line stays 0."""
    count = leaves
    for level in range(1, len(levels)):
        count = (count + FAN - 1) // FAN
        for node in range(count):
            renew(lines, levels, level, node)


@njit(cache=True, nogil=True)
def climb(lines: Numbers, levels: Numbers, touched: Numbers, count: int) -> None:
    """Makes anew what is above the first `count` leaves of `touched`, which is used up.

    Level by level, so that no node waits for another. Neighbours with one parent have it made
    once; elsewhere it is made again, which changes nothing.
    """
    for level in range(1, len(levels)):
        kept, last = 0, -1
        for place in range(count):
            node = touched[place] // FAN
            if node != last:
                touched[kept] = node
                kept, last = kept + 1, node
        count = kept
        for place in range(count):
            renew(lines, levels, level, touched[place])


@njit(cache=True, nogil=True)
def write(lines: Numbers, changed: Numbers, leaf: int, value: float) -> None:
    """Sets a leaf, and notes it if that changed it."""
    if lines[leaf // FAN, leaf % FAN] != value:
        lines[leaf // FAN, leaf % FAN] = value
        changed[leaf // 8] |= 1 << (leaf % 8)


@njit(cache=True, nogil=True)
def put(
    lines: Numbers, levels: Numbers, changed: Numbers, leaves: Numbers, values: Numbers
) -> None:
    """Sets leaves, one that is named twice to the later value; `leaves` are used up."""
    for place in range(len(leaves)):
        write(lines, changed, leaves[place], values[place])
    climb(lines, levels, leaves, len(leaves))


@njit(cache=True, nogil=True)
def descend(lines: Numbers, at: int, mass: float, leaf: bool) -> tuple[int, float]:
    """The child, of a line, in whose share of the mass a point lies; and where in it.

    By halves: the point is in the right one where it is not less than the left one's mass.
    """
    half = weight(lines[at, 0], leaf) + weight(lines[at, 1], leaf)
    half += weight(lines[at, 2], leaf) + weight(lines[at, 3], leaf)
    right = mass >= half
    child, mass = 4 if right else 0, mass - half if right else mass
    half = weight(lines[at, child], leaf) + weight(lines[at, child + 1], leaf)
    right = mass >= half
    child, mass = child + 2 if right else child, mass - half if right else mass
    half = weight(lines[at, child], leaf)
    right = mass >= half
    return child + 1 if right else child, mass - half if right else mass


@njit(cache=True, nogil=True)
def settle(lines: Numbers, begin: int, width: int, masses: Numbers, found: Numbers) -> None:
    """Moves what was found, of a level, to the nearest node that weighs anything.

    To the end of one before it in its line or, where none does, to the beginning of one behind.
    """
    for place in range(len(found)):
        at, chosen = begin + width * (found[place] // FAN), found[place] % FAN
        child = chosen
        while child > 0 and not lines[at, child] > 0.0:
            child -= 1
        before = lines[at, child] > 0.0
        while not lines[at, child] > 0.0:
            child += 1
        if child != chosen:
            found[place] += child - chosen
            masses[place] = lines[at, child] if before else 0.0


@njit(cache=True, nogil=True)
def find(lines: Numbers, levels: Numbers, masses: Numbers, found: Numbers) -> None:
    """The leaf at each point of the mass axis, `[B]`; `masses` are used up.

    That is the first whose weight, and those of the leaves before it, are more than the point.
    Past the end it is the last that weighs anything; the tree has to have one. Where rounding put
    a point into a node that weighs nothing, it moves to one nearby.
    """
    found[:] = 0
    for level in range(len(levels) - 1, 0, -1):
        begin, width = levels[level - 1], 1 if level == 1 else 2
        below, narrow = levels[max(level - 2, 0)], 1 if level == 2 else 2
        astray = False
        for place in range(len(masses)):
            node = found[place]
            at = begin + width * node
            child, mass = descend(lines, at, masses[place], level == 1)
            astray |= not lines[at, child] > 0.0
            node = node * FAN + child
            found[place], masses[place] = node, mass
            if level > 1:  # it is there by the time that the others have been through this level
                prefetch(lines, below + narrow * node)
        if astray:
            settle(lines, begin, width, masses, found)


@njit(cache=True, nogil=True)
def draw(
    lines: Numbers, levels: Numbers, spread: Numbers, lows: Numbers, per_lane: int,
    lanes: Numbers, rows: Numbers, shares: Numbers,
) -> None:  # fmt: skip
    """Draws a unit of each of B equal parts of the mass, at the place in it that `spread` says.

    `spread` `[B]`, in [0, 1), is used up. `lanes` and `rows` become the units, and `shares` the
    least priority among them over each one's. A lane's rows begin at `lows[lane]`.
    """
    size, total = len(spread), lines[levels[-1], 0]
    for place in range(size):
        spread[place] = (place + spread[place]) / size * total
    find(lines, levels, spread, rows)
    least = lines[rows[0] // FAN, rows[0] % FAN] if size else 0.0
    for place in range(size):
        shares[place] = lines[rows[place] // FAN, rows[place] % FAN]
        least = shares[place] if shares[place] < least else least
    for place in range(size):
        lane = rows[place] // per_lane
        low = lows[lane]
        lanes[place] = lane
        rows[place] = low + (rows[place] - lane * per_lane - low) % per_lane
        shares[place] = least / shares[place]


@njit(cache=True, nogil=True)
def tell(
    lines: Numbers, levels: Numbers, changed: Numbers, ids: Numbers, priorities: Numbers,
    tails: Numbers, lows: Numbers, highs: Numbers, per_lane: int, touched: Numbers,
) -> int:  # fmt: skip
    """Sets the priorities of units, the later of two of one; gives how many are gone.

    A unit is there if its row is held, is one of those that the leaves stand for (from `lows` to
    before `highs`), and may be drawn. `touched` has room for all.
    """
    for place in range(len(ids)):
        lane, row = ids[place] >> LANE_SHIFT, ids[place] & ROW_MASK
        touched[place] = -1
        if lane < 0 or lane >= len(highs):
            continue
        if row < tails[lane] or row < lows[lane] or row >= highs[lane]:
            continue
        leaf = lane * per_lane + row % per_lane
        touched[place] = leaf
        above = levels[1] + leaf // FAN // FAN * 2
        prefetch(lines, leaf // FAN)
        prefetch(lines, above)
        prefetch(lines, above + 1)
    count = 0
    for place in range(len(ids)):
        leaf = touched[place]
        if leaf >= 0 and lines[leaf // FAN, leaf % FAN] > 0.0:
            write(lines, changed, leaf, priorities[place])
            touched[count] = leaf
            count += 1
    climb(lines, levels, touched, count)
    return len(ids) - count


@njit(cache=True, nogil=True)
def same(lows: Numbers, highs: Numbers, new_lows: Numbers, counts: Numbers) -> bool:
    """Whether leaves stand for `counts` rows from `new_lows` on, as they do from lows to highs."""
    for lane in range(len(lows)):
        if new_lows[lane] != lows[lane] or new_lows[lane] + counts[lane] != highs[lane]:
            return False
    return True


@njit(cache=True, nogil=True)
def absorb(
    lines: Numbers, levels: Numbers, changed: Numbers, lows: Numbers, highs: Numbers,
    new_lows: Numbers, per_lane: int, lanes: Numbers, rows: Numbers, legal: Numbers,
    touched: Numbers,
) -> None:  # fmt: skip
    """Takes in what happened to the rows since leaves stood for those from `lows` to `highs`.

    Those before `new_lows` are gone, or left out for a while. Of `lanes` and `rows`, `legal` says
    which may be drawn; new ones get the greatest priority there is, 1 where there is none.
    `touched` has room for what is gone, of each lane its rows at most, and for `rows`.
    """
    greatest = lines[levels[-1] + 1, 0]
    first = greatest if greatest > 0.0 else 1.0
    count = 0
    for lane in range(len(lows)):
        for row in range(max(lows[lane], new_lows[lane] - per_lane), new_lows[lane]):
            leaf = lane * per_lane + row % per_lane
            # of rows that came and went unseen there was no priority
            write(
                lines,
                changed,
                leaf,
                -abs(lines[leaf // FAN, leaf % FAN]) if row < highs[lane] else 0.0,
            )
            touched[count] = leaf
            count += 1
    for place in range(len(rows)):
        lane, row = lanes[place], rows[place]
        leaf = lane * per_lane + row % per_lane
        known = abs(lines[leaf // FAN, leaf % FAN]) if row < highs[lane] else 0.0
        value = known if known > 0.0 else first
        write(lines, changed, leaf, value if legal[place] else -known)
        touched[count] = leaf
        count += 1
    climb(lines, levels, touched, count)
