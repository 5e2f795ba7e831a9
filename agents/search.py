"""Agents that search over parameters: what they have in common."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import cast

import numpy as np
from numpy.typing import NDArray

from core.agent import AgentContext, Metrics
from core.episodes.stacking import FrameStack
from core.memories.episode_parameter import EpisodeParameterMemory
from core.memory import Memory
from core.parameters.generation import Generation, Vector
from core.seeding import generator_state, restore_generator
from core.types import ArraySpec, Tree
from models.es import ESMLP

from .maths.evolution import Numbers
from .options.es import SearchOptions
from .population import EXTRAS, CandidateActor, Normalizer, Population


class SearchAgent(ABC):
    """Proposes generations of candidates, and moves on when all their returns are there."""

    metrics: tuple[str, ...] = (
        "generation", "fitness_mean", "fitness_best", "fitness_std", "step_norm", "dropped", "flat"
    )  # fmt: skip

    def __init__(self, options: SearchOptions, context: AgentContext, model: ESMLP) -> None:
        self._size = options.population
        self._env = context.env
        self._window = context.shared.window_length
        self._say = context.say
        self._policy = model
        self._rng = context.seeds.generator("explore", 1)
        self._mean = model.initial(context.seeds.generator("init", 1)).astype(np.float64)
        normalizer = Normalizer(model.inputs, options.normalize_obs)
        self._population = Population(context.seeds, normalizer, model.inputs)
        self._population.begin(self._propose(0))
        self._announced = False
        self._flat = 0
        self.updates = 0

    @abstractmethod
    def _propose(self, number: int) -> Generation:
        """The next generation, around the mean."""

    @abstractmethod
    def _moved(
        self,
        memory: EpisodeParameterMemory,
        returns: NDArray[np.float64],
        finite: NDArray[np.bool_],
    ) -> Numbers:
        """The new mean `[D]`, from the returns `[P]` of the generation and which are finite."""

    @property
    def mean32(self) -> Vector:
        """The mean in the numbers that policies are made of."""
        return self._mean.astype(np.float32)

    @property
    def parameters(self) -> int:
        """See `Agent.parameters`."""
        return self._policy.size

    def extras(self) -> Mapping[str, ArraySpec]:
        """See `Agent.extras`: who plays."""
        return EXTRAS

    def exploration(self, step: int) -> float | None:
        """See `Agent.exploration`: the candidates explore, their actions do not."""
        return None

    def actor(
        self, lanes: int, rng: np.random.Generator, *, weights: Tree | None = None
    ) -> CandidateActor:
        """See `Agent.actor`."""
        stacks = FrameStack(self._env.observations, lanes, self._window)
        actor = CandidateActor(self._policy, stacks, lanes, self._population)
        if weights is not None:
            actor.take(weights)
        return actor

    def learn(self, memory: Memory) -> Metrics:
        """Moves on once a generation is judged, and begins the next; else there is nothing to do.

        See `Agent.learn`.
        """
        candidates = cast(EpisodeParameterMemory, memory)
        if not self._announced:
            candidates.begin(self._population.generation)
            self._announced = True
        returns = candidates.finished()
        if returns is None:
            return {}
        before = self._mean
        finite = np.isfinite(returns)
        known = returns[finite] if finite.any() else np.zeros(1)
        if np.ptp(known) > 0:
            self._mean = self._moved(candidates, returns, finite)
        else:
            self._note_flat()
        self.updates += 1
        number = self._population.generation.number
        self._population.begin(self._propose(number + 1))
        candidates.begin(self._population.generation)
        return {
            "generation": float(number),
            "fitness_mean": float(known.mean()),
            "fitness_best": float(known.max()),
            "fitness_std": float(known.std()),
            "step_norm": float(np.linalg.norm(self._mean - before)),
            "dropped": float(candidates.dropped),
            "flat": float(self._flat),
        }

    def _note_flat(self) -> None:
        """Counts a generation that says nothing, and says so the first time."""
        self._flat += 1
        if self._flat == 1:
            self._say("a generation whose candidates all earned the same changed nothing")

    def weights(self) -> Tree:
        """See `Agent.weights`."""
        return {"mean": self.mean32, "normalizer": self._population.normalizer.state()}

    def state(self) -> Tree:
        """See `Agent.state`."""
        return {
            "weights": self.weights(),
            "mean": self._mean.copy(),
            "population": self._population.state(),
            "announced": self._announced,
            "flat": self._flat,
            "updates": self.updates,
            "rng": generator_state(self._rng),
        }

    def load(self, state: Tree) -> None:
        """See `Agent.load`; who plays at present is known to the actor, which has to load too."""
        self._mean = np.array(state["mean"])
        self._population.normalizer.load(state["weights"]["normalizer"])
        self._population.load(state["population"])
        self._announced, self._flat = state["announced"], state["flat"]
        self.updates = state["updates"]
        restore_generator(self._rng, state["rng"])
