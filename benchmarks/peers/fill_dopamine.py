"""Dopamine: the JAX agents' ReplayBuffer, which holds both stacks compressed with snappy."""

from dopamine.jax.replay_memory.accumulator import TransitionAccumulator
from dopamine.jax.replay_memory.elements import TransitionElement
from dopamine.jax.replay_memory.replay_buffer import ReplayBuffer
from dopamine.jax.replay_memory.samplers import UniformSamplingDistribution
from measure import STACK, Recording, check_full, main, steps


def fill(recording: Recording, transitions: int) -> ReplayBuffer:
    """A full memory; it takes single frames and stacks them itself.

    Counted are its items. It makes four of the last steps of a terminated episode instead of one.
    """
    memory = ReplayBuffer(
        TransitionAccumulator(STACK, update_horizon=1, gamma=0.99),
        UniformSamplingDistribution(seed=0),
        batch_size=32,
        max_capacity=transitions,
    )
    for step in steps(recording):
        memory.add(
            TransitionElement(step.frame, step.action, step.reward, step.terminated, step.over)
        )
        if memory.add_count >= transitions:
            break
    check_full(min(memory.add_count, transitions), transitions)
    return memory


if __name__ == "__main__":
    main("dopamine", "dopamine_rl", {"snappy": fill})
