"""Episodes into a memory, by its own writer."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..row_memory import RingMemory
from ..types import Array, Columns
from .episodes import Held
from .space import Space
from .sums import Summed


class Dealt(NamedTuple):
    """An episode's number, the lane that it goes to, and the age of its first row there."""

    number: int
    lane: int
    age: int


def deal(held: Sequence[Held], lanes: int, room: int, window: int) -> list[Dealt]:
    """Which episode goes to which lane, in the order of writing.

    They lie as they lay wherever the lanes, of `room` rows each, hold them so. Else each goes to
    the lane of the fewest rows, those first that were furthest from their lane's newest row, so
    that the newest stay where room is short, and open ones last. An episode that lost its first
    rows begins a lane, since anywhere else its first stacks would reach into another episode; where
    there are more of those than lanes, the shortest are left out, or, where no more than one
    observation is stacked (`window`), begin anew.
    """
    if _fit_as_they_lay(held, lanes, room):
        return [Dealt(number, one.lane, one.age) for number, one in enumerate(held)]
    cut = sorted((n for n, one in enumerate(held) if one.age), key=lambda n: -held[n].steps)
    dealt = [Dealt(number, lane, held[number].age) for lane, number in enumerate(cut[:lanes])]
    behind = _rows_behind(held)
    others = [n for n, one in enumerate(held) if not one.age] + (cut[lanes:] if window == 1 else [])
    others.sort(key=lambda n: (held[n].ended == "open", -behind[n]))
    rows = np.zeros(lanes, np.int64)
    opened = np.zeros(lanes, np.bool_)
    for number, lane, _ in dealt:
        rows[lane], opened[lane] = held[number].rows, held[number].ended == "open"
    for number in others:
        is_open = held[number].ended == "open"
        lane = int(np.lexsort((rows, opened & is_open))[0])
        dealt.append(Dealt(number, lane, 0))
        rows[lane] += held[number].rows
        opened[lane] = is_open
    return dealt


def _fit_as_they_lay(held: Sequence[Held], lanes: int, room: int) -> bool:
    rows: Counter[int] = Counter()
    ended: dict[int, str] = {}
    for one in held:
        if one.lane in ended and (one.age or ended[one.lane] == "open"):
            return False
        rows[one.lane] += one.rows
        ended[one.lane] = one.ended
    return all(0 <= lane < lanes and count <= room for lane, count in rows.items())


def _rows_behind(held: Sequence[Held]) -> list[int]:
    """Rows from each episode's first to its lane's end."""
    heads: dict[int, int] = {}
    for one in held:
        heads[one.lane] = max(heads.get(one.lane, 0), one.first_row + one.rows)
    return [heads[one.lane] - one.first_row for one in held]


def fill(memory: RingMemory, source: Summed, window: int) -> list[int]:
    """Writes all episodes into an empty memory; gives the numbers of those that were left out.

    `window` is how many observations the memory stacks. Raises ValueError for a memory that holds
    something, UsageError for values that it cannot keep exactly.
    """
    if memory.ring.held:
        raise ValueError(f"the memory holds {memory.ring.held} rows already")
    plan = memory.ring.plan
    dealt = deal(source.held, plan.lanes, plan.rows_per_lane, window)
    for each in dealt:
        _write(memory, source, each)
    return sorted(set(range(len(source.held))) - {each.number for each in dealt})


def _write(memory: RingMemory, source: Summed, dealt: Dealt) -> None:
    one, lanes = source.held[dealt.number], np.array([dealt.lane])
    writer = memory.writer([dealt.lane])
    step: dict[str, Any] | None = None
    for obs, following in _rows(one, source.space, source.pieces(dealt.number)):
        if step is None:
            writer.start(obs)
            amended: Columns = {"age": np.array([dealt.age])} if dealt.age else {}
            if not one.steps and one.ended != "open":
                amended["closing"] = np.array([True])
            if amended:
                newest = memory.ring.where(lanes, memory.ring.heads[lanes] - 1)
                memory.ring.write(newest, amended)
                writer = memory.writer([dealt.lane])  # takes the lane up as it is now
        else:
            writer.append(**step, next_obs=obs)
        step = following


def _rows(
    one: Held, space: Space, pieces: Iterator[Columns]
) -> Iterator[tuple[Columns, dict[str, Any]]]:
    """Each observation `[1, ...]`, and the step from there as a writer takes it.

    The last has none: its columns are empty.
    """
    number, observed = 0, next(iter(space.observations))
    for piece in pieces:
        for at in range(len(piece[observed])):
            row = {name: array[at : at + 1] for name, array in piece.items()}
            obs = {name: row.pop(name) for name in space.observations}
            yield obs, _step(row, one, number == one.steps - 1)
            number += 1


def _step(row: Columns, one: Held, last: bool) -> dict[str, Any]:
    reward, terminal = row.pop("reward"), row.pop("terminal")
    return {
        "action": row.pop("action"),
        "reward": reward,
        "terminated": _flag(last and one.ended == "terminated"),
        "truncated": _flag(last and one.ended == "truncated"),
        "lost_life": terminal,
        "extras": row,
    }


def _flag(value: bool) -> Array:
    return np.array([value])
