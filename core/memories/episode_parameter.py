"""EpisodeParameterMemory: policy parameters, with the returns that they earned."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final, cast

import numpy as np
from numpy.typing import NDArray

from ..memory import Memory, MemoryContext, MemoryOptions
from ..options import option
from ..parameters.generation import Generation, Vector
from ..parameters.kept import RECORD, Kept
from ..parameters.returns import OpenEpisodes, ReturnWriter, plan_results, result_ring
from ..parameters.store import ParameterPlan, Remember, bytes_full, make_store
from ..parameters.tally import Tally
from ..types import Batch, Tree, Unit

PARTS: Final = ("kept", "results", "open", "tally")


class EpisodeParameterOptions(MemoryOptions):
    """Candidates with their returns: what evolution strategies learn from."""

    memory_limit: int = option(1_000, ge=2, unit="candidates", help="candidates remembered")
    remember: Remember = option(
        "seeds", help="candidates as the seeds they grew from, whole, or as float16 differences"
    )
    generations: int = option(
        32, ge=1, unit="generations", help="newest generations whose candidates can be rebuilt"
    )


class EpisodeParameterMemory(Memory):
    """Candidates of the newest generations; a unit is one candidate's parameters and return.

    An agent begins a generation; its actor names in the extra `candidate` who plays in a lane; the
    writer sums rewards; once all returns are there, `finished` gives them and they are kept.
    Without generations, `finalize_episode` keeps a copy of any parameters. A batch has
    `parameters` `[B, D]` and `total_reward length generation weight id` `[B]`.
    """

    gives: ClassVar[Unit] = Unit.PARAMETERS
    Options: ClassVar[type[MemoryOptions]] = EpisodeParameterOptions

    @classmethod
    def plan(cls, options: MemoryOptions, context: MemoryContext) -> ParameterPlan:
        """See `Memory.plan`."""
        own = cast(EpisodeParameterOptions, options)
        slots = own.memory_limit
        kept = bytes_full(own.remember, slots, context.parameters, own.generations)
        inbox = plan_results(context.shared.num_envs, slots).bytes_full
        return ParameterPlan(slots * RECORD.itemsize + kept + inbox, slots)

    def __init__(self, options: MemoryOptions, context: MemoryContext) -> None:
        super().__init__(options, context)
        own = cast(EpisodeParameterOptions, options)
        self._slots = own.memory_limit
        store = make_store(own.remember, self._slots, context.parameters, own.generations)
        self._kept = Kept(store, self._slots, own.generations)
        self._results = result_ring(context.shared.num_envs, self._slots)
        self._open = OpenEpisodes(context.shared.num_envs)
        self._tally = Tally(self._results, self._kept)
        parts = (self._kept, self._results, self._open, self._tally)
        self._parts: dict[str, Any] = dict(zip(PARTS, parts, strict=True))
        self._bytes_full = self.plan(options, context).bytes_full

    def writer(self, lanes: Sequence[int] | None = None) -> ReturnWriter:
        """See `Memory.writer`."""
        chosen = range(len(self._results.heads)) if lanes is None else lanes
        return ReturnWriter(self._results, np.array(chosen, np.int64), self._open)

    def begin(self, generation: Generation) -> None:
        """See `Tally.begin`."""
        self._tally.begin(generation)

    def finished(self) -> NDArray[np.float64] | None:
        """See `Tally.finished`."""
        return self._tally.finished()

    def finalize_episode(self, parameters: Vector) -> float:
        """See `Tally.claim`."""
        return self._tally.claim(parameters)

    def sample(
        self, batch_size: int, *, columns: Sequence[str] | None = None, out: Batch | None = None
    ) -> Batch:
        """See `Memory.sample`."""
        if not len(self):
            raise ValueError("the memory holds nothing that can be sampled yet")
        slots = self._kept.slots[self._rng.integers(0, len(self), batch_size)]
        return self._kept.batch(slots, columns, out)

    def elites(self, count: int, since: int | None = None) -> Batch:
        """The candidates of the `count` best returns, best first, of generations from `since`."""
        return self._kept.batch(self._kept.best(count, since))

    def compare(self) -> NDArray[Any]:
        """`id generation total_reward length` of every candidate held, best first."""
        return self._kept.records[self._kept.order()]

    def __len__(self) -> int:
        """See `Memory.__len__`."""
        return len(self._kept)

    def ready(self, units: int) -> bool:
        """See `Memory.ready`: always, since it is the agent that begins a generation."""
        return True

    rows = property(__len__, doc="Candidates held.")
    capacity = property(lambda self: self._slots, doc="Candidates held once full.")
    full = property(lambda self: len(self) == self._slots, doc="See `Memory.full`.")
    bytes_full = property(lambda self: self._bytes_full, doc="See `Memory.bytes_full`.")
    dropped = property(lambda self: self._tally.dropped, doc="Candidates without a finite return.")

    def usage(self) -> dict[str, int]:
        """See `Memory.usage`."""
        inbox = self._results.usage()[self._results.tier]
        return {self._results.tier: self._kept.usage() + inbox}

    def check(self) -> None:
        """See `Memory.check`."""
        self._results.check()
        self._kept.check()

    def state(self) -> Tree:
        """See `Memory.state`."""
        return {**super().state(), **{name: part.state() for name, part in self._parts.items()}}

    def load(self, state: Tree) -> None:
        """See `Memory.load`."""
        super().load(state)
        for name, part in self._parts.items():
            part.load(state[name])
