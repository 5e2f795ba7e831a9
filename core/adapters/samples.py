"""Batches in the form that off-policy algorithms of Stable-Baselines3 and CleanRL read."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..types import NEXT, OBS, Array, Batch


def five(batch: Batch, n_step: int = 1) -> dict[str, Any]:
    """Observations as they come, actions `[B, A]`, dones and rewards `[B, 1]`, by their names.

    `dones` is 1 where nothing follows, and so never after a truncation. Observations of several
    parts are a dict of those. Of more than one step there are `discounts` too.
    """
    size = len(batch["reward"])
    parts: dict[str, Any] = {
        "observations": _parts(batch, OBS),
        "actions": batch["action"].reshape(size, -1),
        "next_observations": _parts(batch, NEXT + OBS),
        "dones": (batch["discount"] == 0).astype(np.float32).reshape(size, 1),
        "rewards": batch["reward"].reshape(size, 1),
    }
    if n_step > 1:
        parts["discounts"] = batch["discount"].reshape(size, 1)
    return parts


def _parts(batch: Batch, name: str) -> Array | dict[str, Array]:
    if name in batch:
        return batch[name]
    return {key[len(name) + 1 :]: batch[key] for key in batch if key.startswith(f"{name}.")}


def tensors(part: Any, tensor: Callable[[Array], Any]) -> Any:
    """Every array of nested dicts as a tensor, as `tensor` makes one."""
    if isinstance(part, dict):
        return {name: tensors(inner, tensor) for name, inner in part.items()}
    return tensor(part)
