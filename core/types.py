"""What travels between the parts: specs, batches, trees of state.

Legend of axes, used in every docstring:
T time, S segments, B batch, L lanes, W window (stacked observations), A actions,
C H W channels, height and width of a frame, P population, D parameters.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Columns = dict[str, Array]
"""Named arrays that share their leading axes: an observation, a set of extras, a batch."""

Batch = Columns
"""Flat columns `obs next_obs action reward discount weight id` and the extras, each `[B, ...]`.

An observation space of several parts gives `obs.<part>` and `next_obs.<part>` instead of `obs`
and `next_obs`. `discount` is gamma^m over the m steps that `reward` sums, 0 after a terminal.
"""

Tree = Mapping[str, Any]
"""State: nested mappings whose leaves are numpy arrays or plain JSON values."""

OBS: Final = "obs"
NEXT: Final = "next_"
RESERVED_COLUMNS: Final = frozenset({"action", "reward", "discount", "weight", "id"})


@dataclass(frozen=True)
class ArraySpec:
    """Shape and dtype of one item of a column, without any leading axis."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Numbers in an item."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of an item."""
        return self.size * self.dtype.itemsize

    @property
    def is_frame(self) -> bool:
        """Whether an item is a picture: at least two axes, of more than one row and column."""
        return len(self.shape) >= 2 and min(sorted(self.shape)[-2:]) > 1


@dataclass(frozen=True)
class DiscreteActions:
    """One of `n` actions, an index from 0; stored and passed as int64, without an axis."""

    n: int
    kind: Literal["discrete"] = "discrete"

    @property
    def spec(self) -> ArraySpec:
        """The column that holds such actions."""
        return ArraySpec((), np.dtype(np.int64))

    def __str__(self) -> str:
        return f"Discrete({self.n})"


@dataclass(frozen=True)
class ContinuousActions:
    """A box of actions; agents and memories use [-1, 1], the env adapter scales to `low..high`."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    kind: Literal["continuous"] = "continuous"

    @property
    def spec(self) -> ArraySpec:
        """The column that holds such actions."""
        return ArraySpec((len(self.low),), np.dtype(np.float32))

    def __str__(self) -> str:
        return f"Box({len(self.low)},)"


ActionSpace = DiscreteActions | ContinuousActions


@dataclass(frozen=True)
class EnvSpec:
    """What an environment gives and takes, per lane. Observations are a flat dict of columns."""

    observations: Mapping[str, ArraySpec]
    actions: ActionSpace
    step_seconds: float | None = None
    """Seconds that a step lasts for a person who plays; None where nobody says."""


class Unit(Enum):
    """What a memory gives and an agent reads."""

    TRANSITIONS = "transitions"
    TRAJECTORIES = "trajectories"
    PARAMETERS = "parameters"


def image_layout(shape: tuple[int, ...]) -> Literal["HW", "HWC", "CHW"]:
    """Where the channels of a picture stand. Raises ValueError unless it has two or three axes.

    Three axes are channels-first only where the first is shorter than both others, since colour
    channels are few; a tie is channels-last, as gymnasium delivers.
    """
    if len(shape) == 2:
        return "HW"
    if len(shape) != 3:
        raise ValueError(f"a picture has 2 or 3 axes, not shape {shape}")
    return "CHW" if shape[0] < min(shape[1:]) else "HWC"


def any_of(flags: NDArray[np.bool_]) -> bool:
    """Whether one is set; of a few flags in a tenth of the time that `flags.any()` takes."""
    return bool(np.count_nonzero(flags))


def all_of(flags: NDArray[np.bool_]) -> bool:
    """Whether each is set; see `any_of`."""
    return bool(np.count_nonzero(flags) == flags.size)


def filled(out: Batch, batch: Batch) -> Batch:
    """The batch in the arrays of `out`; what was gathered into one already is not copied again."""
    for name, array in out.items():
        if name in batch and batch[name] is not array:
            array[...] = batch[name]
    return {name: out.get(name, array) for name, array in batch.items()}
