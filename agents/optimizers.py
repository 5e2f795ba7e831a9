"""Optimizers that torch does not have."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class RMSpropInside(torch.optim.Optimizer):
    """RMSprop with epsilon inside the square root, as TensorFlow has it.

    p <- p - lr * g / sqrt(v + eps) with v <- decay * v + (1 - decay) * g^2, v starting at 1. The
    published settings of A3C and ACER mean this form: torch's divides by sqrt(v) + eps, which
    takes far larger steps where gradients are small.
    """

    def __init__(
        self, params: Iterable[Tensor], lr: float, decay: float = 0.99, eps: float = 1e-5
    ) -> None:
        super().__init__(params, {"lr": lr, "decay": decay, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """One step from the gradients that stand."""
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            grads = [p.grad for p in params]
            if not params:
                continue
            squares = [self._square(p) for p in params]
            torch._foreach_mul_(squares, group["decay"])
            torch._foreach_addcmul_(squares, grads, grads, 1 - group["decay"])
            roots = torch._foreach_add(squares, group["eps"])
            torch._foreach_sqrt_(roots)
            torch._foreach_addcdiv_(params, grads, roots, -group["lr"])

    def _square(self, param: Tensor) -> Tensor:
        slots = self.state[param]
        if "square" not in slots:
            slots["square"] = torch.ones_like(param)
        square: Tensor = slots["square"]
        return square
