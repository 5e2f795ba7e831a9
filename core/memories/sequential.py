"""SequentialMemory: transitions, one a step, with stacked observations and n-step returns."""

from typing import ClassVar, cast

from ..episodes.starts import TransitionStarts
from ..episodes.transitions import TransitionReader
from ..memory import MemoryContext, MemoryOptions
from ..options import SharedOptions
from ..row_memory import RingMemory
from ..sampling.choose import PriorityOptions, choose
from ..types import Unit


class SequentialOptions(PriorityOptions):
    """Transitions, each drawn alike or by what it promises: what DQN learns from."""


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
        own = cast(SequentialOptions, options)
        chosen = choose(own, context, self._ring, self._view)
        self._sampler, self._priorities, self._told, self._kept = chosen
        self.starts = TransitionStarts(self._view, shared.window_length)
        self.reader = TransitionReader(self._view, context.env, context.extras, shared)
