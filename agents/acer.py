"""ACER (Wang et al. 2017): an actor-critic that learns from its newest steps and from replay."""

from collections.abc import Mapping
from copy import deepcopy
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from core.agent import AgentContext, Metrics
from core.episodes.stacking import FrameStack
from core.memory import Memory, Newest
from core.schedules import Linear
from core.seeding import generator_state, restore_generator
from core.types import Array, ArraySpec, Batch, Columns, DiscreteActions, EnvSpec, Tree
from models.acer import ACERMLP

from .acting import StackingActor
from .maths import policies
from .optimizers import RMSpropInside
from .options.acer import ACEROptions
from .tensors import (
    gradient,
    load_module,
    load_optimizer,
    module_arrays,
    move_towards,
    optimizer_arrays,
    parameter_count,
    require_finite,
    to_tensors,
)

POLICY = "policy"


class ACERActor(StackingActor):
    """Draws actions from the policy, and hands on the distribution it drew them from."""

    meaning = "probability"

    def __init__(
        self, network: nn.Module, env: EnvSpec, stacks: FrameStack, rng: np.random.Generator
    ) -> None:
        super().__init__(stacks, rng)
        self._network = network
        self._device = next(network.parameters()).device

    def act(
        self, obs: Columns, first: NDArray[np.bool_], step: int, *, explore: bool
    ) -> tuple[Array, Columns]:
        """See `Actor.act`; without exploration the likeliest action."""
        stacks = self._stacks.push(obs, first)
        policy = self.values_of(stacks)
        actions = draw_actions(policy, self._rng) if explore else policy.argmax(axis=1)
        self._seen = stacks, actions
        return actions, {POLICY: policy} if explore else {}

    @torch.inference_mode()
    def values_of(self, stacks: Columns) -> Array:
        """See `StackingActor.values_of`: the policy."""
        log_policy, _ = self._network(to_tensors(stacks, self._device))
        policy: Array = log_policy.exp().cpu().numpy()
        return policy

    def take(self, weights: Tree) -> None:
        """See `Actor.take`."""
        load_module(self._network, weights)


def draw_actions(policy: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.int64]:
    """An action a row, each with its probability: `[L]` from `[L, A]`."""
    reached = rng.random((len(policy), 1)) < np.cumsum(policy, axis=1, dtype=np.float64)
    # rounding may leave the sum of a row below the number drawn: the last action then
    drawn: NDArray[np.int64] = np.where(
        reached.any(axis=1), reached.argmax(axis=1), policy.shape[1] - 1
    )
    return drawn


