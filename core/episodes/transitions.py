"""Reading transitions out of a ring of episode rows."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..options import SharedOptions
from ..sampling.uniform import Draw
from ..storage.view import Rows
from ..types import NEXT, Array, Batch, EnvSpec, filled
from .n_step import NStep, n_step_sum
from .rows import unit_id
from .stacking import stack_offsets


class TransitionReader:
    """Gathers the transitions of a draw: stacks, n-step sums, actions and extras.

    Every name of `columns` can be asked for alone, and then little else is read: the age of a row
    for its stack, rewards and ends for what is summed over steps.
    """

    def __init__(
        self, ring: Rows, env: EnvSpec, extras: Iterable[str], shared: SharedOptions
    ) -> None:
        self._ring = ring
        self._observations = tuple(env.observations)
        self._stored = ("action", *extras)
        self._window = shared.window_length
        self._n_step = shared.n_step
        self._gamma = shared.gamma
        successors = tuple(NEXT + name for name in self._observations)
        computed = ("reward", "discount", "weight", "id")
        self.columns = (*self._observations, *successors, *self._stored, *computed)
        self._stacked = {*self._observations, *successors}
        # a single step is always there: only further ones have to be looked for
        self._summed = {"reward", "discount", *(successors if self._n_step > 1 else ())}

    def read(
        self, draw: Draw, columns: Sequence[str] | None = None, out: Batch | None = None
    ) -> Batch:
        """The transitions that start at those rows, all of them legal starts.

        Arrays are fresh; those of `out` are filled instead. Raises ValueError for a column that
        does not exist.
        """
        wanted = self.columns if columns is None else columns
        if unknown := set(wanted) - set(self.columns):
            raise ValueError(f"no column {sorted(unknown)}; there are {self.columns}")
        where = self._ring.where(draw.lanes, draw.rows)
        batch: Batch = {n: self._ring.gather(n, where) for n in self._stored if n in wanted}
        computed: Batch = {"weight": draw.weight, "id": unit_id(draw.lanes, draw.rows)}
        steps: NDArray[np.int64] | int = 1
        if not self._summed.isdisjoint(wanted):
            n_step = self._n_steps(draw)
            steps = n_step.steps
            computed |= {"reward": n_step.reward, "discount": n_step.discount}
        batch |= {name: array for name, array in computed.items() if name in wanted}
        if not self._stacked.isdisjoint(wanted):
            batch |= self._stacks(draw, steps, wanted, out or {})
        return batch if out is None else filled(out, batch)

    def _stacks(
        self, draw: Draw, steps: NDArray[np.int64] | int, wanted: Sequence[str], out: Batch
    ) -> Batch:
        age = self._ring.gather("age", self._ring.where(draw.lanes, draw.rows)).astype(np.int64)
        batch: Batch = {}
        for name in self._observations:
            if self._n_step == 1 and not out and name in wanted and NEXT + name in wanted:
                # the two stacks share all but one frame: one gather, two views of it
                pair = self._stack(name, draw, 1, age, self._window + 1)
                batch[name], batch[NEXT + name] = pair[:, :-1], pair[:, 1:]
                continue
            for key, ahead in ((name, 0), (NEXT + name, steps)):
                if key in wanted:
                    batch[key] = self._stack(name, draw, ahead, age, self._window, out.get(key))
        return batch

    def _stack(
        self,
        name: str,
        draw: Draw,
        ahead: NDArray[np.int64] | int,
        age: NDArray[np.int64],
        window: int,
        out: Array | None = None,
    ) -> Array:
        back = stack_offsets(age + ahead, window)
        where = self._ring.where(draw.lanes[:, None], (draw.rows + ahead)[:, None] - back)
        return self._ring.gather(name, where, out)

    def _n_steps(self, draw: Draw) -> NStep:
        lanes = draw.lanes[:, None]
        last = self._ring.heads[lanes] - 1
        ahead = draw.rows[:, None] + np.arange(self._n_step)
        where = self._ring.where(lanes, np.minimum(ahead, last))
        exists = (ahead < last) & ~self._ring.gather("closing", where)
        reward = self._ring.gather("reward", where)
        return n_step_sum(reward, self._ring.gather("terminal", where), exists, self._gamma)
