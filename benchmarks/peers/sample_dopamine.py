"""Dopamine as it is read: the JAX agents' ReplayBuffer, whose stacks are held under snappy."""

from pathlib import Path

import numpy as np
from fill_dopamine import fill
from measure import load
from serve import Pair, Reads, serve, settings


def main() -> None:
    """Fills, and reads as it is told."""
    given = settings()
    recording = load(Path(given["folder"]))
    memory = fill(recording, given["count"])

    def look(size: int) -> Pair:
        batch = memory.sample(size)
        return np.moveaxis(batch.state, -1, 1), np.moveaxis(batch.next_state, -1, 1)

    works = {"uniform": lambda size: lambda: memory.sample(size)}
    serve("dopamine_rl", recording, Reads(works, look), given)


if __name__ == "__main__":
    main()
