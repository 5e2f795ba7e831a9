"""Compiled loops that count the steps of a ring along its lanes, by stratum; numba alone.

A slot is `lane * per_lane + row % per_lane`. `closing`, `age`, `episode` and `reward` are columns
of the ring by slot. Counts are 32 bits wide and may wrap: only differences of them are used, and
those are less than the rows of a lane.
"""

from typing import Any, Final

import numpy as np
from numba import njit

STRATA: Final = 3
POSITIVE, ZERO, NEGATIVE = 0, 1, 2
COUNT_MASK: Final = (1 << 32) - 1

Numbers = Any


@njit(cache=True, nogil=True)
def whole_from(
    lows: Numbers, highs: Numbers, tails: Numbers, per_lane: int, reach: int, age: Numbers,
    firsts: Numbers,
) -> None:  # fmt: skip
    """The first row of each lane, from `lows` on, whose whole stack is held; else `highs`.

    A stack reaches back `reach` rows, or to its episode's first. Its oldest row never falls from
    a row to the next, so that no row behind the first one lacks any.
    """
    for lane in range(len(lows)):
        row, end = lows[lane], min(highs[lane], tails[lane] + reach)
        while row < end:
            back = min(np.int64(age[lane * per_lane + row % per_lane]), reach)
            if row - back >= tails[lane]:
                break
            row += 1
        firsts[lane] = row


@njit(cache=True, nogil=True)
def steps_between(
    firsts: Numbers, highs: Numbers, per_lane: int, episode: Numbers, steps: Numbers
) -> None:
    """The steps of each lane from `firsts` to before `highs`, rows held: all but closing ones."""
    for lane in range(len(firsts)):
        first, high, base = firsts[lane], highs[lane], lane * per_lane
        steps[lane] = 0
        if first < high:
            before = np.int64(episode[base + first % per_lane])
            closings = (np.int64(episode[base + high % per_lane]) - before) & COUNT_MASK
            steps[lane] = high - first - closings


@njit(cache=True, nogil=True)
def draw_steps(
    spread: Numbers, steps: Numbers, firsts: Numbers, highs: Numbers, per_lane: int,
    episode: Numbers, lanes: Numbers, rows: Numbers,
) -> None:  # fmt: skip
    """Draws `[B]` steps, each alike; `spread` in [0, 1) says which. See `steps_between`."""
    total = steps.sum()
    for place in range(len(spread)):
        rank, lane = min(np.int64(spread[place] * total), total - 1), 0
        while rank >= steps[lane]:
            rank -= steps[lane]
            lane += 1
        base, first = lane * per_lane, firsts[lane]
        before = np.int64(episode[base + first % per_lane])
        low, high = first, highs[lane]
        while high - low > 1:  # the last row with no more steps before it
            middle = (low + high) // 2
            closings = (np.int64(episode[base + middle % per_lane]) - before) & COUNT_MASK
            if middle - first - closings <= rank:
                low = middle
            else:
                high = middle
        lanes[place], rows[place] = lane, low


@njit(cache=True, nogil=True)
def stratum_of(value: float) -> int:
    """Which stratum a reward or a return lies in."""
    if value > 0.0:
        return POSITIVE
    return NEGATIVE if value < 0.0 else ZERO


@njit(cache=True, nogil=True)
def settle(
    counts: Numbers, totals: Numbers, base: int, per_lane: int, first: int, last: int, stratum: int
) -> None:
    """Puts the steps from `first` to before `last`, of one lane, into a stratum."""
    for row in range(first, last):
        counts[base + row % per_lane] = totals
        totals[stratum] += np.uint32(1)


@njit(cache=True, nogil=True)
def take_in(
    counts: Numbers, totals: Numbers, books: Numbers, sums: Numbers, tails: Numbers,
    highs: Numbers, per_lane: int, outcome: bool, closing: Numbers, reward: Numbers,
) -> None:  # fmt: skip
    """Counts the rows that came before `highs` since the last call.

    `counts` `[rows, 3]` become, for each row, the steps of each stratum before it in its lane, and
    `totals` `[L, 3]` those of the whole lane. `books` `[3, L]` are the first row that is counted,
    the first that is not yet in a stratum, and the first that was not seen. With `outcome` the
    steps of an episode are put into the stratum of its return, as it ends; `sums` `[L]` are the
    returns of open episodes so far. Else a step is put into the stratum of its reward at once.
    """
    began, settled, seen = books
    for lane in range(len(highs)):
        base, begin = lane * per_lane, seen[lane]
        if begin < tails[lane]:  # rows came and went unseen
            begin = tails[lane]
            began[lane], settled[lane], sums[lane] = begin, begin, 0.0
        for row in range(begin, highs[lane]):
            slot = base + row % per_lane
            if closing[slot]:
                first = max(settled[lane], tails[lane])
                settle(counts, totals[lane], base, per_lane, first, row, stratum_of(sums[lane]))
                counts[slot] = totals[lane]
                settled[lane], sums[lane] = row + 1, 0.0
            elif outcome:
                sums[lane] += reward[slot]
            else:
                settle(counts, totals[lane], base, per_lane, row, row + 1, stratum_of(reward[slot]))
                settled[lane] = row + 1
        seen[lane] = max(begin, highs[lane])


