"""Between numpy and torch: batches, weights, optimizer state."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from core.errors import RunFailedError
from core.types import Array, Columns


def to_tensors(columns: Columns, device: torch.device) -> dict[str, Tensor]:
    """Tensors of numpy columns, sharing their memory on a CPU."""
    return {name: torch.from_numpy(array).to(device) for name, array in columns.items()}


def module_arrays(module: nn.Module) -> dict[str, Array]:
    """Copies of a module's parameters and buffers, by name."""
    return {name: tensor.cpu().numpy().copy() for name, tensor in module.state_dict().items()}


def load_module(module: nn.Module, arrays: Mapping[str, Array]) -> None:
    """Copies saved parameters and buffers into a module; raises where a name or shape differs."""
    module.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})


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


def require_finite(numbers: Mapping[str, float], module: nn.Module, step: int) -> None:
    """Raises RunFailedError, naming what is not finite: a weight first, else the number."""
    wrong = [name for name, value in numbers.items() if not np.isfinite(value)]
    if not wrong:
        return
    for name, tensor in module.state_dict().items():
        if not torch.isfinite(tensor).all():
            raise RunFailedError(f"weight '{name}' is not finite at step {step}")
    raise RunFailedError(f"'{wrong[0]}' is not finite at step {step}")
