"""Rows of episodes: what a row holds, and the writer that fills a ring with them.

Row i of a lane is an observation with the action taken in it, the reward and terminal flag that
followed, and the agent's extras. An episode of T steps fills T + 1 rows: the last, its *closing*
row, holds the true last observation alone. A lane's newest row is *open* until its action is known.
So every observation is stored once, and the successor of a step is always the next row.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptMemoryError
from ..storage.columns import (
    UNCHUNKED,
    Chunking,
    ColumnPlan,
    FloatRule,
    FrameRule,
    Where,
    plan_column,
)
from ..storage.ring import RingBuffer
from ..types import (
    NEXT,
    RESERVED_COLUMNS,
    Array,
    ArraySpec,
    Columns,
    DiscreteActions,
    EnvSpec,
    all_of,
)

BOOK: Final[Mapping[str, ArraySpec]] = {
    "reward": ArraySpec((), np.dtype(np.float32)),
    "terminal": ArraySpec((), np.dtype(np.bool_)),  # no value after this step
    "closing": ArraySpec((), np.dtype(np.bool_)),  # an observation without a step
    "age": ArraySpec((), np.dtype(np.int32)),  # place in the episode, 0 for its first row
    "episode": ArraySpec((), np.dtype(np.int32)),  # closing rows before this one in its lane
}
"""Columns of every row beside observation, action and extras."""


LANE_SHIFT: Final = 40
OLDEST: Final = np.int32(2**31 - 1)


def plan_rows(
    env: EnvSpec,
    extras: Mapping[str, ArraySpec],
    frames: FrameRule,
    floats: FloatRule,
    chunking: Chunking = UNCHUNKED,
) -> list[ColumnPlan]:
    """The columns of a ring of episodes. Raises ValueError where two would bear one name."""
    names = [
        *env.observations,
        *extras,
        *BOOK,
        *(NEXT + name for name in env.observations),
    ]
    clash = {name for name in names if names.count(name) > 1} | (RESERVED_COLUMNS & set(extras))
    if clash:
        raise ValueError(f"two columns are named {', '.join(sorted(clash))}")
    plans = [plan_column(n, spec, frames, floats, chunking) for n, spec in env.observations.items()]
    plans += [plan_column(name, spec, "none") for name, spec in {**extras, **BOOK}.items()]
    return [*plans, _plan_action(env)]


def _plan_action(env: EnvSpec) -> ColumnPlan:
    spec = env.actions.spec
    stored = spec.dtype
    if isinstance(env.actions, DiscreteActions):
        stored = np.min_scalar_type(env.actions.n - 1)
    return ColumnPlan("action", spec, "packed", stored)


def unit_id(lanes: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Names a row for ever: the lane above bit 40, the row counter below."""
    return (lanes << LANE_SHIFT) | rows


def following_age(age: NDArray[np.int32]) -> NDArray[np.int32]:
    """The age of the next row; one that has reached `OLDEST` stays, far beyond any stack."""
    return np.minimum(age, OLDEST - 1) + np.int32(1)


Evict = Callable[[RingBuffer, NDArray[np.int64]], None]
"""Lets go of more than the one row a lane that room was made for."""


