"""DQN (Mnih et al. 2015), double (van Hasselt et al. 2016), n-step, with the network's dueling."""

from collections.abc import Mapping
from copy import deepcopy
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from core.agent import AgentContext, Metrics
from core.episodes.stacking import FrameStack
from core.memory import Memory
from core.schedules import Every, Linear
from core.types import NEXT, Array, ArraySpec, Batch, Columns, DiscreteActions, EnvSpec, Tree

from .acting import StackingActor, epsilon_greedy
from .maths.values import clipped, q_target, td_error, weighted_loss
from .options.dqn import DQNOptions
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


class Exploration:
    """Random until learning may start, then a share that falls linearly with the clock."""

    def __init__(self, options: DQNOptions, learn_start: int) -> None:
        self._learn_start = learn_start
        self._share = Linear(options.eps_start, options.eps_end, options.eps_decay)

    def __call__(self, step: int) -> float:
        """Share of random actions at a step."""
        return 1.0 if step < self._learn_start else self._share(step)


class DQNActor(StackingActor):
    """Epsilon-greedy in some lanes, over its own stacks of their frames."""

    def __init__(
        self,
        network: nn.Module,
        env: EnvSpec,
        stacks: FrameStack,
        exploration: Exploration,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(stacks, rng)
        self._network = network
        self._actions = cast(DiscreteActions, env.actions)
        self._exploration = exploration
        self._device = next(network.parameters()).device

    @torch.inference_mode()
    def act(
        self, obs: Columns, first: NDArray[np.bool_], step: int, *, explore: bool
    ) -> tuple[Array, Columns]:
        """See `Actor.act`."""
        stacks = to_tensors(self._stacks.push(obs, first), self._device)
        greedy = self._network(stacks).argmax(dim=1).cpu().numpy()
        if not explore:
            return greedy, {}
        return epsilon_greedy(greedy, self._actions, self._exploration(step), self._rng), {}

    def take(self, weights: Tree) -> None:
        """See `Actor.take`."""
        load_module(self._network, weights)


class DQNAgent:
    """Learns action values from transitions."""

    metrics: tuple[str, ...] = ("td_error_mean", "grad_norm")

    def __init__(self, options: DQNOptions, context: AgentContext, model: nn.Module) -> None:
        self._options = options
        self._env = context.env
        self._clock = context.clock
        self._shared = context.shared
        self._device = torch.device(context.shared.device)
        self._online = model.to(self._device)
        self._target = deepcopy(self._online).requires_grad_(False)
        self._optimizer = torch.optim.Adam(
            self._online.parameters(), lr=options.lr, eps=options.adam_eps, fused=True
        )
        self._copy_interval = int(options.target_model_update)  # 0 for a share below 1
        self._copy_target = Every(self._copy_interval)
        self._learnt_at = 0
        self.exploration = Exploration(options, context.shared.learn_start)
        self.updates = 0

    @property
    def parameters(self) -> int:
        """See `Agent.parameters`."""
        return parameter_count(self._online)

    def extras(self) -> Mapping[str, ArraySpec]:
        """See `Agent.extras`."""
        return {}

    def actor(
        self, lanes: int, rng: np.random.Generator, *, weights: Tree | None = None
    ) -> DQNActor:
        """See `Agent.actor`."""
        network = self._online if weights is None else deepcopy(self._online)
        stacks = FrameStack(self._env.observations, lanes, self._shared.window_length)
        actor = DQNActor(network, self._env, stacks, self.exploration, rng)
        if weights is not None:
            actor.take(weights)
        return actor

    def learn(self, memory: Memory) -> Metrics:
        """See `Agent.learn`."""
        self._learnt_at = self._clock.step
        if self._copy_target.due(self._learnt_at):
            move_towards(self._target, self._online, 1.0)
        batch = memory.sample(self._shared.batch_size)
        q_tm1, error, loss = self._loss(batch)
        metrics = {
            "loss": loss.item(),
            "q_mean": q_tm1.detach().mean().item(),
            "td_error_mean": error.detach().abs().mean().item(),
            "grad_norm": gradient(loss, self._online, self._options.clip_grad),
        }
        require_finite(metrics, self._online, batch, self._clock.step)
        self._optimizer.step()
        if not self._copy_interval:
            move_towards(self._target, self._online, self._options.target_model_update)
        self.updates += 1
        return metrics

    def _loss(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Values `[B, A]`, temporal differences `[B]` and the loss."""
        data = to_tensors(batch, self._device)
        obs_tm1 = {name: data[name] for name in self._env.observations}
        obs_t = {name: data[NEXT + name] for name in self._env.observations}
        with torch.no_grad():
            q_t = self._target(obs_t)
            select_t = self._online(obs_t) if self._options.double else q_t
            reward = clipped(data["reward"], self._options.clip_reward)
            target = q_target(reward, data["discount"], q_t, select_t)
        q_tm1: Tensor = self._online(obs_tm1)
        error = td_error(q_tm1, data["action"], target)
        return q_tm1, error, weighted_loss(error, data["weight"], self._options.loss)

    def weights(self) -> dict[str, Array]:
        """See `Agent.weights`."""
        return module_arrays(self._online)

    def state(self) -> Tree:
        """See `Agent.state`."""
        return {
            "weights": self.weights(),
            "target": module_arrays(self._target),
            "optimizer": optimizer_arrays(self._optimizer),
            "learnt_at": self._learnt_at,
            "updates": self.updates,
        }

    def load(self, state: Tree) -> None:
        """See `Agent.load`."""
        load_module(self._online, state["weights"])
        load_module(self._target, state["target"])
        load_optimizer(self._optimizer, state["optimizer"])
        self.updates = state["updates"]
        # not from the clock: what it crossed since the last update is due at the next
        self._learnt_at = state["learnt_at"]
        self._copy_target = Every(self._copy_interval, self._learnt_at)
