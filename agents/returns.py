"""What a network tells of an action's return, and what it has to learn of it."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from core.errors import UsageError
from models.options import QNetworkOptions

from .maths.distributions import (
    at_action,
    categorical_target,
    cross_entropy,
    entropy,
    of_action,
    quantile_huber,
    quantile_target,
)
from .maths.values import loss_slope, q_target, td_error, td_loss, weighted_loss
from .options.dqn import DQNOptions


class Lesson(NamedTuple):
    """What a batch says of a network's outputs."""

    q_tm1: Tensor
    """Action values `[B, A]`."""
    error: Tensor
    """Temporal differences of those of the actions taken, `[B]`."""
    loss: Tensor
    """A scalar: the weighted mean over the batch."""
    slope: Tensor
    """The loss's derivative by the outputs, of their shape."""
    surprise: Tensor
    """How far off the outputs were, `[B]`: what a prioritized memory is told."""


class Returns(Protocol):
    """How a network's outputs, `[B, A]` or `[B, A, N]`, stand for action values."""

    def expected(self, outputs: Tensor) -> Tensor:
        """Action values `[B, A]`."""

    def target(
        self, r_t: Tensor, discount_t: Tensor, outputs_t: Tensor, select_t: Tensor
    ) -> Tensor:
        """What the actions taken were worth, `[B]` or `[B, N]`, by the following outputs.

        The following action is the one of the greatest value in `select_t`, `[B, A]`.
        """

    def lesson(self, outputs: Tensor, a_tm1: Tensor, target: Tensor, weight: Tensor) -> Lesson:
        """What there is to learn of a target; `a_tm1` and `weight` are `[B]`."""

    def losses(self, outputs: Tensor, a_tm1: Tensor, target: Tensor) -> Tensor:
        """The loss of each unit, unweighted, `[B]`."""


class Mean:
    """The mean of the return alone: outputs `[B, A]` are action values. See `Returns`."""

    def __init__(self, loss: str) -> None:
        self._loss = loss

    def expected(self, outputs: Tensor) -> Tensor:
        """See `Returns.expected`."""
        return outputs

    def target(
        self, r_t: Tensor, discount_t: Tensor, outputs_t: Tensor, select_t: Tensor
    ) -> Tensor:
        """See `Returns.target`."""
        return q_target(r_t, discount_t, outputs_t, select_t)

    def lesson(self, outputs: Tensor, a_tm1: Tensor, target: Tensor, weight: Tensor) -> Lesson:
        """See `Returns.lesson`; surprise is the temporal difference (Schaul et al. 2016)."""
        error = td_error(outputs, a_tm1, target)
        loss = weighted_loss(error, weight, self._loss)
        slope = loss_slope(outputs, a_tm1, error, weight, self._loss)
        return Lesson(outputs, error, loss, slope, error)

    def losses(self, outputs: Tensor, a_tm1: Tensor, target: Tensor) -> Tensor:
        """See `Returns.losses`."""
        return td_loss(td_error(outputs, a_tm1, target), self._loss)


class Categorical:
    """Logits of atoms from v_min to v_max (C51, Bellemare et al. 2017). See `Returns`."""

    def __init__(self, support: Tensor) -> None:
        self._support = support

    def expected(self, outputs: Tensor) -> Tensor:
        """See `Returns.expected`."""
        return torch.softmax(outputs, 2) @ self._support

    def target(
        self, r_t: Tensor, discount_t: Tensor, outputs_t: Tensor, select_t: Tensor
    ) -> Tensor:
        """See `Returns.target`: probabilities of the atoms."""
        p_t = torch.softmax(of_action(outputs_t, select_t.argmax(1)), 1)
        return categorical_target(r_t, discount_t, p_t, self._support)

    def lesson(self, outputs: Tensor, a_tm1: Tensor, target: Tensor, weight: Tensor) -> Lesson:
        """See `Returns.lesson`; surprise is the divergence (Hessel et al. 2018)."""
        losses, slopes = cross_entropy(of_action(outputs, a_tm1), target)
        surprise = (losses - entropy(target)).clamp(min=0)  # rounding takes it below
        q_tm1 = self.expected(outputs)
        error = td_error(q_tm1, a_tm1, target @ self._support)
        return _lesson(q_tm1, a_tm1, error, losses, slopes, weight, surprise)

    def losses(self, outputs: Tensor, a_tm1: Tensor, target: Tensor) -> Tensor:
        """See `Returns.losses`."""
        return cross_entropy(of_action(outputs, a_tm1), target)[0]


class Quantiles:
    """Quantiles of the return (QR-DQN, Dabney et al. 2018). See `Returns`."""

    def __init__(self, kappa: float) -> None:
        self._kappa = kappa

    def expected(self, outputs: Tensor) -> Tensor:
        """See `Returns.expected`."""
        return outputs.mean(2)

    def target(
        self, r_t: Tensor, discount_t: Tensor, outputs_t: Tensor, select_t: Tensor
    ) -> Tensor:
        """See `Returns.target`: quantiles."""
        return quantile_target(r_t, discount_t, of_action(outputs_t, select_t.argmax(1)))

    def lesson(self, outputs: Tensor, a_tm1: Tensor, target: Tensor, weight: Tensor) -> Lesson:
        """See `Returns.lesson`; surprise is the loss, as Dopamine has it (Castro et al. 2018)."""
        losses, slopes = quantile_huber(of_action(outputs, a_tm1), target, self._kappa)
        q_tm1 = self.expected(outputs)
        error = td_error(q_tm1, a_tm1, target.mean(1))
        return _lesson(q_tm1, a_tm1, error, losses, slopes, weight, losses)

    def losses(self, outputs: Tensor, a_tm1: Tensor, target: Tensor) -> Tensor:
        """See `Returns.losses`."""
        return quantile_huber(of_action(outputs, a_tm1), target, self._kappa)[0]


Told = QNetworkOptions | None
"""What a network says of its outputs by its `returns`; None where it says nothing."""


def returns_of(told: Told, options: DQNOptions, device: torch.device) -> Returns:
    """How the outputs of a network are to be read; one that says nothing gives action values.

    Raises UsageError where the agent's keys and the network's contradict each other.
    """
    if options.kappa != 1.0 and (told is None or told.distribution != "qr"):
        raise UsageError(f"kappa {options.kappa:g} with distribution qr alone")
    if told is None or told.distribution == "none":
        return Mean(options.loss)
    if told.distribution == "qr":
        return Quantiles(options.kappa)
    return Categorical(torch.linspace(told.v_min, told.v_max, told.atoms, device=device))


def _lesson(
    q_tm1: Tensor,
    a_tm1: Tensor,
    error: Tensor,
    losses: Tensor,
    slopes: Tensor,
    weight: Tensor,
    surprise: Tensor,
) -> Lesson:
    """The weighted mean of losses `[B]`, whose derivatives are slopes `[B, N]`."""
    if weight.shape != losses.shape:
        raise ValueError(f"losses {tuple(losses.shape)} weighted by {tuple(weight.shape)}")
    share = (weight / len(losses)).unsqueeze(1)
    slope = at_action(slopes * share, a_tm1, q_tm1.shape[1])
    return Lesson(q_tm1, error, (weight * losses).mean(), slope, surprise)
