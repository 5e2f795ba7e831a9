"""Acting: what the agents' actors share."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from core.agent import Restart
from core.episodes.stacking import FrameStack
from core.seeding import generator_state, restore_generator
from core.types import ActionSpace, Array, Columns, DiscreteActions, Tree, all_of
from core.view import View, newest_picture


class FreeActor:
    """An actor of an agent that takes episodes as they come: what its kind has in common."""

    playing: NDArray[np.bool_] | None = None

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def restarts(self, first: NDArray[np.bool_]) -> Restart | None:
        """See `Actor.restarts`: none."""
        return None

    def broken_off(self, lanes: NDArray[np.bool_]) -> None:
        """See `Actor.broken_off`: what comes next is as good."""

    def state(self) -> Tree:
        """See `Actor.state`."""
        return {"rng": generator_state(self._rng)}

    def load(self, state: Tree) -> None:
        """See `Actor.load`."""
        restore_generator(self._rng, state["rng"])


class StackingActor(FreeActor, ABC):
    """One that sees stacks of its lanes' frames, and values the actions."""

    meaning: ClassVar[Literal["Q", "probability"]] = "Q"
    """What its values of actions are."""

    def __init__(self, stacks: FrameStack, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self._stacks = stacks
        self._seen: tuple[Columns, Array] | None = None

    @abstractmethod
    def values_of(self, stacks: Columns) -> Array:
        """Of the actions, `[L, A]`, for stacks `[L, W, ...]`."""

    def view(self) -> View | None:
        """See `Seeing.view`."""
        if self._seen is None:
            return None
        stacks, actions = self._seen
        values = self.values_of({name: stack[:1] for name, stack in stacks.items()})[0]
        frames, padding = newest_picture(stacks), self._stacks.padding(0)
        return View(frames, padding, values, self.meaning, int(actions[0]))

    def state(self) -> Tree:
        """See `Actor.state`."""
        return {**super().state(), "stacks": self._stacks.state()}

    def load(self, state: Tree) -> None:
        """See `Actor.load`."""
        super().load(state)
        self._stacks.load(state["stacks"])


def random_actions(actions: ActionSpace, lanes: int, rng: np.random.Generator) -> Array:
    """Uniform actions in the agent's unit: indices `[L]`, or `[L, A]` in [-1, 1]."""
    if isinstance(actions, DiscreteActions):
        return rng.integers(0, actions.n, lanes)
    return rng.uniform(-1, 1, (lanes, *actions.spec.shape)).astype(actions.spec.dtype)


def epsilon_greedy(
    greedy: Callable[[], NDArray[np.int64]],
    lanes: int,
    actions: DiscreteActions,
    epsilon: float,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Each lane's greedy action, or with probability epsilon any; `[L]`.

    Draws the same amount whatever epsilon is, so that a schedule moves no other draw. Where every
    lane explores, nobody asks what is greedy.
    """
    explore = rng.random(lanes) < epsilon
    any_action: NDArray[np.int64] = rng.integers(0, actions.n, lanes)
    return any_action if all_of(explore) else np.where(explore, any_action, greedy())
