"""Networks of action values: `[B, W, ...]` observations in, `[B, A]` values out.

Where an action's return has a distribution, `[B, A, N]`: logits of its atoms, or its quantiles.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from core.errors import UsageError
from core.types import ArraySpec, DiscreteActions, EnvSpec, image_layout

from .by_hand import PlainLayers
from .noisy import NoisyLinear
from .options import DQNCNNOptions, DQNMLPOptions, Dueling, QNetworkOptions

Linear = Callable[[int, int], nn.Module]
"""Makes a linear layer of so many inputs and outputs, or what ends in one."""


def action_count(env: EnvSpec) -> int:
    """How many actions there are to value."""
    return cast(DiscreteActions, env.actions).n


def scaled(frames: Tensor) -> Tensor:
    """Pixels as float32: bytes divided by 255 (the only place where that is done), else as is."""
    return frames.float().div_(255.0) if frames.dtype == torch.uint8 else frames.float()


def linear_layers(options: QNetworkOptions) -> Linear:
    """What the network's linear layers are: noisy, or not."""
    return partial(NoisyLinear, sigma=options.noisy_sigma) if options.noisy else nn.Linear


def hidden_layers(width: int, options: QNetworkOptions) -> nn.Sequential:
    """The hidden layers behind `width` inputs: linear, perhaps normalised, and a ReLU after each.

    Normalised by layer (Ba et al. 2016, "Layer Normalization"), where the options say so.
    """
    linear = linear_layers(options)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise((width, *options.hidden_sizes)):
        norm = [nn.LayerNorm(outputs)] if options.layer_norm else []
        layers += [linear(inputs, outputs), *norm, nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class Head(nn.Module):
    """Features `[B, F]` to action values `[B, A]`, or to N numbers an action, `[B, A, N]`.

    Dueling (Wang et al. 2016, equations 7 to 9): Q = V + A less the advantages' mean (`avg`) or
    greatest (`max`), or plainly V + A (`naive`), which leaves V and A undetermined. Of
    distributions number by number (Hessel et al. 2018, section "The Integrated Agent").
    """

    def __init__(
        self,
        features: int,
        actions: int,
        dueling: Dueling,
        numbers: int | None = None,
        linear: Linear = nn.Linear,
    ) -> None:
        super().__init__()
        self._dueling = dueling
        self._numbers = numbers
        self.advantage = linear(features, actions * (numbers or 1))
        self.value = None if dueling == "off" else linear(features, numbers or 1)

    def forward(self, features: Tensor) -> Tensor:
        """Action values, or numbers of their distributions."""
        advantage: Tensor = self.advantage(features)
        if self._numbers is not None:
            advantage = advantage.reshape(len(features), -1, self._numbers)
        if self.value is None:
            return advantage
        value: Tensor = self.value(features)
        if self._dueling == "avg":
            advantage = advantage - advantage.mean(dim=1, keepdim=True)
        elif self._dueling == "max":
            advantage = advantage - advantage.max(dim=1, keepdim=True).values
        return advantage + (value if self._numbers is None else value.unsqueeze(1))


def body_and_head(width: int, options: QNetworkOptions, env: EnvSpec) -> tuple[nn.Sequential, Head]:
    """What is behind `width` features: the hidden layers, and the head that the options ask for.

    Streams of their own have the hidden layers in the head, once in each (Wang et al. 2016, figure
    1): then the body is empty.
    """
    linear = linear_layers(options)
    last = [width, *options.hidden_sizes][-1]

    def stream(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(*hidden_layers(inputs, options), linear(last, outputs))

    apart = options.streams == "own"
    body = nn.Sequential() if apart else hidden_layers(width, options)
    features, layer = (width, stream) if apart else (last, linear)
    return body, Head(features, action_count(env), options.dueling, options.numbers, layer)


class DQNMLP(PlainLayers):
    """All columns of the stack, flattened, through fully connected layers."""

    def __init__(self, options: DQNMLPOptions, env: EnvSpec, window: int) -> None:
        super().__init__()
        self.returns = options
        self._names = tuple(env.observations)
        width = window * sum(spec.size for spec in env.observations.values())
        self.body, self.head = body_and_head(width, options, env)

    def inputs(self, obs: Mapping[str, Tensor]) -> Tensor:
        """See `PlainLayers.inputs`."""
        parts = [scaled(obs[name]).flatten(1) for name in self._names]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def plain_layers(self) -> list[nn.Linear]:
        """See `PlainLayers.plain_layers`: dueling, noise, norms and distributions are more."""
        own = self.returns
        if own.dueling != "off" or own.noisy or own.layer_norm or own.distribution != "none":
            return []
        return [layer for layer in self.modules() if isinstance(layer, nn.Linear)]

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Action values `[B, A]`, or `[B, A, N]`, of stacks `[B, W, ...]`."""
        values: Tensor = self.head(self.body(self.inputs(obs)))
        return values


NATURE_SIDE = 36
"""Least side of a picture that the three convolutions of Mnih et al. (2015) can take."""
MINATAR_SIDE = 3


def convolutions(channels: int, trunk: str) -> nn.Sequential:
    """The trunk of Mnih et al. (2015), or the single layer of Young and Tian (2019)."""
    if trunk == "minatar":
        return nn.Sequential(nn.Conv2d(channels, 16, 3), nn.ReLU(inplace=True), nn.Flatten())
    return nn.Sequential(
        nn.Conv2d(channels, 32, 8, 4), nn.ReLU(inplace=True),
        nn.Conv2d(32, 64, 4, 2), nn.ReLU(inplace=True),
        nn.Conv2d(64, 64, 3), nn.ReLU(inplace=True),
        nn.Flatten(),
    )  # fmt: skip


def choose_trunk(trunk: str, sides: tuple[int, int]) -> str:
    """The trunk for a picture; raises UsageError where it is too small for the one asked for."""
    if trunk == "auto":
        trunk = "nature" if min(sides) >= NATURE_SIDE else "minatar"
    least = NATURE_SIDE if trunk == "nature" else MINATAR_SIDE
    if min(sides) < least:
        raise UsageError(
            f"a picture of {sides[0]}x{sides[1]} is too small for trunk '{trunk}', which takes "
            f"{least}x{least} and up; set --trunk auto or --model_type dqn-mlp"
        )
    return trunk


class Picture(nn.Module):
    """Stacks of one picture column `[B, W, (C) H W (C)]` as one input `[B, W*C, H, W]`."""

    def __init__(self, spec: ArraySpec, window: int) -> None:
        super().__init__()
        self.layout = image_layout(spec.shape)
        channels = {"HW": 1, "HWC": spec.shape[-1], "CHW": spec.shape[0]}[self.layout]
        rows, columns = spec.shape[1:] if self.layout == "CHW" else spec.shape[:2]
        self.sides = (rows, columns)
        self.channels = channels * window

    def forward(self, stack: Tensor) -> Tensor:
        """Channels first, the stack's frames side by side, oldest first."""
        if self.layout == "HWC":
            stack = stack.movedim(-1, 2)
        return stack.reshape(stack.shape[0], self.channels, *self.sides)


class DQNCNN(nn.Module):
    """One picture through convolutions, joined by what else is observed."""

    def __init__(self, options: DQNCNNOptions, env: EnvSpec, window: int) -> None:
        super().__init__()
        self.returns = options
        name, spec = only_picture(env.observations)
        self._picture_name = name
        self._other_names = tuple(other for other in env.observations if other != name)
        self.picture = Picture(spec, window)
        trunk = choose_trunk(options.trunk, self.picture.sides)
        self.trunk = convolutions(self.picture.channels, trunk)
        with torch.no_grad():
            features = self.trunk(torch.zeros(1, self.picture.channels, *self.picture.sides))
        others = sum(env.observations[other].size for other in self._other_names)
        width = features.shape[1] + window * others
        self.body, self.head = body_and_head(width, options, env)
        self._coarse = options.bfloat16
        order = torch.channels_last if options.channels_last else torch.contiguous_format
        self._order: torch.memory_format = order
        self.trunk.to(memory_format=order)  # type: ignore[call-overload]  # torch's stubs lack it

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Action values `[B, A]`, or `[B, A, N]`, of stacks `[B, W, ...]`."""
        # whoever acts has a few rows: rounding the weights would take longer than their products
        if not self._coarse or torch.is_inference_mode_enabled():
            return self._values(obs)
        with torch.autocast(obs[self._picture_name].device.type, torch.bfloat16):
            return self._values(obs).float()

    def _values(self, obs: Mapping[str, Tensor]) -> Tensor:
        picture = self.picture(obs[self._picture_name]).contiguous(memory_format=self._order)
        stack = scaled(picture)
        others = [scaled(obs[name]).flatten(1) for name in self._other_names]
        features = self.trunk(stack)
        joined = torch.cat([features, *others], dim=1) if others else features
        values: Tensor = self.head(self.body(joined))
        return values


def only_picture(observations: Mapping[str, ArraySpec]) -> tuple[str, ArraySpec]:
    """The one picture among the columns; raises UsageError where there is none, or more.

    A picture has two or three axes; what has more is none.
    """
    pictures = [(name, spec) for name, spec in observations.items() if spec.is_frame]
    if len(pictures) != 1 or len(pictures[0][1].shape) > 3:
        shapes = {name: spec.shape for name, spec in observations.items()}
        raise UsageError(
            f"dqn-cnn takes one picture, and the env observes {shapes}; set --model_type dqn-mlp"
        )
    return pictures[0]
