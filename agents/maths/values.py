"""Action values: targets and losses. Tensors in, tensors out; `[B]` and `[B, A]` throughout."""

import torch
from torch import Tensor


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
    best = q_t.amax(1) if select_t is q_t else _chosen(q_t, select_t.argmax(dim=1))
    return (r_t + discount_t * best).detach()


def td_error(q_tm1: Tensor, a_tm1: Tensor, target_t: Tensor) -> Tensor:
    """Target - q(s, a), `[B]`."""
    _shapes(q_tm1, a_tm1, target_t)
    return target_t - _chosen(q_tm1, a_tm1)


def weighted_loss(error: Tensor, weight: Tensor, kind: str) -> Tensor:
    """Mean over the batch of weight * loss(error), a scalar; see `td_loss`."""
    if error.shape != weight.shape or error.dim() != 1:
        raise ValueError(f"errors {tuple(error.shape)} weighted by {tuple(weight.shape)}")
    return torch.dot(weight, td_loss(error, kind)) / len(error)


def td_loss(error: Tensor, kind: str) -> Tensor:
    """The loss of each error, `[B]`.

    `huber` is error^2 / 2 within 1 and |error| - 1/2 beyond (Huber 1964); `mse` is error^2.
    """
    if kind == "huber":
        near = error.clamp(-1, 1)
        return near * (error - 0.5 * near)  # torch's own takes ten times as long on a small batch
    return error.square()


def reducible_loss(loss: Tensor, target_loss: Tensor) -> Tensor:
    """What is left to learn of a loss: max(loss - target_loss, 0), `[B]`.

    `target_loss` is that of the target network's value against the same target. Where the older
    weights do no better, the loss is noise as far as is known, and nothing is left (ReLo, Sujit et
    al. 2023, "Prioritizing Samples in Reinforcement Learning with Reducible Loss").
    """
    if loss.shape != target_loss.shape or loss.dim() != 1:
        raise ValueError(f"losses {tuple(loss.shape)} and {tuple(target_loss.shape)}")
    return (loss - target_loss).clamp(min=0)


def loss_slope(q_tm1: Tensor, a_tm1: Tensor, error: Tensor, weight: Tensor, kind: str) -> Tensor:
    """The derivative `[B, A]` of `weighted_loss` by the values, given their `td_error`.

    -weight * slope(error) / B where the action was taken, else 0: the slope is that of the loss,
    error within [-1, 1] (`huber`) or 2 error (`mse`).
    """
    _shapes(q_tm1, a_tm1, error, weight)
    steep = error.clamp(-1, 1) if kind == "huber" else 2 * error
    slope = weight * steep / -len(error)
    return torch.zeros_like(q_tm1).scatter_(1, a_tm1.unsqueeze(1), slope.unsqueeze(1))


def _chosen(q: Tensor, a: Tensor) -> Tensor:
    """The values `[B]` of the actions taken, of shapes that were looked at."""
    return q.gather(1, a.unsqueeze(1)).squeeze(1)


def _shapes(q: Tensor, *rows: Tensor) -> None:
    """Refuses what would broadcast: `[B] - [B, 1]` is a silent `[B, B]`."""
    size = q.shape[:1]
    if q.dim() != 2 or not all([row.shape == size for row in rows]):  # noqa: C419  faster
        raise ValueError(f"values {tuple(q.shape)} with {[tuple(row.shape) for row in rows]}")
