"""Actions that arrive as numbers, as indices, or one-hot: what a memory holds of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import UsageError
from ..types import OBS, ActionSpace, Array, ArraySpec, ContinuousActions, DiscreteActions, EnvSpec


@dataclass(frozen=True)
class Form:
    """How actions are told, and the space that they are of."""

    space: ActionSpace
    one_hot: Array | None = None
    """A row for each index `[A, A]`, where it is told as one."""

    def held(self, actions: Array) -> Array:
        """As a memory holds them: numbers `[B, A]`, or indices `[B]`."""
        indices: Array = actions if self.one_hot is None else actions.argmax(-1)
        return indices

    def told(self, actions: Array) -> Array:
        """What a memory held, as it had been told."""
        return actions if self.one_hot is None else self.one_hot[actions]


def env_like(obs: Array, action: Array, count: int | None) -> tuple[EnvSpec, Form]:
    """What gives such an observation and takes such an action, each a single one; and its form.

    `count` is how many actions there are; with None they are numbers from -1 to 1. Raises
    UsageError for an action that is neither an index nor one-hot of that many.
    """
    form = _form(action, count)
    return EnvSpec({OBS: ArraySpec(obs.shape, obs.dtype)}, form.space), form


def _form(action: Array, count: int | None) -> Form:
    if count is None:
        return Form(ContinuousActions((-1.0,) * action.size, (1.0,) * action.size))
    if action.shape not in ((), (count,)):
        raise UsageError(
            f"an action of shape {list(action.shape)} is neither an index nor one-hot of {count}; "
            "set actions to how many there are, or to None for numbers"
        )
    rows: Any = np.eye(count, dtype=action.dtype) if action.ndim else None
    return Form(DiscreteActions(count), rows)
