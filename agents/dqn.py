"""DQN (Mnih et al. 2015), double (van Hasselt et al. 2016), n-step, with the network's dueling."""

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
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
from .differentiated import Differentiated, differentiated
from .maths.values import (
    chosen,
    clipped,
    loss_slope,
    q_target,
    reducible_loss,
    td_error,
    weighted_loss,
)
from .optimizers import Adam
from .options.dqn import DQNOptions
from .tensors import (
    load_module,
    module_arrays,
    move_towards,
    parameter_count,
    require_finite,
    to_tensors,
    within,
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
        network: Differentiated,
        env: EnvSpec,
        stacks: FrameStack,
        exploration: Exploration,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(stacks, rng)
        self._network = network
        self._actions = cast(DiscreteActions, env.actions)
        self._exploration = exploration

    def act(
        self, obs: Columns, first: NDArray[np.bool_], step: int, *, explore: bool
    ) -> tuple[Array, Columns]:
        """See `Actor.act`."""
        stacks = self._stacks.push(obs, first)
        if not explore:
            return self._network.greedy(stacks), {}
        greedy, epsilon = partial(self._network.greedy, stacks), self._exploration(step)
        return epsilon_greedy(greedy, len(first), self._actions, epsilon, self._rng), {}

    def take(self, weights: Tree) -> None:
        """See `Actor.take`."""
        load_module(self._network.module, weights)


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
        self._online_values = differentiated(self._online)
        self._target_values = differentiated(self._target)
        self._optimizer = Adam(self._online_values.parameters, options.lr, options.adam_eps)
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
        values = self._online_values
        if weights is not None:
            values = differentiated(deepcopy(self._online).requires_grad_(False))
        stacks = FrameStack(self._env.observations, lanes, self._shared.window_length)
        actor = DQNActor(values, self._env, stacks, self.exploration, rng)
        if weights is not None:
            actor.take(weights)
        return actor

    def learn(self, memory: Memory) -> Metrics:
        """See `Agent.learn`."""
        self._learnt_at = self._clock.step
        if self._copy_target.due(self._learnt_at):
            self._move_target(1.0)
        batch = memory.sample(self._shared.batch_size)
        with self._online_values.calm():
            q_tm1, error, loss, slope = self._loss(batch)
            gradients, norm = within(self._online_values.pull(slope), self._options.clip_grad)
            metrics = {
                "loss": loss.item(),
                "q_mean": q_tm1.mean().item(),
                "td_error_mean": error.abs().mean().item(),
                "grad_norm": norm,
            }
            require_finite(metrics, self._online, batch, self._clock.step)
            if memory.takes_feedback:
                memory.feedback(batch["id"], self._to_learn(batch, q_tm1, error).cpu().numpy())
            self._optimizer.step(gradients)
        if not self._copy_interval:
            self._move_target(self._options.target_model_update)
        self.updates += 1
        return metrics

    def _move_target(self, share: float) -> None:
        move_towards(self._target_values.parameters, self._online_values.parameters, share)

    def _loss(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Values `[B, A]`, temporal differences `[B]`, the loss and its slope by the values."""
        data, kind = to_tensors(batch, self._device), self._options.loss
        obs_tm1 = {name: data[name] for name in self._env.observations}
        obs_t = {name: data[NEXT + name] for name in self._env.observations}
        q_t = self._target_values.values(obs_t)
        select_t = self._online_values.values(obs_t) if self._options.double else q_t
        reward = clipped(data["reward"], self._options.clip_reward)
        target = q_target(reward, data["discount"], q_t, select_t)
        q_tm1 = self._online_values.recorded(obs_tm1)
        error = td_error(q_tm1, data["action"], target)
        loss = weighted_loss(error, data["weight"], kind)
        return q_tm1, error, loss, loss_slope(q_tm1, data["action"], error, data["weight"], kind)

    def _to_learn(self, batch: Batch, q_tm1: Tensor, error: Tensor) -> Tensor:
        """What there is to learn from each unit, `[B]`, by the measure that `priority` names."""
        if self._options.priority == "td":
            return error
        needed = {name: batch[name] for name in (*self._env.observations, "action")}
        data = to_tensors(needed, self._device)
        a_tm1 = data.pop("action")
        older = chosen(self._target_values.values(data), a_tm1)
        return reducible_loss(error, error + chosen(q_tm1, a_tm1) - older, self._options.loss)

    def weights(self) -> dict[str, Array]:
        """See `Agent.weights`."""
        return module_arrays(self._online)

    def state(self) -> Tree:
        """See `Agent.state`."""
        return {
            "weights": self.weights(),
            "target": module_arrays(self._target),
            "optimizer": self._optimizer.state(),
            "learnt_at": self._learnt_at,
            "updates": self.updates,
        }

    def load(self, state: Tree) -> None:
        """See `Agent.load`."""
        load_module(self._online, state["weights"])
        load_module(self._target, state["target"])
        self._optimizer.load(state["optimizer"])
        self.updates = state["updates"]
        # not from the clock: what it crossed since the last update is due at the next
        self._learnt_at = state["learnt_at"]
        self._copy_target = Every(self._copy_interval, self._learnt_at)
