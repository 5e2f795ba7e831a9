"""The boundary to environments: what the loops see, whatever is behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..types import Array, Columns, EnvSpec, Tree


@dataclass(frozen=True)
class Step:
    """What one call of `Env.step` did, `[L, ...]` throughout; valid until the next call.

    Where `stepped`, a step happened, and `next_obs` is its true observation, an episode's last
    included. Where `started`, a new episode begins with `obs`, which is what to act on next; an
    autoreset that costs a call of its own is a start without a step. Where `lost_life`, nothing is
    worth anything from here on to whoever learns, but the episode and its return go on.
    """

    stepped: NDArray[np.bool_]
    reward: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    next_obs: Columns
    started: NDArray[np.bool_]
    obs: Columns
    lost_life: NDArray[np.bool_] | None
    infos: Mapping[str, Array]

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Lanes whose episode ended with this step."""
        ended: NDArray[np.bool_] = self.stepped & (self.terminated | self.truncated)
        return ended


class Env(Protocol):
    """`lanes` environments stepped together. Actions are indices, or in [-1, 1]."""

    spec: EnvSpec
    lanes: int
    about: str
    """What was decided about it, preprocessing above all, on one line; may be empty."""

    def reset(self, seeds: Sequence[int]) -> Columns:
        """Begins an episode in every lane, each seeded by its own number; `[L, ...]`."""

    def step(self, actions: Array, playing: NDArray[np.bool_] | None = None) -> Step:
        """Steps every lane with `[L]` indices or `[L, A]` numbers.

        Lanes that do not play may stand still: the caller looks at none of what they give.
        """

    def restart(self, lanes: NDArray[np.int64], seeds: Sequence[int]) -> Columns:
        """Begins new episodes in some lanes, and gives the observations of all, `[L, ...]`.

        Raises UsageError where lanes cannot be begun one by one.
        """

    def snapshot(self) -> Tree | None:
        """All that decides what comes next in every lane, between two steps.

        Arrays and plain JSON values, copied, which a checkpoint holds as they are; None where the
        environment cannot be snapshotted. Taking one changes nothing.
        """

    def restore(self, snapshot: Tree) -> None:
        """Goes on from a snapshot: the same actions give the same steps, bit for bit, resets too.

        Whatever was played here before is forgotten; nothing need have been. Raises ValueError for
        a snapshot of another kind, game or number of lanes.
        """

    def close(self) -> None:
        """Frees what the environments hold."""


class MakeEnv(Protocol):
    """What an entry of the factory's table of environments is."""

    def __call__(self, options: Any, lanes: int) -> Env:
        """Raises UsageError for a game that does not exist or cannot be used."""
