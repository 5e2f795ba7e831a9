"""The true last observations that gymnasium's vector environments tell beside those of a reset."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..envs.spaces import flat_observation
from ..types import Columns

FINAL: Final = ("final_obs", "final_observation")
"""Where they are told: from gymnasium 1.0 on, and before."""


def put_last(next_obs: Columns, infos: Any) -> tuple[Columns, NDArray[np.bool_]]:
    """`next_obs` `[L, ...]` with those that `infos` holds, and in which lanes it held one.

    `infos` is a dict of all lanes, or a list of a dict each; what is neither tells nothing.
    """
    finals = _finals(infos)
    told = np.array([final is not None for final in finals], np.bool_)
    if not told.any():
        return next_obs, np.zeros(len(next(iter(next_obs.values()))), np.bool_)
    whole = {name: items.copy() for name, items in next_obs.items()}
    for lane in np.flatnonzero(told):
        for name, value in flat_observation(finals[lane]).items():
            whole[name][lane] = np.asarray(value).reshape(whole[name].shape[1:])
    return whole, told


def _finals(infos: Any) -> Any:
    for key in FINAL:
        if isinstance(infos, Mapping):
            if key in infos:
                return infos[key]
        elif isinstance(infos, list | tuple) and any(key in info for info in infos):
            return [info.get(key) for info in infos]
    return ()
