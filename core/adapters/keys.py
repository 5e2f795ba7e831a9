"""A memory of transitions from plain keywords, each checked by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from ..errors import UsageError
from ..memories.sequential import SequentialMemory, SequentialOptions
from ..memory import MemoryContext
from ..names import did_you_mean
from ..options import Options, SharedOptions
from ..types import ArraySpec, EnvSpec

SHARED: Final = ("window_length", "n_step", "gamma")
OWN: Final = tuple(SequentialOptions.model_fields)
OTHER: Final = ("seed", "folder", "autoreset")
KEYS: Final = (*OWN, *SHARED, *OTHER)
"""What may be said of a memory, beside how many rows and lanes it has."""


def check_keys(keys: Mapping[str, Any]) -> None:
    """Raises UsageError, with the nearest name, for a key that no memory of transitions has."""
    for key in keys:
        if key not in KEYS:
            raise UsageError(f"no key '{key}'{did_you_mean(key, KEYS)}")


def shared_options(keys: Mapping[str, Any], lanes: int) -> SharedOptions:
    """The keys that say how transitions are read. Raises UsageError where one is wrong."""
    check_keys(keys)
    values = {key: keys[key] for key in SHARED if key in keys} | {"num_envs": lanes}
    shared: SharedOptions = _options(SharedOptions, values)
    return shared


def make_memory(
    env: EnvSpec, shared: SharedOptions, keys: Mapping[str, Any], extras: Mapping[str, ArraySpec]
) -> SequentialMemory:
    """The memory that those keys ask for.

    Without a `seed`, one is drawn from numpy's global generator, which those libraries seed that
    have a seed. `folder` is where a memory of storage disk lies. Raises UsageError for a value that
    is wrong.
    """
    options = _options(SequentialOptions, {key: keys[key] for key in OWN if key in keys})
    seed, folder = keys.get("seed"), keys.get("folder")
    rng = np.random.default_rng(np.random.randint(2**31) if seed is None else seed)
    path = None if folder is None else Path(folder)
    return SequentialMemory(options, MemoryContext(env, shared, rng, extras, folder=path))


def _options(model: type[Options], values: Mapping[str, Any]) -> Any:
    try:
        return model(**values)
    except ValidationError as errors:
        error = errors.errors()[0]
        key = str(error["loc"][0]) if error["loc"] else ""
        said = f"{key} = {values.get(key)!r} is not allowed: " if key else ""
        raise UsageError(said + str(error["msg"]).removeprefix("Value error, ")) from None
