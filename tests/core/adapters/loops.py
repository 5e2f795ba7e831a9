"""Loops as others write them, in plain lists: every pair that was told, and nothing clever."""

from dataclasses import dataclass, field

import numpy as np

KINDS = {
    # name: (frame, how stacks lie, dtype)
    "own axis": ((17, 16), "own", np.uint8),
    "channels first": ((2, 17, 16), "first", np.uint8),
    "channels last": ((17, 16, 3), "last", np.uint8),
    "numbers": ((3,), "first", np.float32),
    "floats apart": ((2,), "own", np.float64),
}


def stacked(frames: list[np.ndarray], how: str) -> np.ndarray:
    """Some frames, oldest first, as one item."""
    if how == "own":
        return np.stack(frames)
    return np.concatenate(frames, axis=0 if how == "first" else -1)


@dataclass
class Loop:
    """One lane: draws frames and tells steps as a loop with a frame stack around it sees them."""

    rng: np.random.Generator
    frame: tuple[int, ...]
    how: str
    dtype: type
    window: int
    zeros: bool
    frames: list[np.ndarray] = field(default_factory=list)

    def new_frame(self) -> np.ndarray:
        if self.rng.random() < 0.1:
            return np.zeros(self.frame, self.dtype)
        return self.rng.integers(0, 256, self.frame).astype(self.dtype)

    def reset(self) -> np.ndarray:
        first = self.new_frame()
        older = np.zeros_like(first) if self.zeros else first
        self.frames = [older] * (self.window - 1) + [first]
        return self.stack()

    def stack(self) -> np.ndarray:
        return stacked(self.frames, self.how) if self.window > 1 else self.frames[-1]

    def step(self) -> np.ndarray:
        self.frames = [*self.frames[1:], self.new_frame()]
        return self.stack()