class RowWriter:
    """Writes the episodes of its lanes into a ring. One writer a lane; it knows no sampler.

    Of a ring in shared memory a writer can be pickled into another process.

    All arguments are batched over the lanes that `lanes` names (by default all of the writer's),
    and copied: what the caller does to its arrays afterwards changes nothing.
    """

    def __init__(
        self,
        ring: RingBuffer,
        env: EnvSpec,
        lanes: NDArray[np.int64],
        evict: Evict | None = None,
    ) -> None:
        self._ring = ring
        self._env = env
        self._evict = evict
        self._observations = tuple(env.observations)
        columns = {plan.name for plan in ring.plan.columns}
        self._extras = columns - BOOK.keys() - {*self._observations, "action"}
        self._lanes = lanes
        self._mine = np.zeros(ring.plan.lanes, np.bool_)
        self._mine[lanes] = True
        self._open = np.zeros(ring.plan.lanes, np.bool_)
        self._age = np.zeros(ring.plan.lanes, np.int32)
        self._episode = np.full(ring.plan.lanes, -1, np.int32)
        self._newest: Where | None = None
        """Where the newest rows of all lanes lie, if they were written together."""

        self._loads = ring.loads
        self._recall()

    def __reduce__(self) -> Any:
        return RowWriter, (self._ring, self._env, self._lanes, self._evict)

    def _recall(self) -> None:
        """Takes up the lanes where an earlier writer left them."""
        if not self._ring.alone:
            self._ring.recall(self._lanes)
        lanes = self._lanes[self._ring.heads[self._lanes] > 0]
        newest = self._ring.where(lanes, self._ring.heads[lanes] - 1)
        self._open[lanes] = ~self._ring.gather("closing", newest)
        self._age[lanes] = self._ring.gather("age", newest)
        self._episode[lanes] = self._ring.gather("episode", newest)

    def start(self, obs: Columns, lanes: NDArray[np.int64] | None = None) -> None:
        """The first observations of new episodes.

        An open row of such a lane becomes the closing row of its episode: what was never finished
        counts as truncated, and nothing that was written changes. Raises ValueError for a lane of
        another writer, and where a shape is wrong.
        """
        lanes = self._lanes if lanes is None else lanes
        if not all_of(self._mine[lanes]):
            raise ValueError(f"lane {int(lanes[~self._mine[lanes]][0])} has another writer")
        age, episode = np.zeros(len(lanes), np.int32), self._episode[lanes] + np.int32(1)
        closing = np.zeros(len(lanes), np.bool_)
        self._push(lanes, obs, closing, age, episode, cut=lanes[self._open[lanes]])

    def append(
        self,
        action: Array,
        reward: Array,
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        next_obs: Columns,
        extras: Columns | None = None,
        *,
        lost_life: NDArray[np.bool_] | None = None,
        lanes: NDArray[np.int64] | None = None,
    ) -> None:
        """One step of each lane.

        `next_obs` is the true observation after the step, at an episode's end too; the reset
        observation comes by `start`. `lost_life` ends the value but not the episode. Raises
        ValueError for a lane without an open row, for extras that are not the memory's, and where
        a shape is wrong; that step did not happen, and may be told again.
        """
        lanes = self._lanes if lanes is None else lanes
        if not all_of(self._open[lanes]):
            lane = int(lanes[~self._open[lanes]][0])
            raise ValueError(f"lane {lane} has no open episode: call start before append")
        extras = extras or {}
        if extras.keys() != self._extras:
            raise ValueError(f"extras are {sorted(extras)}, not {sorted(self._extras)}")
        terminal = terminated if lost_life is None else terminated | lost_life
        step = {
            "action": action,
            "reward": reward,
            "terminal": terminal,
            **extras,
        }
        newest = self._newest
        if newest is None or lanes is not self._lanes or self._loads != self._ring.loads:
            newest = self._ring.where(lanes, self._ring.heads[lanes] - 1)
        self._ring.write(newest, step)
        age, episode = following_age(self._age[lanes]), self._episode[lanes]
        self._push(lanes, next_obs, terminated | truncated, age, episode, cut=lanes[:0])

    def _push(
        self,
        lanes: NDArray[np.int64],
        obs: Columns,
        closing: NDArray[np.bool_],
        age: NDArray[np.int32],
        episode: NDArray[np.int32],
        cut: NDArray[np.int64],
    ) -> None:
        """Writes each lane's next row and publishes it together with the step before it.

        The open rows of the lanes `cut` become closing rows. What is refused is refused before
        any held row, or what is known here, changes.
        """
        row = {name: obs[name] for name in self._observations}
        row |= {"closing": closing, "age": age, "episode": episode}
        where = self._ring.make_room(lanes)
        if self._evict is not None:
            self._evict(self._ring, lanes)
        self._ring.write(where, row)
        if len(cut):
            newest = self._ring.where(cut, self._ring.heads[cut] - 1)
            self._ring.write(newest, {"closing": np.ones(len(cut), np.bool_)})
        self._ring.publish(lanes)
        self._newest = where if lanes is self._lanes else None
        self._loads = self._ring.loads
        self._open[lanes], self._age[lanes], self._episode[lanes] = ~closing, age, episode


def check_rows(ring: RingBuffer) -> None:
    """Raises CorruptMemoryError unless each row follows from the row before it in its lane."""
    for lane in range(ring.plan.lanes):
        rows = np.arange(ring.tails[lane], ring.heads[lane])
        where = ring.where(np.full(len(rows), lane), rows)
        age, episode = ring.gather("age", where), ring.gather("episode", where)
        ended = ring.gather("closing", where)[:-1]
        wrong = {
            "age": age[1:] != np.where(ended, 0, following_age(age[:-1])),
            "episode": episode[1:] != episode[:-1] + ended,
        }
        for name, rows_wrong in wrong.items():
            if rows_wrong.any():
                row = int(rows[1:][rows_wrong][0])
                raise CorruptMemoryError(f"lane {lane}, row {row}: '{name}' does not follow")
