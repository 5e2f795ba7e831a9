"""Options of the networks; importing them loads no torch."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from core.options import Options, option

Sizes = Annotated[
    tuple[Annotated[int, Field(ge=1)], ...],
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
]
"""Widths of layers; a row may say them as a list."""
Dueling = Literal["off", "avg", "max", "naive"]


class ModelOptions(Options):
    """Base of the networks' options."""

    sees: ClassVar[frozenset[str]] = frozenset({"vectors", "frames"})
    """Kinds of observation columns it can take."""


class NoModelOptions(ModelOptions):
    """No network, for agents without one."""


class QNetworkOptions(ModelOptions):
    """What every network of action values has."""

    dueling: Dueling = option(
        "off", help="state value and advantages apart, joined by their mean, their max, or a sum"
    )


class DQNMLPOptions(QNetworkOptions):
    """Fully connected layers over all columns, flattened."""

    hidden_sizes: Sizes = option((256, 256), unit="units", help="widths of the hidden layers")


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
