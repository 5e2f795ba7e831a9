"""Options of the networks; importing them loads no torch."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from core.options import Options, option

Sizes = Annotated[
    tuple[Annotated[int, Field(ge=1)], ...],
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
]
"""Widths of layers; a row may say them as a list."""
Dueling = Literal["off", "avg", "max", "naive"]
Distribution = Literal["none", "c51", "qr"]
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "c51": ("atoms", "v_min", "v_max"),
    "qr": ("quantiles",),
}
"""Keys of one distribution."""


class ModelOptions(Options):
    """Base of the networks' options."""

    sees: ClassVar[frozenset[str]] = frozenset({"vectors", "frames"})
    """Kinds of observation columns it can take."""


class NoModelOptions(ModelOptions):
    """No network, for agents without one."""


class QNetworkOptions(ModelOptions):
    """What every network of action values has."""

    hidden_sizes: Sizes = option((256, 256), unit="units", help="widths of the hidden layers")
    dueling: Dueling = option(
        "off", help="state value and advantages apart, joined by their mean, their max, or a sum"
    )
    streams: Literal["shared", "own"] = option(
        "shared",
        help="dueling: value and advantages share the hidden layers, or have some of their "
        "own behind what pictures go through (Wang et al. 2016)",
    )
    layer_norm: bool = option(
        False, help="normalise what hidden layers give, before their ReLU (Ba et al. 2016)"
    )
    distribution: Distribution = option(
        "none",
        help="of an action's return: none, its mean alone; c51, probabilities of fixed atoms; qr, "
        "its quantiles",
    )
    atoms: int = option(
        51, ge=2, unit="atoms", help="c51: atoms from v_min to v_max, evenly spaced"
    )
    v_min: float = option(-10.0, help="c51: the least return it can tell; less counts as this")
    v_max: float = option(10.0, help="c51: the greatest return it can tell; more counts as this")
    quantiles: int = option(200, ge=1, unit="quantiles", help="qr: quantiles of an action's return")
    noisy: bool = option(
        False, help="linear layers explore by learnt noise on their weights; set eps_start, eps_end"
    )
    noisy_sigma: float = option(
        0.5, ge=0, help="noisy: the noise's size at first, divided by the root of a layer's inputs"
    )

    @property
    def numbers(self) -> int | None:
        """N, the numbers of an action's distribution; None where it has one value and no axis."""
        return {"none": None, "c51": self.atoms, "qr": self.quantiles}[self.distribution]

    @model_validator(mode="after")
    def _only_its_own(self) -> Self:
        for name, keys in KEYS.items():
            for key in keys if name != self.distribution else ():
                if self._changed(key):
                    raise ValueError(f"{key} with distribution {name} alone")
        if not self.noisy and self._changed("noisy_sigma"):
            raise ValueError("noisy_sigma with noisy true alone")
        if self.dueling == "off" and self._changed("streams"):
            raise ValueError("streams with dueling avg, max or naive alone")
        if self.v_min >= self.v_max:
            raise ValueError(f"a v_min below v_max, not {self.v_min:g} and {self.v_max:g}")
        return self

    def _changed(self, key: str) -> bool:
        return bool(getattr(self, key) != type(self).model_fields[key].default)


class DQNMLPOptions(QNetworkOptions):
    """Fully connected layers over all columns, flattened."""


class DQNCNNOptions(QNetworkOptions):
    """Convolutions over one picture, then a hidden layer with the other columns."""

    trunk: Literal["auto", "nature", "minatar"] = option(
        "auto", help="convolutions: nature's three, minatar's one, or by the picture's size"
    )
    hidden_sizes: Sizes = option((512,), unit="units", help="widths of the layers behind them")
    channels_last: bool = option(
        False, help="pictures in memory pixel by pixel: faster on a CPU; other rounding"
    )
    bfloat16: bool = option(
        False, help="products in bfloat16, the weights stay float32: faster, and coarser"
    )


class ACERMLPOptions(ModelOptions):
    """Two towers of tanh layers over all columns: a policy, and action values."""

    hidden_sizes: Sizes = option((64, 64), unit="units", help="widths of each tower's layers")


class ESMLPOptions(ModelOptions):
    """A policy of numpy over all columns, for many candidates at once."""

    hidden_sizes: Sizes = option((), unit="units", help="widths of its tanh layers; none: linear")
