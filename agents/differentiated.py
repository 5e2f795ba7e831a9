"""Networks that are learnt: their values, and the gradient that an optimizer takes."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from core.types import Array, Columns
from models.by_hand import LayersByHand, PlainLayers
from models.es import flat_inputs

from .tensors import to_tensors

Observations = Mapping[str, Tensor]


class Differentiated(Protocol):
    """A network, and the way to its gradient."""

    module: nn.Module
    """The network itself."""

    calm: Callable[[], AbstractContextManager[Any]]
    """The mode in which a gradient and all around it is worked out."""

    parameters: list[Tensor]
    """What is learnt; gradients come in this order."""

    def values(self, obs: Observations) -> Tensor:
        """Outputs `[B, A]` or `[B, A, N]` of stacks `[B, W, ...]`; none is kept for a gradient."""

    def greedy(self, stacks: Columns) -> NDArray[np.int64]:
        """The action of the greatest value, `[L]`, of stacks `[L, W, ...]` in numpy."""

    def action_values(self, stacks: Columns) -> Array:
        """Values of the actions, `[L, A]`, of stacks `[L, W, ...]` in numpy."""

    def recorded(self, obs: Observations) -> Tensor:
        """The same outputs as `values`; the next `pull` is of these observations."""

    def pull(self, slope: Tensor) -> list[Tensor]:
        """Gradients by the parameters, given that by the outputs, of their shape."""


Expected = Callable[[Tensor], Tensor]
"""From a network's outputs to action values `[B, A]`."""


def _as_they_are(outputs: Tensor) -> Tensor:
    return outputs


class ByAutograd:
    """Any network; see `Differentiated`."""

    calm: Callable[[], AbstractContextManager[Any]] = torch.no_grad

    def __init__(self, network: nn.Module, expected: Expected = _as_they_are) -> None:
        self.module = network
        self._expected = expected
        self.parameters: list[Tensor] = list(network.parameters())
        self._recorded = torch.empty(0)

    @torch.no_grad()
    def values(self, obs: Observations) -> Tensor:
        """See `Differentiated.values`."""
        values: Tensor = self.module(obs)
        return values

    @torch.inference_mode()
    def greedy(self, stacks: Columns) -> NDArray[np.int64]:
        """See `Differentiated.greedy`."""
        outputs = self.module(to_tensors(stacks, self.parameters[0].device))
        return _best(self._expected(outputs))

    @torch.inference_mode()
    def action_values(self, stacks: Columns) -> Array:
        """See `Differentiated.action_values`."""
        outputs = self.module(to_tensors(stacks, self.parameters[0].device))
        return _in_numpy(self._expected(outputs))

    @torch.enable_grad()
    def recorded(self, obs: Observations) -> Tensor:
        """See `Differentiated.recorded`."""
        self._recorded = self.module(obs)
        return self._recorded.detach()

    def pull(self, slope: Tensor) -> list[Tensor]:
        """See `Differentiated.pull`."""
        recorded, self._recorded = self._recorded, torch.empty(0)
        gradients = torch.autograd.grad(recorded, self.parameters, slope)
        pairs = zip(gradients, self.parameters, strict=True)
        return [_laid_out(gradient, parameter) for gradient, parameter in pairs]


def _best(values: Tensor) -> NDArray[np.int64]:
    best: NDArray[np.int64] = values.argmax(dim=1).cpu().numpy()
    return best


def _in_numpy(values: Tensor) -> Array:
    found: Array = values.detach().cpu().numpy()
    return found


def _laid_out(gradient: Tensor, parameter: Tensor) -> Tensor:
    """The gradient, its numbers in the parameter's order: fused optimizers walk both as one."""
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


class ByHand:
    """Plain layers, all of whose parameters are one; see `Differentiated`."""

    calm: Callable[[], AbstractContextManager[Any]] = torch.inference_mode

    def __init__(self, network: PlainLayers) -> None:
        self.module: nn.Module = network
        self._inputs = network.inputs
        self._layers = LayersByHand(network.plain_layers())
        self.parameters = [self._layers.flat]

    def values(self, obs: Observations) -> Tensor:
        """See `Differentiated.values`."""
        return self._layers.values(self._inputs(obs))

    def greedy(self, stacks: Columns) -> NDArray[np.int64]:
        """See `Differentiated.greedy`; by numpy where it reaches the parameters."""
        if self._layers.on_cpu:
            best: NDArray[np.int64] = self._layers.array_values(flat_inputs(stacks)).argmax(axis=1)
            return best
        return _best(self.values(to_tensors(stacks, self.parameters[0].device)))

    def action_values(self, stacks: Columns) -> Array:
        """See `Differentiated.action_values`."""
        return _in_numpy(self.values(to_tensors(stacks, self.parameters[0].device)))

    def recorded(self, obs: Observations) -> Tensor:
        """See `Differentiated.recorded`."""
        return self._layers.recorded(self._inputs(obs))

    def pull(self, slope: Tensor) -> list[Tensor]:
        """See `Differentiated.pull`; valid until the next one."""
        return [self._layers.pull(slope)]


def differentiated(network: nn.Module, expected: Expected = _as_they_are) -> Differentiated:
    """A network by the cheapest way to its gradient; its parameters may move to another place.

    Plain layers give action values, whatever is `expected` of others.
    """
    if isinstance(network, PlainLayers) and network.plain_layers():
        return ByHand(network)
    return ByAutograd(network, expected)
