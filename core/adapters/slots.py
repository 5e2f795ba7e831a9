"""Steps of a memory by where they lie in its ring, as Tianshou names them: one number each.

A slot holds another step once the ring has gone round; closing and open rows lie between them.
Names are those of Tianshou's ReplayBuffer.
"""

import numpy as np
from numpy.typing import NDArray

from ..episodes.rows import LANE_SHIFT
from ..memories.sequential import SequentialMemory
from ..sampling.uniform import all_starts
from ..types import Array

Indices = NDArray[np.int64]


class Slots:
    """What follows a step, and how it ended. Arrays of all slots are `[rows]`, and not copies."""

    def take_up(self, memory: SequentialMemory) -> None:
        """Speaks of that memory from here on."""
        self._memory, self._ring, self._starts = memory, memory.ring, memory.starts
        self._per_lane = memory.ring.plan.rows_per_lane

    def __len__(self) -> int:
        """Steps that can be read."""
        return len(self._memory)

    @property
    def rew(self) -> Array:
        """Rewards."""
        return self._ring.book("reward")

    @property
    def terminated(self) -> Array:
        """Which steps have no value after them."""
        return self._ring.book("terminal")

    @property
    def done(self) -> NDArray[np.bool_]:
        """Which steps end their episode, since a closing row follows; a copy."""
        closing = self._ring.book("closing").reshape(-1, self._per_lane)
        last: NDArray[np.bool_] = np.roll(closing, -1, axis=1).reshape(-1)
        return last

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """Which steps end their episode and have a value after them; a copy."""
        return self.done & ~self.terminated

    def slots_of(self, lanes: Indices, rows: Indices) -> Indices:
        """Slots of rows."""
        return lanes * self._per_lane + rows % self._per_lane

    def slots_of_ids(self, ids: Indices) -> Indices:
        """Slots of units, by their ids."""
        return self.slots_of(ids >> LANE_SHIFT, ids & ((1 << LANE_SHIFT) - 1))

    def every_slot(self) -> Indices:
        """Of all steps that can be read, by lane and age."""
        return self.slots_of(*all_starts(self._starts))

    def sample_indices(self, batch_size: int | None) -> Indices:
        """So many that the memory draws; every one there is for 0 or None."""
        if not batch_size:
            return self.every_slot()
        return self.slots_of_ids(self._memory.sample(batch_size, columns=["id"])["id"])

    def rows_of(self, slots: Indices) -> tuple[Indices, Indices]:
        """Lanes and rows of slots."""
        lanes = slots // self._per_lane
        tails = self._ring.tails[lanes]
        return lanes, tails + (slots - tails) % self._per_lane

    def newest(self, lanes: Indices) -> tuple[Indices, Indices, Indices]:
        """Of each lane's newest step: its slot, its number in its episode, that one's first slot.

        The number is 0 where the newest row is an episode's first, and no step.
        """
        row = self._ring.heads[lanes] - 1
        steps = self._ring.book("age")[self.slots_of(lanes, row)].astype(np.int64)
        return self.slots_of(lanes, row - 1), steps, self.slots_of(lanes, row - steps)

    def unfinished_index(self) -> Indices:
        """The newest step of each lane whose episode goes on."""
        lanes = np.flatnonzero(self._ring.heads)
        slots, steps, _ = self.newest(lanes)
        return slots[(steps > 0) & ~self.done[slots]]

    def next(self, index: Indices) -> Indices:
        """The steps after; those that end their episode, or are the newest, stay."""
        stays = self.done[index] | np.isin(index, self.unfinished_index())
        return np.where(stays, index, self._shifted(index, 1))

    def prev(self, index: Indices) -> Indices:
        """The steps before; those that begin their episode, or are the oldest held, stay."""
        lanes, rows = self.rows_of(index)
        stays = (self._ring.book("age")[index] == 0) | (rows == self._ring.tails[lanes])
        return np.where(stays, index, self._shifted(index, -1))

    def _shifted(self, slots: Indices, rows: int | Indices) -> Indices:
        first = slots - slots % self._per_lane
        shifted: Indices = first + (slots + rows) % self._per_lane
        return shifted

    def get_buffer_indices(self, start: int, stop: int) -> Indices:
        """The steps from `start` to before `stop`, in one lane, that can be read."""
        lane = start // self._per_lane
        count = (stop - 1 - start) % self._per_lane + 1
        _, found = self.rows_of(
            self._shifted(np.full(count, start), np.arange(count, dtype=np.int64))
        )
        rows = found[found < self._ring.heads[lane] - 1]
        lanes = np.full(len(rows), lane, np.int64)
        legal = self._starts.legal(lanes, rows)
        return self.slots_of(lanes[legal], rows[legal])
