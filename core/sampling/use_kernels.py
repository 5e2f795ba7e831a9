"""Compiled loops that count how a memory is drawn from; numba alone.

A slot is `lane * per_lane + row % per_lane`. `closing`, `reward` and `episode` are columns of the
ring by slot, and so is `age`, a row's place in its episode.
"""

from typing import Any, Final

import numpy as np
from numba import njit

MOST: Final = 255
LANE_SHIFT: Final = 40
SCRAMBLE: Final = 0x2545F4914F6CDD1D
BATCHES, DRAWS, AGES, UNITS, EPISODES = range(5)

Numbers = Any


@njit(cache=True, nogil=True)
def follow(
    heads: Numbers, tails: Numbers, per_lane: int, age: Numbers, closing: Numbers,
    reward: Numbers, counts: Numbers, seen: Numbers, begun: Numbers, returns: Numbers,
    episodes: Numbers,
) -> None:  # fmt: skip
    """Takes in the steps that were written since the last call.

    `counts` of their slots become 0. `seen` `[2, L]` are the first row that was not seen, and the
    first of the episode that it is of, -1 where that was not seen; `begun` `[L]` are the returns of
    those so far. What ends goes to `returns` `[n]`, `episodes` `[2, n]` being lane and first row;
    the last column of `episodes` has how many there ever were.
    """
    most = len(returns)
    for lane in range(len(heads)):
        base, row = lane * per_lane, seen[0, lane]
        if row < tails[lane]:  # rows came and went unseen
            row, begun[lane] = tails[lane], 0.0
            seen[1, lane] = -1 if age[base + row % per_lane] else row
        for at in range(row, heads[lane] - 1):
            slot = base + at % per_lane
            counts[slot] = 0
            if not closing[slot]:
                begun[lane] += reward[slot]
                continue
            if seen[1, lane] >= 0:
                place = episodes[0, most] % most
                returns[place] = begun[lane]
                episodes[0, place], episodes[1, place] = lane, seen[1, lane]
                episodes[0, most] += 1
            seen[1, lane], begun[lane] = at + 1, 0.0
        seen[0, lane] = max(row, heads[lane] - 1)


@njit(cache=True, nogil=True)
def count_distinct(keys: Numbers, table: Numbers) -> int:
    """How many of the keys differ; by a table of open addresses, -1 being free.

    `table` has room for two keys each at least, a power of 2.
    """
    mask, found = len(table) - 1, 0
    table[:] = -1
    for key in keys:
        place = ((key * SCRAMBLE) >> 20) & mask
        while table[place] != key and table[place] != -1:
            place = (place + 1) & mask
        found += table[place] == -1
        table[place] = key
    return found


@njit(cache=True, nogil=True)
def tell(
    lanes: Numbers, rows: Numbers, heads: Numbers, tails: Numbers, per_lane: int, age: Numbers,
    closing: Numbers, reward: Numbers, episode: Numbers, counts: Numbers, seen: Numbers,
    begun: Numbers, returns: Numbers, episodes: Numbers, table: Numbers, sums: Numbers,
) -> None:  # fmt: skip
    """Takes in what `follow` does, and counts a batch of draws: for each slot, and in `sums`.

    `table` is one of `count_distinct`.
    """
    follow(heads, tails, per_lane, age, closing, reward, counts, seen, begun, returns, episodes)
    size, ages = len(rows), 0
    units, played, slots = (
        np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    )  # fmt: skip
    for place in range(size):
        lane, row = lanes[place], rows[place]
        slots[place] = lane * per_lane + row % per_lane
        ages += heads[lane] - 1 - row
        units[place] = (lane << LANE_SHIFT) | row
    for slot in slots:  # little else in the loop, so that many of them are waited for at once
        counts[slot] += np.uint8(counts[slot] < MOST)
    for place in range(size):
        played[place] = (lanes[place] << LANE_SHIFT) | np.int64(episode[slots[place]])
    sums[BATCHES] += 1
    sums[DRAWS] += size
    sums[AGES] += ages
    sums[UNITS] += count_distinct(units, table) / size
    sums[EPISODES] += count_distinct(played, table) / size


@njit(cache=True, nogil=True)
def histogram(
    tails: Numbers, heads: Numbers, per_lane: int, closing: Numbers, counts: Numbers,
    found: Numbers,
) -> None:  # fmt: skip
    """How many of the steps held were drawn so often, `[256]`."""
    for lane in range(len(heads)):
        for row in range(tails[lane], heads[lane] - 1):
            slot = lane * per_lane + row % per_lane
            if not closing[slot]:
                found[counts[slot]] += 1


@njit(cache=True, nogil=True)
def undrawn(
    tails: Numbers, heads: Numbers, per_lane: int, counts: Numbers, episode: Numbers
) -> tuple[int, int]:
    """Steps held that were never drawn, and steps held; closing rows are known by `episode`."""
    never, steps = 0, 0
    for lane in range(len(heads)):
        tail, last, base = tails[lane], heads[lane] - 1, lane * per_lane
        if last <= tail:
            continue
        before = np.int64(episode[base + tail % per_lane])
        after = np.int64(episode[base + last % per_lane])
        closings = int((after - before) & 0xFFFFFFFF)
        begin, end = tail % per_lane, last % per_lane
        parts = ((begin, end), (0, 0)) if begin < end else ((begin, per_lane), (0, end))
        for first, stop in parts:
            for place in range(first, stop):
                never += counts[base + place] == 0
        never -= closings
        steps += last - tail - closings
    return never, steps
