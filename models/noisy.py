"""Noisy layers: exploration that is learnt, by noise on a layer's weights."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  the field's own name for it


class NoisyLinear(nn.Linear):
    """A linear layer whose weights are means, `weight`, with noise of a learnt size.

    Factorised Gaussian noise (Fortunato et al. 2018, section 3): with p inputs the weight
    from i to j is weight + weight_sigma * f(e_i) * f(e_j) and the bias bias + bias_sigma * f(e_j),
    where f(x) = sign(x) * sqrt(|x|). Means begin uniform within 1 / sqrt(p), sigmas at
    `sigma` / sqrt(p). One noise serves all rows of a batch.
    """

    def __init__(self, inputs: int, outputs: int, sigma: float) -> None:
        super().__init__(inputs, outputs)  # torch's own first weights are the paper's means
        size = sigma / inputs**0.5
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), size))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), size))
        self.noise: tuple[Tensor, Tensor] | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs `[B, outputs]` of `[B, inputs]`; without noise, those of the means."""
        means = super().forward(inputs)
        if self.noise is None:
            return means
        into, out = self.noise
        # the noise of a weight is a product: it need not be written out for every one of them
        return means + out * F.linear(inputs * into, self.weight_sigma, self.bias_sigma)


class Noise:
    """The noise in all noisy layers of a network: drawn anew at once, or taken out."""

    def __init__(self, network: nn.Module) -> None:
        self._layers = [layer for layer in network.modules() if isinstance(layer, NoisyLinear)]
        self._sizes = [
            size for layer in self._layers for size in (layer.in_features, layer.out_features)
        ]

    def __bool__(self) -> bool:
        """Whether there are noisy layers."""
        return bool(self._layers)

    def draw(self, rng: np.random.Generator) -> None:
        """Draws noise for all of them; nothing is drawn where there are none."""
        if not self._layers:
            return
        drawn = rng.standard_normal(sum(self._sizes), dtype=np.float32)
        noise = torch.from_numpy(np.copysign(np.sqrt(np.abs(drawn)), drawn))
        pieces = torch.split(noise.to(self._layers[0].weight.device), self._sizes)
        for layer, into, out in zip(self._layers, pieces[::2], pieces[1::2], strict=True):
            layer.noise = (into, out)

    def clear(self) -> None:
        """Leaves the means alone."""
        for layer in self._layers:
            layer.noise = None
