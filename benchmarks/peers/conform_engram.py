"""Engram's own memories, held to the same rules."""

import numpy as np
from conform import main, mode

from core.conformance.rows import MemorySubject
from core.conformance.subject import Factory
from core.conformance.world import ACTIONS, Setting
from core.memories.episodic import EpisodicMemory
from core.memories.sequential import SequentialMemory
from core.memory import Memory, MemoryContext
from core.options import SharedOptions
from core.types import ArraySpec, DiscreteActions, EnvSpec


def factory(kind: type[Memory], **keys: object) -> Factory:
    """Builds memories of a kind with keys of its options, all others as they are by default."""

    def build(setting: Setting) -> MemorySubject:
        def memory() -> Memory:
            frame = ArraySpec((setting.side, setting.side), np.dtype(np.uint8))
            shared = SharedOptions(
                num_envs=setting.lanes,
                window_length=setting.window,
                n_step=setting.n_step,
                gamma=setting.gamma,
                trajectory_length=4,
            )
            env = EnvSpec({"obs": frame}, DiscreteActions(ACTIONS))
            context = MemoryContext(env, shared, np.random.default_rng(setting.seed))
            return kind(kind.Options(memory_limit=setting.capacity, **keys), context)

        return MemorySubject(memory(), setting, memory)

    return build


if __name__ == "__main__":
    modes = {
        "sequential": mode(
            factory(SequentialMemory),
            ("priorities", "stale"),
            "SequentialMemory, frames in lz4 chunks",
        ),
        "prioritized": mode(
            factory(SequentialMemory, sampler="prioritized"),
            ("uniform",),
            "SequentialMemory, sampler prioritized",
        ),
        "episodic": mode(
            factory(EpisodicMemory),
            ("n_step", "uniform", "priorities", "stale"),
            "EpisodicMemory, trajectories of 4 taken apart",
        ),
    }
    main("engram", "", modes)
