"""Action values: targets and losses. Tensors in, tensors out; `[B]` and `[B, A]` throughout."""

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  the field's own name for it


def chosen(q_tm1: Tensor, a_tm1: Tensor) -> Tensor:
    """The values `[B]` of the actions taken, out of `[B, A]`."""
    _shapes(q_tm1, a_tm1)
    return q_tm1.gather(1, a_tm1.unsqueeze(1)).squeeze(1)


def clipped(r_t: Tensor, bound: float) -> Tensor:
    """Rewards within [-bound, bound], `[B]`; 0 leaves them as they are.

    With bound 1 and whole rewards that is their sign, as in Mnih et al. (2015).
    """
    return r_t.clamp(-bound, bound) if bound else r_t


def q_target(r_t: Tensor, discount_t: Tensor, q_t: Tensor, select_t: Tensor) -> Tensor:
    """r_t + discount_t * q_t(argmax of select_t), all `[B]` or `[B, A]`; no gradient.

    With `select_t = q_t` that is the target of Q-learning (Watkins 1989; Mnih et al. 2015), with
    the online network's values that of double Q-learning (van Hasselt et al. 2016, equation 4).
    `discount_t` is 0 after a terminal, and gamma^m after m summed rewards.
    """
    _shapes(q_t, r_t, discount_t)
    if select_t.shape != q_t.shape:
        raise ValueError(f"values {tuple(q_t.shape)} chosen by {tuple(select_t.shape)}")
    return (r_t + discount_t * chosen(q_t, select_t.argmax(dim=1))).detach()


def td_error(q_tm1: Tensor, a_tm1: Tensor, target_t: Tensor) -> Tensor:
    """Target - q(s, a), `[B]`."""
    _shapes(q_tm1, a_tm1, target_t)
    return target_t - chosen(q_tm1, a_tm1)


def weighted_loss(error: Tensor, weight: Tensor, kind: str) -> Tensor:
    """Mean over the batch of weight * loss(error), a scalar.

    `huber` is error^2 / 2 within 1 and |error| - 1/2 beyond (Huber 1964); `mse` is error^2.
    """
    if error.shape != weight.shape or error.dim() != 1:
        raise ValueError(f"errors {tuple(error.shape)} weighted by {tuple(weight.shape)}")
    zero = torch.zeros_like(error)
    if kind == "huber":
        return (weight * F.smooth_l1_loss(error, zero, reduction="none")).mean()
    return (weight * error.square()).mean()


def _shapes(q: Tensor, *rows: Tensor) -> None:
    """Refuses what would broadcast: `[B] - [B, 1]` is a silent `[B, B]`."""
    if q.dim() != 2 or any(row.shape != q.shape[:1] for row in rows):
        raise ValueError(f"values {tuple(q.shape)} with {[tuple(row.shape) for row in rows]}")
