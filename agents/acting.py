"""Acting: what the agents' actors share."""

import numpy as np
from numpy.typing import NDArray

from core.agent import Restart
from core.types import ActionSpace, Array, DiscreteActions


class FreeActor:
    """An actor of an agent that takes episodes as they come: what its kind has in common."""

    playing: NDArray[np.bool_] | None = None

    def restarts(self, first: NDArray[np.bool_]) -> Restart | None:
        """See `Actor.restarts`: none."""
        return None


def random_actions(actions: ActionSpace, lanes: int, rng: np.random.Generator) -> Array:
    """Uniform actions in the agent's unit: indices `[L]`, or `[L, A]` in [-1, 1]."""
    if isinstance(actions, DiscreteActions):
        return rng.integers(0, actions.n, lanes)
    return rng.uniform(-1, 1, (lanes, *actions.spec.shape)).astype(actions.spec.dtype)


def epsilon_greedy(
    greedy: NDArray[np.int64], actions: DiscreteActions, epsilon: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Each lane's greedy action, or with probability epsilon any; `[L]`.

    Draws the same amount whatever epsilon is, so that a schedule moves no other draw.
    """
    explore = rng.random(len(greedy)) < epsilon
    return np.where(explore, random_actions(actions, len(greedy), rng), greedy)
