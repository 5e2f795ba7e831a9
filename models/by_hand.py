"""Values and gradients of small networks by hand: a few products, without autograd."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


class PlainLayers(nn.Module):
    """A network that may be nothing but linear layers with a ReLU between each two."""

    @abstractmethod
    def inputs(self, obs: Mapping[str, Tensor]) -> Tensor:
        """What the first layer takes, `[B, D]`, of stacks `[B, W, ...]`."""

    @abstractmethod
    def plain_layers(self) -> Sequence[nn.Linear]:
        """The layers in their order; none where there is more to it."""


class LayersByHand:
    """Linear layers with a ReLU between each two, whose parameters lie in one piece.

    Of a small network, autograd's bookkeeping takes longer than its products. The products are
    the same ones.
    """

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        """The layers' parameters are views of `flat` from now on, and of `gradient` theirs.

        Layers that need no gradient have none.
        """
        own = [tensor for layer in layers for tensor in (layer.weight, layer.bias)]
        self.flat = torch.cat([tensor.detach().reshape(-1) for tensor in own])
        self.gradient = torch.zeros_like(self.flat)
        views, slopes = list(_views(self.flat, own)), list(_views(self.gradient, own))
        for tensor, view, slope in zip(own, views, slopes, strict=True):
            tensor.data = view
            tensor.grad = slope if tensor.requires_grad else None
        self._weights, self._biases = views[0::2], views[1::2]
        self._transposed = [weight.t() for weight in self._weights]
        self._weight_slopes, self._bias_slopes = slopes[0::2], slopes[1::2]
        # views too: what acts by them follows what learns
        self._arrays = [
            (weight.numpy().T, bias.numpy())
            for weight, bias in zip(self._weights, self._biases, strict=True)
            if weight.device.type == "cpu"
        ]
        self._last = len(layers) - 1
        self._seen: list[Tensor] = []

    def values(self, inputs: Tensor) -> Tensor:
        """Values `[B, A]` of inputs `[B, D]`; nothing is kept, as the views ask for no gradient."""
        for place in range(self._last):
            hidden = torch.addmm(self._biases[place], inputs, self._transposed[place])
            inputs = hidden.relu_()
        return torch.addmm(self._biases[-1], inputs, self._transposed[-1])

    @property
    def on_cpu(self) -> bool:
        """Whether numpy reaches the parameters."""
        return bool(self._arrays)

    def array_values(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """The values once more, by numpy: less time for a few rows, and other rounding."""
        for weight, bias in self._arrays[:-1]:
            inputs = inputs @ weight
            inputs += bias
            np.maximum(inputs, 0, out=inputs)
        weight, bias = self._arrays[-1]
        values: NDArray[np.float32] = inputs @ weight + bias
        return values

    def recorded(self, inputs: Tensor) -> Tensor:
        """The same; the next `pull` is of these inputs."""
        self._seen = [inputs]
        for place in range(self._last):
            hidden = torch.addmm(self._biases[place], inputs, self._transposed[place])
            inputs = hidden.relu_()
            self._seen.append(inputs)
        return torch.addmm(self._biases[-1], inputs, self._transposed[-1])

    def pull(self, slope: Tensor) -> Tensor:
        """The gradient `[D]` by all parameters, given that by the values, `[B, A]`."""
        for place in range(self._last, -1, -1):
            torch.mm(slope.t(), self._seen[place], out=self._weight_slopes[place])
            torch.sum(slope, 0, out=self._bias_slopes[place])
            if place:
                back = torch.mm(slope, self._weights[place])
                slope = torch.ops.aten.threshold_backward(back, self._seen[place], 0)
        self._seen = []
        return self.gradient


def _views(flat: Tensor, like: Sequence[Tensor]) -> Iterator[Tensor]:
    """Pieces of one tensor, one after the other, in the shapes of others."""
    begin = 0
    for tensor in like:
        yield flat[begin : begin + tensor.numel()].view(tensor.shape)
        begin += tensor.numel()
