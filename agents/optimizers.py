"""Optimizers that torch does not have, or not as lean."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from core.types import Array

SLOTS: Final = ("exp_avg", "exp_avg_sq", "step")


class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1) as one fused kernel a step, and nothing around it.

    torch's own spends longer on groups and hooks than such a kernel on a small network.
    """

    def __init__(self, parameters: Sequence[Tensor], lr: float, eps: float = 1e-8) -> None:
        self._parameters = [parameter.detach() for parameter in parameters]
        self._lr, self._eps = lr, eps
        self._means = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in self._parameters]
        # one number for all of them, which are on one device
        self._step = torch.zeros((), dtype=torch.float32, device=self._parameters[0].device)
        self._steps = [self._step] * len(self._parameters)

    def step(self, gradients: list[Tensor]) -> None:
        """One step down these gradients, which lie in memory as the parameters do."""
        self._step.add_(1)
        torch._fused_adam_(
            self._parameters, gradients, self._means, self._squares, [], self._steps,
            lr=self._lr, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=self._eps,
            amsgrad=False, maximize=False,
        )  # fmt: skip

    def state(self) -> dict[str, dict[str, Array]]:
        """Copies of everything that changes, by the parameter's number."""
        slots = zip(self._means, self._squares, self._steps, strict=True)
        return {
            str(number): {
                name: np.array(tensor.cpu().numpy(), order="C")
                for name, tensor in zip(SLOTS, tensors, strict=True)
            }
            for number, tensors in enumerate(slots)
        }

    def load(self, state: Mapping[str, Mapping[str, Array]]) -> None:
        """Takes over a saved state, of the same parameters."""
        slots = zip(self._means, self._squares, self._steps, strict=True)
        for number, tensors in enumerate(slots):
            for name, tensor in zip(SLOTS, tensors, strict=True):
                tensor.copy_(torch.from_numpy(np.array(state[str(number)][name])))


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