class ACERAgent:
    """Learns a policy and action values from trajectories."""

    metrics: tuple[str, ...] = (
        "policy_loss", "entropy", "ratio_mean", "trust_share", "grad_norm", "lr"
    )  # fmt: skip

    def __init__(self, options: ACEROptions, context: AgentContext, model: nn.Module) -> None:
        self._options = options
        self._env = context.env
        self._shared = context.shared
        self._clock = context.clock
        self._rng = context.seeds.generator("sampler", 1)
        self._device = torch.device(context.shared.device)
        self._online = model.to(self._device)
        self._average = cast(ACERMLP, deepcopy(self._online).requires_grad_(False))
        self._optimizer = RMSpropInside(
            self._online.parameters(), options.lr, options.rmsprop_decay, options.rmsprop_eps
        )
        last = 0.0 if options.lr_decay == "linear" else options.lr
        self._lr = Linear(options.lr, last, context.shared.steps)
        self.updates = 0

    @property
    def parameters(self) -> int:
        """See `Agent.parameters`."""
        return parameter_count(self._online)

    def extras(self) -> Mapping[str, ArraySpec]:
        """See `Agent.extras`: the full distribution that each action was drawn from."""
        actions = cast(DiscreteActions, self._env.actions).n
        return {POLICY: ArraySpec((actions,), np.dtype(np.float32))}

    def actor(
        self, lanes: int, rng: np.random.Generator, *, weights: Tree | None = None
    ) -> ACERActor:
        """See `Agent.actor`."""
        network = self._online if weights is None else deepcopy(self._online)
        stacks = FrameStack(self._env.observations, lanes, self._shared.window_length)
        actor = ACERActor(network, self._env, stacks, rng)
        if weights is not None:
            actor.take(weights)
        return actor

    def exploration(self, step: int) -> float | None:
        """See `Agent.exploration`: the policy explores by itself."""
        return None

    def learn(self, memory: Memory) -> Metrics:
        """One on-policy update from the newest steps, then replayed ones, their number drawn.

        The metrics are those of the on-policy update. See `Agent.learn`.
        """
        metrics = self._update(cast(Newest, memory).latest())
        if memory.ready(max(self._options.replay_start, self._shared.batch_size)):
            for _ in range(self._rng.poisson(self._options.replay_ratio)):
                self._update(memory.sample(self._shared.batch_size))
        return metrics

    def _update(self, batch: Batch) -> Metrics:
        data = to_tensors(batch, self._device)
        policy, q, value = self._forward(data)
        actions, mask = data["action"], data["mask"]
        ratios = policies.importance(policy.detach(), data[POLICY])
        ratio, q_taken = policies.taken(ratios, actions), policies.taken(q, actions)
        target = policies.retrace(
            data["reward"], data["discount"], q_taken, value[:-1], value[-1], ratio, mask
        )
        gain = policies.policy_gain(
            policy, actions, target, value[:-1], ratio, self._options.clip_trace
        )
        if self._options.bias_correction:
            c = self._options.clip_trace
            gain = gain + policies.bias_correction(policy, q, value[:-1], ratios, c)
        entropy = policies.entropy(policy)
        gain = gain + self._options.entropy_coef * entropy
        policy_loss, held = self._policy_loss(data, policy, gain)
        q_loss = policies.masked_mean((target - q_taken).square() / 2, mask)
        loss = policy_loss + self._options.q_coef * q_loss
        metrics = {
            "loss": loss.item(),
            "q_mean": policies.masked_mean(q_taken.detach(), mask).item(),
            "policy_loss": policy_loss.item(),
            "entropy": policies.masked_mean(entropy.detach(), mask).item(),
            "ratio_mean": policies.masked_mean(ratio, mask).item(),
            "trust_share": held,
        }
        return {**metrics, **self._descend(loss, metrics, batch)}

    def _forward(self, data: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Policy and action values `[T, S, A]`, and state values `[T + 1, S]` without gradient."""
        steps, windows = data["mask"].shape
        obs = {name: data[name].flatten(0, 1) for name in self._env.observations}
        log_policy, q = self._online(obs)
        policy = log_policy.exp().view(steps + 1, windows, -1)
        q = q.view(steps + 1, windows, -1)
        value = (policy * q).sum(-1).detach()
        return policy[:-1], q[:-1], value

    def _policy_loss(
        self, data: Mapping[str, Tensor], policy: Tensor, gain: Tensor
    ) -> tuple[Tensor, float]:
        """The loss whose descent ascends the gain, and the share of steps that were held back."""
        mask = data["mask"]
        if not self._options.trust_region:
            return -policies.masked_mean(gain, mask), 0.0
        gradient = torch.autograd.grad(gain.sum(), policy)[0]
        obs = {name: data[name][:-1].flatten(0, 1) for name in self._env.observations}
        with torch.no_grad():
            average = self._average.log_policy(obs).exp().view_as(policy)
        kept = policies.trust_region(gradient, policy.detach(), average, self._options.trust_delta)
        held = policies.masked_mean((kept != gradient).any(-1).float(), mask).item()
        return -policies.masked_mean((kept * policy).sum(-1), mask), held

    def _descend(self, loss: Tensor, metrics: Metrics, batch: Batch) -> Metrics:
        """One optimizer step, after which the average policy follows."""
        lr = self._lr(self._clock.step)
        self._optimizer.param_groups[0]["lr"] = lr
        norm = gradient(loss, self._online, self._options.clip_grad)
        numbers = {**metrics, "grad_norm": norm}
        require_finite(numbers, self._online, batch, self._clock.step)
        self._optimizer.step()
        move_towards(
            list(self._average.parameters()),
            list(self._online.parameters()),
            1 - self._options.average_decay,
        )
        self.updates += 1
        return {"grad_norm": norm, "lr": lr}

    def weights(self) -> dict[str, Array]:
        """See `Agent.weights`."""
        return module_arrays(self._online)

    def state(self) -> Tree:
        """See `Agent.state`."""
        return {
            "weights": self.weights(),
            "average": module_arrays(self._average),
            "optimizer": optimizer_arrays(self._optimizer),
            "updates": self.updates,
            "rng": generator_state(self._rng),
        }

    def load(self, state: Tree) -> None:
        """See `Agent.load`."""
        load_module(self._online, state["weights"])
        load_module(self._average, state["average"])
        load_optimizer(self._optimizer, state["optimizer"])
        self.updates = state["updates"]
        restore_generator(self._rng, state["rng"])
