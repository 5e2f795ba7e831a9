"""Between gymnasium's spaces and our specs: flat observations, actions in the agent's unit."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ..errors import UsageError
from ..types import (
    OBS,
    ActionSpace,
    Array,
    ArraySpec,
    Columns,
    ContinuousActions,
    DiscreteActions,
    image_layout,
)

PLAIN = (spaces.Box, spaces.MultiBinary)


def needs_flattening(space: gym.Space[Any]) -> bool:
    """Whether an observation space has parts that are no arrays (indices, sequences, text)."""
    if isinstance(space, spaces.Dict):
        return any(needs_flattening(part) for part in space.spaces.values())
    return not isinstance(space, PLAIN)


def observation_specs(space: gym.Space[Any]) -> dict[str, ArraySpec]:
    """Columns of an observation: `obs`, or `obs.<part>` for each part of a Dict, however deep.

    Raises UsageError for a part whose shape is not fixed, which no flattening gives either.
    """
    parts = _parts(space, OBS)
    if loose := [part for part in parts.values() if not isinstance(part, PLAIN)]:
        raise UsageError(f"its observations {loose[0]} have no fixed shape")
    return {name: ArraySpec(part.shape, part.dtype) for name, part in parts.items()}


def pictures(observations: Mapping[str, ArraySpec]) -> list[str]:
    """What each picture among the columns is taken for: its shape, dtype and layout."""
    return [
        f"{name} is a picture {list(spec.shape)} of {spec.dtype}, {image_layout(spec.shape)}"
        for name, spec in observations.items()
        if spec.is_frame and len(spec.shape) <= 3
    ]


def misread(space: gym.Space[Any]) -> list[str]:
    """What of pictures a network would scale twice, or never: it divides uint8 by 255, no more."""
    lines = []
    for name, part in _parts(space, OBS).items():
        if not isinstance(part, spaces.Box) or not _is_picture(part):
            continue
        greatest = part.high.max()
        if part.dtype == np.uint8 and greatest <= 1:
            lines.append(
                f"warning: {name} holds uint8 up to {greatest}, which networks divide by 255; "
                "observe bool"
            )
        elif part.dtype.kind == "f" and 1 < greatest < np.inf:
            lines.append(
                f"warning: {name} holds {part.dtype} up to {greatest:g}, which no network scales; "
                "observe uint8, or divide it"
            )
    return lines


def _is_picture(space: spaces.Box) -> bool:
    return len(space.shape) <= 3 and ArraySpec(space.shape, space.dtype).is_frame


def _parts(space: gym.Space[Any], name: str) -> dict[str, Any]:
    if not isinstance(space, spaces.Dict):
        return {name: space}
    found: dict[str, Any] = {}
    for key, part in space.spaces.items():
        found |= _parts(part, f"{name}.{key}")
    return found


def flat_observation(obs: Any, name: str = OBS) -> Columns:
    """An observation as its columns; arrays are not copied."""
    if not isinstance(obs, dict):
        return {name: obs}
    found: Columns = {}
    for key, part in obs.items():
        found |= flat_observation(part, f"{name}.{key}")
    return found


def action_space(space: gym.Space[Any]) -> ActionSpace:
    """The actions of a single environment. Raises UsageError for a space that no agent takes."""
    if isinstance(space, spaces.Discrete):
        return DiscreteActions(int(space.n))
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        low, high = space.low.astype(float), space.high.astype(float)
        if np.isfinite(low).all() and np.isfinite(high).all():
            return ContinuousActions(tuple(low.tolist()), tuple(high.tolist()))
        raise UsageError(f"its actions {space} have no bounds; wrap it in RescaleAction")
    raise UsageError(f"its actions {space} are neither Discrete nor a Box of one axis")


class ActionScaler:
    """From the agent's unit to the environment's."""

    def __init__(self, space: gym.Space[Any]) -> None:
        self._start = int(space.start) if isinstance(space, spaces.Discrete) else 0
        self._box = space if isinstance(space, spaces.Box) else None

    def __call__(self, actions: Array) -> Array:
        """Indices shifted to the space's first; numbers of [-1, 1] scaled to its bounds."""
        if self._box is None:
            return actions + self._start if self._start else actions
        low, high = self._box.low, self._box.high
        scaled = low + (np.clip(actions, -1, 1) + 1) * 0.5 * (high - low)
        unit: Array = np.clip(scaled, low, high).astype(self._box.dtype)
        return unit
