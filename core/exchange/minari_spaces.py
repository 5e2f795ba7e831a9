"""gymnasium's spaces of our columns, and observations nested as those say."""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import numpy as np

from ..types import OBS, ArraySpec, Columns, DiscreteActions
from .space import Space

if TYPE_CHECKING:
    from gymnasium import Space as GymSpace


def action_space(space: Space) -> "GymSpace[Any]":
    """The space of what is stored: indices from 0, or [-1, 1]."""
    from gymnasium import spaces

    if isinstance(space.actions, DiscreteActions):
        return spaces.Discrete(space.actions.n)
    return spaces.Box(-1.0, 1.0, space.actions.spec.shape, np.float32)


def observation_space(space: Space, observed: "GymSpace[Any] | None") -> "GymSpace[Any]":
    """The environment's own, if that is what the columns are of, or one that any of them fits.

    The keys of a Dict are quoted, since in HDF5 a slash begins a group.
    """
    from gymnasium import spaces

    from ..envs.spaces import observation_specs

    if observed is not None and observation_specs(observed) == dict(space.observations):
        return _quoted(observed)
    boxes = {name: _box(spec) for name, spec in space.observations.items()}
    if list(boxes) == [OBS]:
        return boxes[OBS]
    keys = {quote(name.removeprefix(f"{OBS}."), safe=""): box for name, box in boxes.items()}
    return spaces.Dict(keys)


def _quoted(observed: "GymSpace[Any]") -> "GymSpace[Any]":
    from gymnasium import spaces

    if not isinstance(observed, spaces.Dict):
        return observed
    parts = observed.spaces.items()
    return spaces.Dict({quote(str(key), safe=""): _quoted(part) for key, part in parts})


def _box(spec: ArraySpec) -> "GymSpace[Any]":
    """Every value of a dtype."""
    from gymnasium import spaces

    low: Any
    high: Any
    if spec.dtype.kind == "f":
        low, high = -np.inf, np.inf
    elif spec.dtype.kind == "b":
        low, high = 0, 1
    else:
        low, high = np.iinfo(spec.dtype).min, np.iinfo(spec.dtype).max
    return spaces.Box(low, high, spec.shape, spec.dtype.type)


def nested(columns: Columns, shape: "GymSpace[Any]", name: str = OBS) -> Any:
    """An observation's columns, as the space nests them."""
    from gymnasium import spaces

    if not isinstance(shape, spaces.Dict):
        return columns[name]
    parts = shape.spaces.items()
    return {key: nested(columns, part, f"{name}.{unquote(key)}") for key, part in parts}


def flat(observation: Any, name: str = OBS) -> Columns:
    """The columns that `nested` nested."""
    if not isinstance(observation, dict):
        return {name: observation}
    found: Columns = {}
    for key, part in observation.items():
        found |= flat(part, f"{name}.{unquote(key)}")
    return found
