"""Networks of a policy and of action values: `[N, W, ...]` in, `[N, A]` twice out."""

from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor, nn

from core.types import EnvSpec

from .dqn import action_count, scaled
from .options import ACERMLPOptions


class ACERMLP(nn.Module):
    """Two towers of fully connected layers over all columns: policy, and action values."""

    def __init__(self, options: ACERMLPOptions, env: EnvSpec, window: int) -> None:
        super().__init__()
        self._names = tuple(env.observations)
        width = window * sum(spec.size for spec in env.observations.values())
        sizes = [width, *options.hidden_sizes]
        self.policy = tower(sizes, action_count(env), last_gain=0.01)
        self.values = tower(sizes, action_count(env), last_gain=1.0)

    def log_policy(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Log-probabilities `[N, A]`."""
        return torch.log_softmax(self.policy(self._flat(obs)), dim=1)

    def _flat(self, obs: Mapping[str, Tensor]) -> Tensor:
        parts = [scaled(obs[name]).flatten(1) for name in self._names]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def forward(self, obs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Log-probabilities and action values, `[N, A]` each."""
        flat = self._flat(obs)
        return torch.log_softmax(self.policy(flat), dim=1), self.values(flat)


def tower(sizes: list[int], outputs: int, last_gain: float) -> nn.Sequential:
    """Tanh layers with orthogonal weights, and a linear layer whose weights are scaled."""
    layers: list[nn.Module] = []
    widths = [*sizes, outputs]
    for number, (width, following) in enumerate(pairwise(widths)):
        last = number == len(sizes) - 1
        linear = nn.Linear(width, following)
        nn.init.orthogonal_(linear.weight, gain=last_gain if last else 2**0.5)
        nn.init.zeros_(linear.bias)
        layers += [linear] if last else [linear, nn.Tanh()]
    return nn.Sequential(*layers)
