"""OpenAI's evolution strategy (Salimans et al. 2017)."""

import numpy as np
from numpy.typing import NDArray

from core.agent import AgentContext
from core.memories.episode_parameter import EpisodeParameterMemory
from core.parameters.generation import Generation
from core.types import Tree
from models.es import ESMLP

from .maths.evolution import Adam, Numbers, centred_ranks, es_gradient
from .options.es import ESOptions
from .search import SearchAgent


class ESAgent(SearchAgent):
    """Antithetic pairs around the mean, centred ranks, weight decay, Adam."""

    def __init__(self, options: ESOptions, context: AgentContext, model: ESMLP) -> None:
        self._options = options
        self._adam = Adam(model.size, options.lr)
        super().__init__(options, context, model)

    def _propose(self, number: int) -> Generation:
        """See `SearchAgent._propose`: each seed twice, with either sign."""
        seeds = self._rng.integers(0, 2**62, self._size // 2)
        signs = np.tile(np.array([1, -1], np.int8), self._size // 2)
        spread = np.full(1, self._options.sigma, np.float32)
        return Generation(number, self.mean32, spread, np.repeat(seeds, 2), signs)

    def _moved(
        self,
        memory: EpisodeParameterMemory,
        returns: NDArray[np.float64],
        finite: NDArray[np.bool_],
    ) -> Numbers:
        """See `SearchAgent._moved`."""
        generation = self._population.generation
        shaped = np.zeros(len(returns))
        shaped[finite] = centred_ranks(returns[finite])
        noise = np.stack([generation.noise(index) for index in range(len(generation))])
        gradient = es_gradient(shaped, generation.signs, noise)
        return self._mean + self._adam.step(gradient - self._options.weight_decay * self._mean)

    def state(self) -> Tree:
        """See `Agent.state`."""
        return {**super().state(), "adam": self._adam.state()}

    def load(self, state: Tree) -> None:
        """See `Agent.load`."""
        super().load(state)
        self._adam.load(state["adam"])
