"""HybridMemory: transitions and trajectories over one store."""

from collections.abc import Sequence
from typing import ClassVar, cast

from ..episodes.starts import TransitionStarts
from ..episodes.summary import Episode, newest_windows, summaries
from ..episodes.transitions import TransitionReader
from ..episodes.windows import WindowReader
from ..memory import MemoryContext, MemoryOptions
from ..options import SharedOptions, option
from ..row_memory import RingMemory
from ..sampling.choose import PriorityOptions, choose
from ..types import Batch, Unit


class HybridOptions(PriorityOptions):
    """Transitions and trajectories of the same rows: for agents that learn from both."""

    burn_in: int = option(
        0, ge=0, le=10_000, unit="steps",
        help="steps before a trajectory that warm up a recurrent state and count for no loss",
    )  # fmt: skip


class HybridMemory(RingMemory):
    """The newest rows of each lane, read as transitions and as windows of up to T steps.

    Each row lies there once. `sample` gives transitions, as `SequentialMemory` does, or where the
    context's unit is trajectories, windows. `trajectories` and `latest` give windows in either
    case, as `EpisodicMemory` does, but the oldest episode of a lane may have lost rows. One sampler
    draws the first steps of both, by the same errors.
    """

    gives: ClassVar[Unit] = Unit.TRANSITIONS
    also: ClassVar[tuple[Unit, ...]] = (Unit.TRAJECTORIES,)
    Options: ClassVar[type[MemoryOptions]] = HybridOptions

    @staticmethod
    def least_rows(shared: SharedOptions) -> tuple[int, str]:
        """See `RingMemory.least_rows`."""
        longer = max(shared.n_step, shared.trajectory_length)
        return shared.window_length + longer, "window_length, n_step and trajectory_length"

    def __init__(self, options: MemoryOptions, context: MemoryContext) -> None:
        super().__init__(options, context)
        shared, own = context.shared, cast(HybridOptions, options)
        chosen = choose(own, context, self._ring, self._view)
        self._sampler, self._priorities, self._told, self._kept = chosen
        self.starts = TransitionStarts(self._view, shared.window_length)
        self.reader = TransitionReader(self._view, context.env, context.extras, shared)
        self.windows = WindowReader(self._view, context.env, context.extras, shared, own.burn_in)
        if context.unit is Unit.TRAJECTORIES:
            self.reader = self.windows

    def trajectories(
        self, batch_size: int, *, columns: Sequence[str] | None = None, out: Batch | None = None
    ) -> Batch:
        """Windows that begin at drawn steps; see `Memory.sample` and, for columns, `WindowReader`.

        Nothing of it is read ahead by `prefetch`.
        """
        self._ring.settle()
        return self._view.steadily(lambda: self.windows.read(self._draw(batch_size), columns, out))

    def latest(self, columns: Sequence[str] | None = None) -> Batch:
        """The newest `trajectory_length` steps of each lane; see `EpisodicMemory.latest`."""

        def newest() -> Batch:
            draw, most = newest_windows(self._view, self.starts, self.windows.length)
            return self.windows.read(draw, columns, most=most)

        self._ring.settle()
        return self._view.steadily(newest)

    def episodes(self) -> list[Episode]:
        """What is held of each episode, lane by lane, oldest first."""
        self._ring.settle()
        return self._view.steadily(lambda: summaries(self._view))
