"""Reading transitions out of a ring of episode rows."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..options import SharedOptions
from ..sampling.uniform import Draw
from ..storage.columns import Where
from ..storage.fields import Fields, Wish
from ..storage.view import Rows
from ..types import NEXT, Batch, EnvSpec, filled

BOOKS: Final = ("age", "closing", "terminal", "reward")
OWN, STACK, FOLLOWING = 0, 1, 2
"""Which of the slots of `Steps` a column is read at."""


class Steps(NamedTuple):
    """What follows each start of a draw; see `kernels.unroll`."""

    sums: NDArray[np.float32]
    ids: NDArray[np.int64]
    slots: NDArray[np.int64]
    stacks: NDArray[np.int64]
    following: NDArray[np.int64]


class TransitionReader:
    """Gathers the transitions of a draw: stacks, n-step sums, actions and extras.

    Every name of `columns` can be asked for alone, and then little else is read: the books of rows.
    """

    def __init__(
        self, ring: Rows, env: EnvSpec, extras: Iterable[str], shared: SharedOptions
    ) -> None:
        from .kernels import unroll  # numba is loaded where a memory is made, and not before

        self._made_of = (ring, env, tuple(extras), shared)
        self._unroll = unroll
        self._ring = ring
        self._packed = ring.packed
        self._books = tuple(ring.book(name) for name in BOOKS)
        self._observations = tuple(env.observations)
        self._stored = ("action", *self._made_of[2])
        self._frames = {plan.name for plan in ring.plan.columns if plan.kind != "packed"}
        self._window = shared.window_length
        self._single = shared.n_step == 1
        self._powers = shared.gamma ** np.arange(shared.n_step + 1, dtype=np.float64)
        successors = tuple(NEXT + name for name in self._observations)
        computed = ("reward", "discount", "weight", "id")
        self.columns = (*self._observations, *successors, *self._stored, *computed)
        self._fields: dict[tuple[str, ...], Fields] = {}

    def __reduce__(self) -> Any:
        return TransitionReader, self._made_of  # the books are where the ring is

    def read(
        self, draw: Draw, columns: Sequence[str] | None = None, out: Batch | None = None
    ) -> Batch:
        """The transitions that start at those rows, all of them legal starts.

        Arrays are fresh; those of `out` are filled instead. Raises ValueError for a column that
        does not exist.
        """
        wanted = self.columns if columns is None else tuple(columns)
        fields = self._fields.get(wanted) or self._ask(wanted)
        steps = self._steps(draw)
        batch = fields.read((steps.slots, steps.stacks[1].ravel(), steps.following[1].ravel()))
        self._split(batch)
        if self._frames:
            self._stack_frames(batch, steps, draw.lanes[:, None], wanted, out or {})
        reward, discount = steps.sums
        batch |= {"reward": reward, "discount": discount, "weight": draw.weight, "id": steps.ids}
        if columns is not None:
            batch = {name: batch[name] for name in wanted}
        return batch if out is None else filled(out, batch)

    def _ask(self, wanted: tuple[str, ...]) -> Fields:
        """Reads the packed ones of those columns from here on."""
        if unknown := set(wanted) - set(self.columns):
            raise ValueError(f"no column {sorted(unknown)}; there are {self.columns}")
        wishes = {name: Wish(name, OWN) for name in self._stored if name in wanted}
        for name in self._observations:
            if name in self._frames:
                continue
            if self._single and (name in wanted or NEXT + name in wanted):
                wishes[name] = Wish(name, STACK, self._window + 1)
            elif name in wanted:
                wishes[name] = Wish(name, STACK, self._window)
            if not self._single and NEXT + name in wanted:
                wishes[NEXT + name] = Wish(name, FOLLOWING, self._window)
        self._fields[wanted] = fields = self._ring.fields(wishes)
        return fields

    def _split(self, batch: Batch) -> None:
        """Of a single step, the two stacks share all but one row: two views of what was read."""
        for name in self._observations if self._single else ():
            if name in batch:
                batch[name], batch[NEXT + name] = batch[name][:, :-1], batch[name][:, 1:]

    def _steps(self, draw: Draw) -> Steps:
        """Sums, ids and stacks of all units; little of it is large, so that nothing is left out."""
        ring, size = self._ring, len(draw.rows)
        depth = self._window + self._single
        steps = Steps(
            np.empty((2, size), np.float32),
            np.empty(size, np.int64),
            np.empty(size, np.int64),
            np.empty((2, size, depth), np.int64),
            np.empty((2, size, 0 if self._single else depth), np.int64),
        )
        per_lane = ring.plan.rows_per_lane
        self._unroll(
            draw.lanes, draw.rows, ring.heads, per_lane, *self._packed, self._books, self._powers,
            tuple(steps),
        )  # fmt: skip
        return steps

    def _stack_frames(
        self,
        batch: Batch,
        steps: Steps,
        lanes: NDArray[np.int64],
        wanted: Sequence[str],
        out: Batch,
    ) -> None:
        """Adds the stacks of pictures, those that are wanted."""
        for name in self._frames:
            both = name in wanted and NEXT + name in wanted
            if self._single and both and not out:
                # the two stacks share all but one frame: one gather, two views of it
                pair = self._ring.gather(name, Where(lanes, *steps.stacks))
                batch[name], batch[NEXT + name] = pair[:, :-1], pair[:, 1:]
                continue
            first, second = (
                (steps.stacks[:, :, :-1], steps.stacks[:, :, 1:])
                if self._single
                else (steps.stacks, steps.following)
            )
            for key, stack in ((name, first), (NEXT + name, second)):
                if key in wanted:
                    batch[key] = self._ring.gather(name, Where(lanes, *stack), out.get(key))
