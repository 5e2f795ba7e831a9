"""Reading windows of trajectories out of a ring of episode rows."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..options import SharedOptions
from ..sampling.uniform import Draw
from ..storage.view import Rows
from ..types import Array, Batch, EnvSpec, filled
from .rows import unit_id
from .stacking import stack_offsets


class Extent(NamedTuple):
    """Windows of up to b + T steps: their rows `[b + T + 1, S]`, and which of the steps are there.

    A row past a window's end is that of its last observation, again; one before its beginning is
    that of its first.
    """

    rows: NDArray[np.int64]
    ages: NDArray[np.int64]
    mask: NDArray[np.bool_]
    burn_in: NDArray[np.bool_]


class WindowReader:
    """Gathers windows: each within one episode, right-padded, time first.

    `obs` is `[T + 1, S, W, ...]`: the last real one is the successor of the last real step, to
    bootstrap from; padding repeats it. `action`, extras, `reward`, `discount` and `mask` are
    `[T, S]`. In the padding reward is 0 and discount 1, so that a sum from the back passes through
    it unchanged; elsewhere discount is gamma, or 0 at a terminal. `weight` and `id` are `[S]`.

    With `burn_in` b, up to b steps of the same episode come before a window's first, to warm up a
    recurrent state without a loss (Kapturowski et al. 2019, "Recurrent Experience Replay in
    Distributed Reinforcement Learning"). All times are then b longer, the first step is at b
    always, and the column `burn_in` `[b + T, S]` marks the steps before it that are there, of which
    `mask` says that they do not count. Where the episode, or what is held of it, begins sooner,
    there is padding to the left, in which the first observation repeats.
    """

    def __init__(
        self,
        ring: Rows,
        env: EnvSpec,
        extras: Iterable[str],
        shared: SharedOptions,
        burn_in: int = 0,
    ) -> None:
        self._ring = ring
        self._observations = tuple(env.observations)
        self._stored = ("action", *extras)
        self._window = shared.window_length
        self.length = shared.trajectory_length
        self._gamma = shared.gamma
        self._burn_in = burn_in
        computed = ("reward", "discount", "mask", "weight", "id")
        more = ("burn_in",) if burn_in else ()
        self.columns = (*self._observations, *self._stored, *computed, *more)

    def read(
        self,
        draw: Draw,
        columns: Sequence[str] | None = None,
        out: Batch | None = None,
        *,
        most: NDArray[np.int64] | None = None,
    ) -> Batch:
        """The windows that start at those rows, each of at most `length` steps, or of `most`.

        Arrays are fresh; those of `out` are filled instead. Raises ValueError for a column that
        does not exist.
        """
        wanted = self.columns if columns is None else columns
        if unknown := set(wanted) - set(self.columns):
            raise ValueError(f"no column {sorted(unknown)}; there are {self.columns}")
        extent = self._extent(draw, most)
        where = self._ring.where(draw.lanes[None], extent.rows[:-1])
        batch = {n: self._stack(n, draw, extent) for n in self._observations if n in wanted}
        batch |= {n: self._ring.gather(n, where) for n in self._stored if n in wanted}
        there = extent.mask | extent.burn_in
        computed: Batch = {"mask": extent.mask, "burn_in": extent.burn_in, "weight": draw.weight}
        computed["id"] = unit_id(draw.lanes, draw.rows)
        if "reward" in wanted:
            reward = self._ring.gather("reward", where)
            computed["reward"] = np.where(there, reward, np.float32(0))
        if "discount" in wanted:
            terminal = self._ring.gather("terminal", where)
            discount = np.where(there, np.where(terminal, 0.0, self._gamma), 1.0)
            computed["discount"] = discount.astype(np.float32)
        batch |= {name: array for name, array in computed.items() if name in wanted}
        return batch if out is None else filled(out, batch)

    def _extent(self, draw: Draw, most: NDArray[np.int64] | None) -> Extent:
        ahead = np.arange(self.length)[:, None]
        last = self._ring.heads[draw.lanes] - 1
        rows = draw.rows + ahead
        where = self._ring.where(draw.lanes[None], np.minimum(rows, last))
        exists = (rows < last) & ~self._ring.gather("closing", where)
        if most is not None:
            exists &= ahead < most
        mask = np.logical_and.accumulate(exists, axis=0)
        steps = np.minimum(np.arange(self.length + 1)[:, None], mask.sum(axis=0))
        age = self._ring.gather("age", self._ring.where(draw.lanes, draw.rows)).astype(np.int64)
        window = Extent(draw.rows + steps, age + steps, mask, np.zeros_like(mask))
        return self._warmed_up(window, draw) if self._burn_in else window

    def _warmed_up(self, window: Extent, draw: Draw) -> Extent:
        """The windows with the steps before them whose stacks are held."""
        back, age = np.arange(self._burn_in, 0, -1)[:, None], window.ages[0]
        first_of_stack = draw.rows - back - np.minimum(age - back, self._window - 1)
        there = (back <= age) & (first_of_stack >= self._ring.tails[draw.lanes])
        steps = np.minimum(back, there.sum(axis=0))
        return Extent(
            np.concatenate([draw.rows - steps, window.rows]),
            np.concatenate([age - steps, window.ages]),
            np.concatenate([np.zeros_like(there), window.mask]),
            np.concatenate([there, window.burn_in]),
        )

    def _stack(self, name: str, draw: Draw, extent: Extent) -> Array:
        back = stack_offsets(extent.ages, self._window)
        where = self._ring.where(draw.lanes[None, :, None], extent.rows[..., None] - back)
        return self._ring.gather(name, where)
