"""EpisodicMemory: trajectories, whole episodes kept or let go together."""

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from ..episodes.rows import Evict
from ..episodes.search import EpisodeIndex, evict_whole_episodes
from ..episodes.starts import TransitionStarts
from ..episodes.summary import Episode, newest_windows, summaries
from ..episodes.windows import WindowReader
from ..memory import MemoryContext, MemoryOptions
from ..options import SharedOptions, option
from ..row_memory import RingMemory
from ..sampling.by_episode import ByEpisode
from ..sampling.choose import SamplerOptions, choose
from ..types import Batch, Unit


class EpisodicOptions(SamplerOptions):
    """Trajectories within one episode, with masks: what ACER learns from."""

    sampler: Literal["uniform", "balanced", "recent", "mixture"] = option(
        "uniform", help="draw each first step alike, or some more often than others"
    )
    draw: Literal["steps", "episodes"] = option(
        "steps", help="start at any step alike, or choose an episode first and then a step of it"
    )
    burn_in: int = option(
        0, ge=0, le=10_000, unit="steps",
        help="steps before a trajectory that warm up a recurrent state and count for no loss",
    )  # fmt: skip

    @model_validator(mode="after")
    def _episodes_first(self) -> Self:
        if self.draw == "episodes" and self.sampler != "uniform":
            raise ValueError("draw episodes with sampler uniform alone")
        return self


class EpisodicMemory(RingMemory):
    """The newest whole episodes of each lane; a unit is a window of up to T steps.

    T is `trajectory_length`. A window starts at any step whose stack is held, and ends with its
    episode at the latest, so that every step and every terminal can be drawn. See `WindowReader`
    for what a batch holds.
    """

    gives: ClassVar[Unit] = Unit.TRAJECTORIES
    Options: ClassVar[type[MemoryOptions]] = EpisodicOptions
    reader: WindowReader

    evict: ClassVar[Evict | None] = staticmethod(evict_whole_episodes)

    @staticmethod
    def least_rows(shared: SharedOptions) -> tuple[int, str]:
        """See `RingMemory.least_rows`."""
        least = shared.window_length + shared.trajectory_length
        return least, "window_length and trajectory_length"

    def __init__(self, options: EpisodicOptions, context: MemoryContext) -> None:
        super().__init__(options, context)
        shared = context.shared
        self.starts = TransitionStarts(self._view, shared.window_length)
        self._sampler, _, _, self._kept = choose(options, context, self._ring, self._view)
        if options.draw == "episodes":
            self._sampler = ByEpisode(EpisodeIndex(self._view, shared.window_length))
        self.reader = WindowReader(self._view, context.env, context.extras, shared, options.burn_in)

    def latest(self, columns: Sequence[str] | None = None) -> Batch:
        """The newest `trajectory_length` steps of each lane, as windows that end with episodes.

        Nothing is drawn: these are the steps that the newest policy made, oldest first.
        """

        def newest() -> Batch:
            draw, most = newest_windows(self._view, self.starts, self.reader.length)
            return self.reader.read(draw, columns, most=most)

        self._ring.settle()
        return self._view.steadily(newest)

    def episodes(self) -> list[Episode]:
        """What is held of each episode, lane by lane, oldest first."""
        self._ring.settle()
        return self._view.steadily(lambda: summaries(self._view))
