"""The empty agent: random actions, no learning."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from core.agent import AgentContext, Metrics
from core.memory import Memory
from core.types import ActionSpace, Array, ArraySpec, Columns, Tree

from .acting import FreeActor, random_actions
from .options.empty import EmptyOptions


class RandomActor(FreeActor):
    """Uniform actions, whatever it sees."""

    def __init__(self, actions: ActionSpace, lanes: int, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self._actions = actions
        self._lanes = lanes

    def act(
        self, obs: Columns, first: NDArray[np.bool_], step: int, *, explore: bool
    ) -> tuple[Array, Columns]:
        """See `Actor.act`."""
        return random_actions(self._actions, self._lanes, self._rng), {}

    def take(self, weights: Tree) -> None:
        """See `Actor.take`: there are none."""


class EmptyAgent:
    """Exercises an environment and a memory without learning from them."""

    metrics: tuple[str, ...] = ()

    def __init__(self, options: EmptyOptions, context: AgentContext, model: None) -> None:
        self._actions = context.env.actions
        self.updates = 0
        self.parameters = 0

    def extras(self) -> Mapping[str, ArraySpec]:
        """See `Agent.extras`."""
        return {}

    def actor(
        self, lanes: int, rng: np.random.Generator, *, weights: Tree | None = None
    ) -> RandomActor:
        """See `Agent.actor`."""
        return RandomActor(self._actions, lanes, rng)

    def learn(self, memory: Memory) -> Metrics:
        """See `Agent.learn`: counts the update that it does not make."""
        self.updates += 1
        return {}

    def exploration(self, step: int) -> float | None:
        """See `Agent.exploration`."""
        return 1.0

    def weights(self) -> dict[str, Array]:
        """See `Agent.weights`."""
        return {}

    def state(self) -> Tree:
        """See `Agent.state`."""
        return {"weights": {}, "updates": self.updates}

    def load(self, state: Tree) -> None:
        """See `Agent.load`."""
        self.updates = state["updates"]
