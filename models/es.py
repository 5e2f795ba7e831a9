"""Policies of numpy, for agents that search over parameters: many candidates at once."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from core.types import Array, DiscreteActions, EnvSpec

from .options import ESMLPOptions


class ESMLP:
    """Fully connected tanh layers; each lane has parameters of its own.

    Parameters are one vector `[D]`: for each layer its weights, row by row, then its biases.
    """

    def __init__(self, options: ESMLPOptions, env: EnvSpec, window: int) -> None:
        inputs = window * sum(spec.size for spec in env.observations.values())
        actions = env.actions
        outputs = actions.n if isinstance(actions, DiscreteActions) else actions.spec.size
        self._discrete = isinstance(actions, DiscreteActions)
        self._layers = list(pairwise([inputs, *options.hidden_sizes, outputs]))
        self.inputs = inputs
        self.size = sum(width * following + following for width, following in self._layers)

    def initial(self, rng: np.random.Generator) -> NDArray[np.float32]:
        """Parameters to begin with: weights of unit rows, the last layer's 100 times smaller."""
        parts = []
        for number, (width, following) in enumerate(self._layers):
            weights = rng.standard_normal((width, following))
            weights /= np.linalg.norm(weights, axis=0, keepdims=True)
            parts += [weights.ravel() * (0.01 if number == len(self._layers) - 1 else 1.0)]
            parts += [np.zeros(following)]
        return np.concatenate(parts).astype(np.float32)

    def act(self, parameters: NDArray[np.float32], inputs: NDArray[np.float32]) -> Array:
        """Actions of `[L, D]` parameters for `[L, inputs]`: `[L]`, or `[L, A]` in [-1, 1]."""
        values = inputs
        begin = 0
        for number, (width, following) in enumerate(self._layers):
            middle, end = begin + width * following, begin + width * following + following
            weights = parameters[:, begin:middle].reshape(-1, width, following)
            values = (values[:, None] @ weights)[:, 0] + parameters[:, middle:end]
            if number < len(self._layers) - 1:
                values = np.tanh(values)
            begin = end
        return values.argmax(axis=1) if self._discrete else np.tanh(values)


def flat_inputs(stacks: Mapping[str, Array]) -> NDArray[np.float32]:
    """Stacks of all columns as one row a lane; bytes are scaled to 0..1."""
    if len(stacks) == 1 and (only := next(iter(stacks.values()))).dtype == np.float32:
        return only.reshape(len(only), -1)
    parts = [
        stack.reshape(len(stack), -1).astype(np.float32) / (255.0 if stack.dtype == np.uint8 else 1)
        for stack in stacks.values()
    ]
    return np.concatenate(parts, axis=1, dtype=np.float32)
