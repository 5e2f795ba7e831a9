"""Loops over gymnasium's environments: their spaces and steps, for a `Stream`."""

from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from ..envs.spaces import action_space as own_actions
from ..envs.spaces import flat_observation
from ..types import ArraySpec, Columns, EnvSpec
from .last import put_last
from .stream import Stream


def env_of(observation_space: Any, action_space: Any) -> EnvSpec:
    """Columns and actions of a single environment; an index is an array of one.

    Raises UsageError for actions that are neither Discrete nor a bounded Box of one axis.
    """
    parts = flat_observation(getattr(observation_space, "spaces", observation_space))
    specs = {name: ArraySpec(_shape(part), part.dtype) for name, part in parts.items()}
    return EnvSpec(specs, own_actions(action_space))


def _shape(space: Any) -> tuple[int, ...]:
    return (1,) if isinstance(space, Discrete) else tuple(space.shape)


def tell(
    stream: Stream,
    observations: tuple[Any, Any],
    action: Any,
    reward: Any,
    ends: tuple[Any, Any],
    lanes: Any = None,
    infos: Any = None,
) -> None:
    """A step, cast to what the spaces announce: `obs` and `next_obs`, action and reward `[L, ...]`.

    `ends` are terminated and truncated; what is both is terminated. Last observations that `infos`
    tells go before `next_obs`, and where there is one something ended. See `Stream.add`.
    """
    before, after = (columns_of(stream, obs) for obs in observations)
    after, told = put_last(after, infos)
    terminated, truncated = (np.asarray(end, np.bool_).reshape(-1) for end in ends)
    cut = (truncated | told) & ~terminated
    actions = np.asarray(action).reshape(-1, *stream.env.actions.spec.shape)
    rewards = np.asarray(reward, np.float32).reshape(-1)
    stream.add(before, after, actions, rewards, terminated, cut, lanes)


def columns_of(stream: Stream, obs: Any) -> Columns:
    """Observations of all lanes, `[L, ...]`, in the dtypes that were announced."""
    items, specs = flat_observation(obs), stream.env.observations
    if items.keys() != specs.keys():
        raise ValueError(f"observations are {sorted(items)}, not {sorted(specs)}")
    return {n: np.asarray(items[n], k.dtype).reshape(-1, *k.shape) for n, k in specs.items()}
