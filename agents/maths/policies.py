"""Policy maths of ACER (Wang et al. 2017), for discrete actions. Tensors in, tensors out.

Windows are time first, `[T, S]` and `[T, S, A]`, right-padded: `mask` is False in the padding,
where reward is 0 and discount 1. `discount_t` is gamma, or 0 after a terminal.
"""

import torch
from torch import Tensor

TINY = 1e-6


def taken(values: Tensor, actions: Tensor) -> Tensor:
    """The entries `[T, S]` of the actions taken, out of `[T, S, A]`."""
    if values.shape[:-1] != actions.shape:
        raise ValueError(f"values {tuple(values.shape)} of actions {tuple(actions.shape)}")
    return values.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def importance(policy: Tensor, behaviour: Tensor) -> Tensor:
    """policy / behaviour, entry by entry; both of one shape."""
    if policy.shape != behaviour.shape:
        raise ValueError(f"policy {tuple(policy.shape)}, behaviour {tuple(behaviour.shape)}")
    return policy / (behaviour + TINY)


def retrace(
    reward_t: Tensor,
    discount_t: Tensor,
    q_tm1: Tensor,
    v_tm1: Tensor,
    v_last: Tensor,
    ratio_tm1: Tensor,
    mask: Tensor,
    c: float = 1.0,
) -> Tensor:
    """Retrace targets `[T, S]` for the actions taken (Munos et al. 2016; ACER, equation 5).

    Q_ret_t = r_t + discount_t * (min(c, rho_t+1) * (Q_ret_t+1 - Q_t+1) + V_t+1), from the back,
    where the successor of a window's last step is worth `v_last`, `[S]`. No gradient. `q_tm1` and
    `ratio_tm1` are those of the actions taken. With c = infinity that is plain importance
    sampling; on policy, with c = 1 and exact Q = V, Monte Carlo plus bootstrap.
    """
    shapes = {tuple(x.shape) for x in (reward_t, discount_t, q_tm1, v_tm1, ratio_tm1, mask)}
    if len(shapes) != 1 or v_last.shape != reward_t.shape[1:]:
        raise ValueError(f"windows {shapes} that end in {tuple(v_last.shape)}")
    truncated = ratio_tm1.detach().clamp(max=c)
    q_tm1, v_tm1 = q_tm1.detach(), v_tm1.detach()
    following = v_last.detach()
    targets = torch.empty_like(reward_t)
    for t in range(len(reward_t) - 1, -1, -1):
        targets[t] = reward_t[t] + discount_t[t] * following
        corrected = truncated[t] * (targets[t] - q_tm1[t]) + v_tm1[t]
        following = torch.where(mask[t], corrected, targets[t])
    return targets


def policy_gain(
    policy: Tensor,
    actions: Tensor,
    target: Tensor,
    value: Tensor,
    ratio: Tensor,
    c: float,
) -> Tensor:
    """Truncated part of ACER's gain `[T, S]` (equation 7, first term); ascend it.

    min(c, rho) * (Q_ret - V) * log pi(a), where only log pi carries a gradient.
    """
    weight = ratio.detach().clamp(max=c) * (target - value).detach()
    return weight * torch.log(taken(policy, actions) + TINY)


def bias_correction(policy: Tensor, q: Tensor, value: Tensor, ratios: Tensor, c: float) -> Tensor:
    """What the truncation left out, over all actions, `[T, S]` (equation 7, second term).

    sum over a of [1 - c / rho(a)]+ * pi(a) * (Q(a) - V) * log pi(a), where only log pi carries a
    gradient.
    """
    if not policy.shape == q.shape == ratios.shape:
        raise ValueError(f"policy {tuple(policy.shape)}, q {tuple(q.shape)}")
    weight = (1 - c / (ratios + TINY)).clamp(min=0) * policy
    advantage = q - value.unsqueeze(-1)
    return ((weight * advantage).detach() * torch.log(policy + TINY)).sum(-1)


def entropy(policy: Tensor) -> Tensor:
    """Entropy in nats, `[T, S]`."""
    return -(policy * torch.log(policy + TINY)).sum(-1)


def trust_region(gain_gradient: Tensor, policy: Tensor, average: Tensor, delta: float) -> Tensor:
    """The gain's gradient by the policy's probabilities, kept from leaving the average policy.

    With k the gradient of KL(average || policy) by the probabilities, -average / policy, the
    result z is the nearest to g with k . z <= delta: z = g - max(0, (k . g - delta) / |k|^2) k
    (equation 12; the gain form). All `[..., A]`, a sample a row: delta compares with the gradient
    of one sample's gain, not with its share of a batch's mean.
    """
    if not gain_gradient.shape == policy.shape == average.shape:
        raise ValueError(f"g {tuple(gain_gradient.shape)}, policies {tuple(policy.shape)}")
    k = -average / (policy + TINY)
    excess = (k * gain_gradient).sum(-1, keepdim=True) - delta
    scale = excess.clamp(min=0) / k.square().sum(-1, keepdim=True).clamp(min=TINY)
    return gain_gradient - scale * k


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of the entries that are there."""
    return torch.where(mask, values, torch.zeros_like(values)).sum() / mask.sum().clamp(min=1)