@njit(cache=True, nogil=True)
def count_strata(
    counts: Numbers, totals: Numbers, books: Numbers, sums: Numbers, firsts: Numbers,
    highs: Numbers, per_lane: int, found: Numbers,
) -> None:  # fmt: skip
    """The steps of each stratum from `firsts` to before `highs`, `[L, 3]`.

    Those of an episode that is still open are in the stratum of its return so far.
    """
    _, settled, _ = books
    for lane in range(len(firsts)):
        first, high = firsts[lane], highs[lane]
        found[lane, :] = 0
        if first < min(settled[lane], high):
            slot = lane * per_lane + first % per_lane
            for stratum in range(STRATA):
                more = np.int64(totals[lane, stratum]) - np.int64(counts[slot, stratum])
                found[lane, stratum] = more & COUNT_MASK
        open_ = high - max(first, settled[lane])
        if open_ > 0:
            found[lane, stratum_of(sums[lane])] += open_


@njit(cache=True, nogil=True)
def locate(
    counts: Numbers, base: int, per_lane: int, first: int, settled: int, rank: int, stratum: int
) -> int:
    """The row of the step of that rank in a stratum, from `first` on; by halving."""
    start = np.int64(counts[base + first % per_lane, stratum])
    low, high = first, settled
    while high - low > 1:
        middle = (low + high) // 2
        before = np.int64(counts[base + middle % per_lane, stratum]) - start
        if (before & COUNT_MASK) <= rank:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def draw(
    counts: Numbers, books: Numbers, sums: Numbers, found: Numbers, firsts: Numbers,
    highs: Numbers, per_lane: int, bounds: Numbers, offset: float, numbers: Numbers,
    lanes: Numbers, rows: Numbers,
) -> None:  # fmt: skip
    """Draws `[B]` steps: so many of each stratum as its share is, and each of its steps alike.

    `found` `[L, 3]` are the steps of each lane and stratum. B equally spaced points of [0, 1), at
    `offset` of a space, say the strata, which end at `bounds` `[3]`; so no share is off by a whole
    unit. `numbers` `[B]` in [0, 1) say which step of the stratum.
    """
    settled, size, stratum = books[1], len(numbers), 0
    total = found[:, 0].sum()
    for place in range(size):
        while (place + offset) / size >= bounds[stratum]:
            stratum += 1
            total = found[:, stratum].sum()
        rank, lane = min(np.int64(numbers[place] * total), total - 1), 0
        while rank >= found[lane, stratum]:
            rank -= found[lane, stratum]
            lane += 1
        first, open_ = firsts[lane], max(firsts[lane], settled[lane])
        closed = found[lane, stratum]
        if stratum == stratum_of(sums[lane]):
            closed -= highs[lane] - open_
        lanes[place] = lane
        if rank < closed:
            rows[place] = locate(
                counts, lane * per_lane, per_lane, first, settled[lane], rank, stratum
            )
        else:
            rows[place] = open_ + rank - closed


@njit(cache=True, nogil=True)
def strata_of(
    counts: Numbers, totals: Numbers, books: Numbers, sums: Numbers, firsts: Numbers,
    per_lane: int, lanes: Numbers, rows: Numbers, strata: Numbers,
) -> None:  # fmt: skip
    """The stratum of each step, `[B]`; -1 of those before `firsts`, which are not counted."""
    settled = books[1]
    for place in range(len(rows)):
        lane, row = lanes[place], rows[place]
        if row < firsts[lane]:
            strata[place] = -1
        elif row >= settled[lane]:
            strata[place] = stratum_of(sums[lane])
        else:
            base = lane * per_lane
            here = counts[base + row % per_lane]
            last = row + 1 == settled[lane]
            after = totals[lane] if last else counts[base + (row + 1) % per_lane]
            strata[place] = POSITIVE
            while strata[place] < NEGATIVE and after[strata[place]] == here[strata[place]]:
                strata[place] += 1
