"""Distributions of an action's return: targets and losses. Tensors in, tensors out.

N numbers an action, `[B, A, N]`, or of one action `[B, N]`: probabilities or logits of atoms at a
support `[N]` that is evenly spaced (C51, Bellemare et al. 2017), or quantiles (QR-DQN, Dabney et
al. 2018). `discount_t` is 0 after a terminal, and gamma^m after m summed rewards.
"""

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  the field's own name for it


def of_action(numbers: Tensor, actions: Tensor) -> Tensor:
    """The numbers `[B, N]` of an action each, `[B]`, out of `[B, A, N]`."""
    if numbers.dim() != 3 or actions.shape != numbers.shape[:1]:
        raise ValueError(f"numbers {tuple(numbers.shape)} of actions {tuple(actions.shape)}")
    return numbers[torch.arange(len(actions), device=actions.device), actions]


def at_action(numbers: Tensor, actions: Tensor, count: int) -> Tensor:
    """`[B, A, N]` with `numbers` `[B, N]` at an action each, `[B]`, and 0 at the rest."""
    if numbers.dim() != 2 or actions.shape != numbers.shape[:1]:
        raise ValueError(f"numbers {tuple(numbers.shape)} of actions {tuple(actions.shape)}")
    placed = numbers.new_zeros(len(numbers), count, numbers.shape[1])
    placed[torch.arange(len(actions), device=actions.device), actions] = numbers
    return placed


def categorical_target(r_t: Tensor, discount_t: Tensor, p_t: Tensor, support: Tensor) -> Tensor:
    """Probabilities `[B, N]` of r_t + discount_t * Z on the support, where Z has p_t `[B, N]`.

    Bellemare et al. (2017), algorithm 1: what falls between two atoms is shared by nearness, what
    falls beyond the ends counts as an end. On an atom, all of it is the atom's. No gradient.
    """
    _rows(p_t, r_t, discount_t)
    if support.shape != p_t.shape[1:] or len(support) < 2:
        raise ValueError(f"probabilities {tuple(p_t.shape)} on a support {tuple(support.shape)}")
    low, high = support[0], support[-1]
    moved = r_t.unsqueeze(1) + discount_t.unsqueeze(1) * support
    at = (torch.maximum(torch.minimum(moved, high), low) - low) * (
        (len(support) - 1) / (high - low)
    )
    atoms = torch.arange(len(support), device=at.device, dtype=at.dtype)
    # [B, N, N]: what atom i has of the mass at j; a sum in a fixed order, unlike a scatter's
    share = (1 - (at.unsqueeze(1) - atoms.unsqueeze(1)).abs()).clamp_(min=0)
    return torch.bmm(share, p_t.unsqueeze(2)).squeeze(2).detach()


def cross_entropy(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """-sum target * log softmax(logits), `[B]`, and its derivative by the logits, `[B, N]`.

    Both arguments are `[B, N]`; the target's probabilities sum to 1. Bellemare et al. (2017),
    section 4: the part of the divergence from the target that learning moves.
    """
    _alike(logits, target)
    log_p = torch.log_softmax(logits, 1)
    return -(target * log_p).sum(1), log_p.exp() - target


def entropy(probabilities: Tensor) -> Tensor:
    """Entropy in nats, `[B]` of `[B, N]`; cross-entropy less the target's is the divergence."""
    return -torch.xlogy(probabilities, probabilities).sum(1)


def quantile_target(r_t: Tensor, discount_t: Tensor, theta_t: Tensor) -> Tensor:
    """Quantiles r_t + discount_t * theta_t, `[B, N]`; no gradient."""
    _rows(theta_t, r_t, discount_t)
    return (r_t.unsqueeze(1) + discount_t.unsqueeze(1) * theta_t).detach()


def quantile_huber(theta: Tensor, target: Tensor, kappa: float) -> tuple[Tensor, Tensor]:
    """The quantile Huber loss `[B]` of quantiles `[B, N]`, and its derivative by them, `[B, N]`.

    sum over i of the mean over j of |tau_i - 1{u < 0}| * L(u) / kappa, with u = target_j - theta_i,
    the midpoints tau_i = (i + 1/2) / N and L(u) = u^2 / 2 within kappa, kappa * (|u| - kappa / 2)
    beyond (Dabney et al. 2018, equations 9 and 10, algorithm 1; divided by kappa as in their IQN of
    the same year, so that kappa 0 is the quantile loss, |tau_i - 1{u < 0}| * |u|).
    """
    if theta.dim() != 2 or target.dim() != 2 or len(theta) != len(target):
        raise ValueError(f"quantiles {tuple(theta.shape)} and a target {tuple(target.shape)}")
    count = theta.shape[1]
    tau = (torch.arange(count, device=theta.device, dtype=theta.dtype) + 0.5) / count
    u = target.unsqueeze(1) - theta.unsqueeze(2)
    tilt = (tau.unsqueeze(1) - (u < 0).to(u.dtype)).abs_()
    if kappa == 0:
        return (tilt * u.abs()).mean(2).sum(1), -(tilt * u.sign()).mean(2)
    size = F.huber_loss(u, torch.zeros_like(u), reduction="none", delta=kappa)
    slope = tilt * u.clamp(-kappa, kappa)
    return (tilt * size).mean(2).sum(1) / kappa, slope.mean(2) / -kappa


def _alike(one: Tensor, other: Tensor) -> None:
    if one.dim() != 2 or one.shape != other.shape:
        raise ValueError(f"distributions {tuple(one.shape)} and {tuple(other.shape)}")


def _rows(numbers: Tensor, *rows: Tensor) -> None:
    """Refuses what would broadcast."""
    if numbers.dim() != 2 or any(row.shape != numbers.shape[:1] for row in rows):
        shapes = [tuple(row.shape) for row in rows]
        raise ValueError(f"distributions {tuple(numbers.shape)} with {shapes}")
