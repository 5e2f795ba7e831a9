"""Between numpy and torch: batches, weights, optimizer state."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from core.errors import RunFailedError
from core.types import Array, Columns


def to_tensors(columns: Columns, device: torch.device) -> dict[str, Tensor]:
    """Tensors of numpy columns, sharing their memory on a CPU.

    To a GPU they go by way of pinned memory, from which it copies while the CPU goes on.
    """
    tensors = {name: torch.from_numpy(array) for name, array in columns.items()}
    if device.type != "cuda":
        return {name: tensor.to(device) for name, tensor in tensors.items()}
    return {
        name: tensor.pin_memory().to(device, non_blocking=True) for name, tensor in tensors.items()
    }


def module_arrays(module: nn.Module) -> dict[str, Array]:
    """Copies of a module's parameters and buffers, by name."""
    return {name: tensor.cpu().numpy().copy() for name, tensor in module.state_dict().items()}


def load_module(module: nn.Module, arrays: Mapping[str, Array]) -> None:
    """Copies saved parameters and buffers into a module; raises where a name or shape differs."""
    module.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})


def parameter_count(module: nn.Module) -> int:
    """How many numbers a module learns."""
    return sum(parameter.numel() for parameter in module.parameters())


def optimizer_arrays(optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Array]]:
    """Copies of an optimizer's per-parameter state, by the parameter's number."""
    saved = optimizer.state_dict()["state"]
    return {
        str(number): {name: np.asarray(value.cpu()).copy() for name, value in slots.items()}
        for number, slots in saved.items()
    }


def load_optimizer(
    optimizer: torch.optim.Optimizer, arrays: Mapping[str, Mapping[str, Array]]
) -> None:
    """Copies saved per-parameter state into an optimizer of the same parameters."""
    saved: dict[str, Any] = optimizer.state_dict()
    saved["state"] = {
        int(number): {name: torch.from_numpy(np.array(value)) for name, value in slots.items()}
        for number, slots in arrays.items()
    }
    optimizer.load_state_dict(saved)


def within(gradients: list[Tensor], limit: float) -> tuple[list[Tensor], float]:
    """Gradients scaled down to norm `limit` where theirs exceeds it, and their norm before.

    0 lets any norm be. Those given are not changed: two of them may be one tensor.
    """
    norms = torch._foreach_norm(gradients)
    norm = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))
    length = norm.item()
    if limit and length > limit:  # a norm that is no number is refused elsewhere
        gradients = list(torch._foreach_mul(gradients, limit / (length + 1e-6)))
    return gradients, length


def gradient(loss: Tensor, module: nn.Module, limit: float) -> float:
    """Sets the module's gradients to those of the loss, and gives their norm before clipping.

    They are scaled down to norm `limit` where they exceed it; 0 lets any norm be.
    """
    module.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    norm = nn.utils.clip_grad_norm_(module.parameters(), limit or float("inf"))
    return float(norm)


@torch.no_grad()
def move_towards(followers: list[Tensor], leaders: list[Tensor], share: float) -> None:
    """follower <- follower + share * (leader - follower), one by one, in place."""
    torch._foreach_lerp_(followers, leaders, share)


def require_finite(
    numbers: Mapping[str, float], module: nn.Module, batch: Columns, step: int
) -> None:
    """Raises RunFailedError where a number is not finite, naming what brought that about.

    That is a weight, else a column of the batch, else the number itself.
    """
    wrong = [name for name, value in numbers.items() if not math.isfinite(value)]
    if not wrong:
        return
    for name, tensor in module.state_dict().items():
        if not torch.isfinite(tensor).all():
            raise RunFailedError(f"weight '{name}' is not finite at step {step}")
    for name, array in batch.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise RunFailedError(f"'{name}' of the batch is not finite at step {step}")
    raise RunFailedError(f"'{wrong[0]}' is not finite at step {step}")
