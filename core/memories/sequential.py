"""SequentialMemory: transitions, one a step, with stacked observations and n-step returns."""

from collections.abc import Sequence
from typing import ClassVar, Final, Literal, Self, cast

from pydantic import model_validator

from ..episodes.starts import TransitionStarts
from ..episodes.transitions import TransitionReader
from ..memory import MemoryContext, MemoryOptions
from ..options import SharedOptions, option
from ..row_memory import RingMemory, RowMemoryOptions
from ..sampling.layout import PrioritizedPlan
from ..sampling.uniform import Uniform
from ..storage.columns import ColumnPlan
from ..storage.plan import StorePlan
from ..types import Unit

PRIORITIZED: Final = ("priority_exponent", "importance_exponent")
"""Keys of prioritized sampling alone."""


class SequentialOptions(RowMemoryOptions):
    """Transitions, each drawn alike or by priority: what DQN learns from."""

    sampler: Literal["uniform", "prioritized"] = option(
        "uniform", help="draw each transition alike, or those more often that were learnt less"
    )
    priority_exponent: float = option(
        0.6, ge=0, le=1, help="prioritized: how much errors count (alpha); 0: all are drawn alike"
    )
    importance_exponent: float = option(
        0.4,
        ge=0,
        le=1,
        help="prioritized: how much weights correct for it at first (beta), rising to 1 at the end",
    )

    @property
    def takes_feedback(self) -> bool:
        """See `MemoryOptions.takes_feedback`."""
        return self.sampler == "prioritized"

    @model_validator(mode="after")
    def _priorities(self) -> Self:
        for key in PRIORITIZED if self.sampler == "uniform" else ():
            if getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(f"{key} with sampler prioritized alone")
        return self


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

    @classmethod
    def store(
        cls, options: RowMemoryOptions, columns: Sequence[ColumnPlan], lanes: int
    ) -> StorePlan:
        """See `RingMemory.store`."""
        plan = super().store(options, columns, lanes)
        if not cast(SequentialOptions, options).takes_feedback:
            return plan
        return PrioritizedPlan(plan.columns, lanes, plan.rows_per_lane, storage=plan.storage)

    def __init__(self, options: MemoryOptions, context: MemoryContext) -> None:
        super().__init__(options, context)
        shared = context.shared
        own = cast(SequentialOptions, options)
        self._sampler = Uniform()
        if own.takes_feedback:
            # numba is loaded only where it is used
            from ..sampling.prioritized import Exponents, Prioritized

            exponents = Exponents(own.priority_exponent, own.importance_exponent)
            reach = shared.window_length - 1
            self._priorities = Prioritized(self._ring, reach, exponents, context.progress)
            self._sampler = self._priorities
        self.starts = TransitionStarts(self._view, shared.window_length)
        self.reader = TransitionReader(self._view, context.env, context.extras, shared)
