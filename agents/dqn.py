"""DQN (Mnih et al. 2015), double (van Hasselt et al. 2016), n-step, with what its network adds.

That is dueling, a distribution of returns, noisy layers: all of them are Rainbow (Hessel et al.
2018).
"""

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
from core.seeding import generator_state, restore_generator
from core.types import NEXT, Array, ArraySpec, Batch, Columns, DiscreteActions, EnvSpec, Tree
from models.noisy import Noise

from .acting import StackingActor, epsilon_greedy
from .differentiated import Differentiated, differentiated
from .maths.values import clipped, reducible_loss
from .optimizers import Adam
from .options.dqn import DQNOptions
from .returns import Lesson, returns_of
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
    """Epsilon-greedy in some lanes, over its own stacks of their frames.

    Noisy layers have one noise for all lanes, another each step; without `explore` they are their
    means, as in Dopamine's Rainbow (Castro et al. 2018).
    """

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
        self._noise = Noise(network.module)
        self._actions = cast(DiscreteActions, env.actions)
        self._exploration = exploration

    def act(
        self, obs: Columns, first: NDArray[np.bool_], step: int, *, explore: bool
    ) -> tuple[Array, Columns]:
        """See `Actor.act`."""
        stacks = self._stacks.push(obs, first)
        if explore:
            self._noise.draw(self._rng)
            greedy, epsilon = partial(self._network.greedy, stacks), self._exploration(step)
            actions = epsilon_greedy(greedy, len(first), self._actions, epsilon, self._rng)
        else:
            self._noise.clear()
            actions = self._network.greedy(stacks)
        self._seen = stacks, actions
        return actions, {}

    def values_of(self, stacks: Columns) -> Array:
        """See `StackingActor.values_of`; the noise is drawn anew before it is used again."""
        self._noise.clear()
        return self._network.action_values(stacks)

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
        self._returns = returns_of(getattr(model, "returns", None), options, self._device)
        self._online_values = differentiated(self._online, self._returns.expected)
        self._target_values = differentiated(self._target, self._returns.expected)
        self._noises = Noise(self._online), Noise(self._target)
        self._noise_rng = context.seeds.generator("explore", 1)
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
            network = deepcopy(self._online).requires_grad_(False)
            values = differentiated(network, self._returns.expected)
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
        for noise in self._noises:
            noise.draw(self._noise_rng)
        with self._online_values.calm():
            outputs, target, lesson = self._lesson(batch)
            gradients, norm = within(
                self._online_values.pull(lesson.slope), self._options.clip_grad
            )
            metrics = {
                "loss": lesson.loss.item(),
                # sums: torch takes three times as long for a mean of few numbers
                "q_mean": lesson.q_tm1.sum().item() / lesson.q_tm1.numel(),
                "td_error_mean": torch.linalg.vector_norm(lesson.error, 1).item()
                / lesson.error.numel(),
                "grad_norm": norm,
            }
            require_finite(metrics, self._online, batch, self._clock.step)
            if memory.takes_feedback:
                told = self._to_learn(batch, outputs, target, lesson)
                memory.feedback(batch["id"], told.cpu().numpy())
            self._optimizer.step(gradients)
        if not self._copy_interval:
            self._move_target(self._options.target_model_update)
        self.updates += 1
        return metrics

    def _move_target(self, share: float) -> None:
        move_towards(self._target_values.parameters, self._online_values.parameters, share)

    def _lesson(self, batch: Batch) -> tuple[Tensor, Tensor, Lesson]:
        """The network's outputs of a batch, their target, and what there is to learn of it."""
        data, returns = to_tensors(batch, self._device), self._returns
        obs_tm1 = {name: data[name] for name in self._env.observations}
        obs_t = {name: data[NEXT + name] for name in self._env.observations}
        outputs_t = self._target_values.values(obs_t)
        selecting = self._online_values.values(obs_t) if self._options.double else outputs_t
        reward = clipped(data["reward"], self._options.clip_reward)
        select_t = returns.expected(selecting)
        target = returns.target(reward, data["discount"], outputs_t, select_t)
        outputs = self._online_values.recorded(obs_tm1)
        return outputs, target, returns.lesson(outputs, data["action"], target, data["weight"])

    def _to_learn(self, batch: Batch, outputs: Tensor, target: Tensor, lesson: Lesson) -> Tensor:
        """What there is to learn from each unit, `[B]`, by the measure that `priority` names."""
        if self._options.priority == "td":
            return lesson.surprise
        needed = {name: batch[name] for name in (*self._env.observations, "action")}
        data, losses = to_tensors(needed, self._device), self._returns.losses
        a_tm1 = data.pop("action")
        older = losses(self._target_values.values(data), a_tm1, target)
        return reducible_loss(losses(outputs, a_tm1, target), older)

    def weights(self) -> dict[str, Array]:
        """See `Agent.weights`."""
        return module_arrays(self._online)

    def state(self) -> Tree:
        """See `Agent.state`."""
        noise = {"noise": generator_state(self._noise_rng)} if self._noises[0] else {}
        return {
            "weights": self.weights(),
            "target": module_arrays(self._target),
            "optimizer": self._optimizer.state(),
            "learnt_at": self._learnt_at,
            "updates": self.updates,
            **noise,
        }

    def load(self, state: Tree) -> None:
        """See `Agent.load`."""
        load_module(self._online, state["weights"])
        load_module(self._target, state["target"])
        self._optimizer.load(state["optimizer"])
        self.updates = state["updates"]
        if self._noises[0]:
            restore_generator(self._noise_rng, state["noise"])
        # not from the clock: what it crossed since the last update is due at the next
        self._learnt_at = state["learnt_at"]
        self._copy_target = Every(self._copy_interval, self._learnt_at)
