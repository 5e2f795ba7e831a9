"""The cross-entropy method, its elites read from the memory (de Boer et al. 2005)."""

import numpy as np
from numpy.typing import NDArray

from core.agent import AgentContext
from core.memories.episode_parameter import EpisodeParameterMemory
from core.parameters.generation import Generation
from core.schedules import Linear
from core.types import Tree
from models.es import ESMLP

from .maths.evolution import Numbers, refit
from .options.es import CEMOptions
from .search import SearchAgent


class CEMAgent(SearchAgent):
    """Each generation is drawn from a normal distribution around the elites remembered."""

    def __init__(self, options: CEMOptions, context: AgentContext, model: ESMLP) -> None:
        self._options = options
        self._spread = np.full(model.size, options.sigma)
        self._extra = Linear(options.extra_std**2, 0.0, options.extra_generations)
        super().__init__(options, context, model)

    def _propose(self, number: int) -> Generation:
        """See `SearchAgent._propose`: each candidate a seed of its own."""
        seeds = self._rng.integers(0, 2**62, self._size)
        signs = np.ones(self._size, np.int8)
        return Generation(number, self.mean32, self._spread.astype(np.float32), seeds, signs)

    def _moved(
        self,
        memory: EpisodeParameterMemory,
        returns: NDArray[np.float64],
        finite: NDArray[np.bool_],
    ) -> Numbers:
        """See `SearchAgent._moved`."""
        number = self._population.generation.number
        count = int(self._size * self._options.elite_share)
        elites = memory.elites(count, since=number - self._options.elite_generations + 1)
        mean, self._spread = refit(elites["parameters"], self._extra(number))
        return mean

    def state(self) -> Tree:
        """See `Agent.state`."""
        return {**super().state(), "spread": self._spread.copy()}

    def load(self, state: Tree) -> None:
        """See `Agent.load`."""
        super().load(state)
        self._spread = np.array(state["spread"])
