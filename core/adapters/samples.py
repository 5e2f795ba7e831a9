"""Batches in the forms that off-policy algorithms of other libraries read."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..types import NEXT, OBS, Array, Batch


def five(batch: Batch, n_step: int = 1) -> dict[str, Any]:
    """As Stable-Baselines3 and CleanRL have it: actions `[B, A]`, dones and rewards `[B, 1]`.

    Observations stay as they come; those of several parts are a dict of those. `dones` is 1 where
    nothing follows, and so never after a truncation. Of more than one step there are `discounts`.
    """
    size, told = len(batch["reward"]), outcome(batch)
    parts: dict[str, Any] = {
        "observations": _parts(batch, OBS),
        "actions": batch["action"].reshape(size, -1),
        "next_observations": _parts(batch, NEXT + OBS),
        "dones": told["terminated"].astype(np.float32),
        "rewards": told["reward"],
    }
    if n_step > 1:
        parts["discounts"] = batch["discount"].reshape(size, 1)
    return parts


def outcome(batch: Batch) -> dict[str, Array]:
    """What came of the steps, as TorchRL names it, `[B, 1]` each.

    `done` and `terminated` are true where nothing follows; `truncated` is true nowhere, since
    whoever bootstraps from the step after need not know of it.
    """
    ended = (batch["discount"] == 0)[:, None]
    ends = {"done": ended, "terminated": ended, "truncated": np.zeros_like(ended)}
    return {"reward": batch["reward"][:, None], **ends}


def _parts(batch: Batch, name: str) -> Array | dict[str, Array]:
    if name in batch:
        return batch[name]
    return {key[len(name) + 1 :]: batch[key] for key in batch if key.startswith(f"{name}.")}


def tensors(part: Any, tensor: Callable[[Array], Any]) -> Any:
    """Every array of nested dicts as a tensor, as `tensor` makes one."""
    if isinstance(part, dict):
        return {name: tensors(inner, tensor) for name, inner in part.items()}
    return tensor(part)
