"""ACER of pfrl on CartPole, in one process."""

from contextlib import suppress

import gymnasium as gym
import pfrl
import torch
from pace import EnoughError, Pace, report, settings
from pfrl.agents.acer import ACER, ACERDiscreteActionHead
from pfrl.policies import SoftmaxCategoricalHead
from pfrl.q_functions import DiscreteActionValueHead
from pfrl.replay_buffers import EpisodicReplayBuffer
from torch import nn


def tower(sizes: list[int], outputs: int, head: nn.Module) -> nn.Sequential:
    """Tanh layers, a linear one, and what makes of it a distribution or values."""
    layers: list[nn.Module] = []
    for width, following in zip(sizes, sizes[1:]):  # noqa: B905, RUF007  as old a Python as pfrl's
        layers += [nn.Linear(width, following), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs), head)


def main() -> None:
    """Trains for as long as is measured."""
    given = settings()
    torch.set_num_threads(1)
    pfrl.utils.set_random_seed(given["seed"])
    env = gym.make(given["game"])
    sizes = [4, *given["hidden_sizes"]]
    model = ACERDiscreteActionHead(
        tower(sizes, 2, SoftmaxCategoricalHead()), tower(sizes, 2, DiscreteActionValueHead())
    )
    model.share_memory()  # it is made for several processes, and insists; so below
    optimizer = pfrl.optimizers.SharedRMSpropEpsInsideSqrt(
        model.parameters(), lr=7e-4, eps=1e-5, alpha=0.99
    )
    for slots in optimizer.state.values():
        for value in slots.values():
            if isinstance(value, torch.Tensor):
                value.share_memory_()
    agent = ACER(
        model,
        optimizer,
        t_max=given["trajectory_length"],
        gamma=0.99,
        replay_buffer=EpisodicReplayBuffer(given["memory_limit"]),
        n_times_replay=int(given["replay_ratio"]),
        replay_start_size=given["replay_start"],
        beta=0.0,
        max_grad_norm=10.0,
    )
    pace, step = Pace(given["begin"], given["end"]), 0
    obs, _ = env.reset(seed=given["seed"])
    with suppress(EnoughError):
        while True:
            obs, reward, terminated, truncated, _ = env.step(int(agent.act(obs)))
            agent.observe(obs, float(reward), terminated, truncated)
            step += 1
            pace.at(step)
            if terminated or truncated:
                obs, _ = env.reset()
    report("pfrl", "pfrl", torch.get_num_threads(), pace)


if __name__ == "__main__":
    main()
