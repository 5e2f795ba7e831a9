"""SequentialMemory: transitions, one a step, with stacked observations and n-step returns."""

from collections.abc import Sequence
from typing import ClassVar

from ..episodes.starts import TransitionStarts
from ..episodes.transitions import TransitionReader
from ..memory import MemoryContext, MemoryOptions, RingMemory, RowMemoryOptions
from ..options import SharedOptions
from ..sampling.uniform import Sampler, Uniform
from ..types import Batch, Unit


class SequentialOptions(RowMemoryOptions):
    """Transitions, drawn uniformly: what DQN learns from."""


class SequentialMemory(RingMemory):
    """The newest rows of each lane; a unit is a step with its successor.

    `obs` and `next_obs` are stacks `[B, W, ...]`; `reward` sums up to `n_step` rewards.
    """

    gives: ClassVar[Unit] = Unit.TRANSITIONS
    Options: ClassVar[type[MemoryOptions]] = SequentialOptions

    @staticmethod
    def least_rows(shared: SharedOptions) -> tuple[int, str]:
        """See `RingMemory.least_rows`."""
        return shared.window_length + shared.n_step, "window_length and n_step"

    def __init__(self, options: MemoryOptions, context: MemoryContext) -> None:
        super().__init__(options, context)
        shared = context.shared
        self._sampler: Sampler = Uniform()
        self.starts = TransitionStarts(self._ring, shared.window_length)
        self.reader = TransitionReader(self._ring, context.env, context.extras, shared)

    def __len__(self) -> int:
        """See `Memory.__len__`."""
        return len(self.starts)

    def sample(
        self,
        batch_size: int,
        *,
        columns: Sequence[str] | None = None,
        out: Batch | None = None,
    ) -> Batch:
        """See `Memory.sample`."""
        draw = self._sampler.draw(self.starts, batch_size, self._rng)
        return self.reader.read(draw, columns, out)
