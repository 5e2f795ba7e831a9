"""What a memory has to look like to be held to the rules, and what it may say it lacks."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Protocol

import numpy as np

from .truth import Padding
from .world import Array, Setting, Tick

Batch = dict[str, Array]

EVERY: Final = {
    "truncation": "time limits told apart from terminals",
    "stacks": "several frames as one observation",
    "n_step": "sums of several rewards",
    "lanes": "several environments",
    "interrupt": "episodes that are begun anew in their middle",
    "all": "every step that is held can be drawn",
    "uniform": "every step is drawn as often",
    "seed": "a seed of its own",
    "save": "saving",
    "resume": "saving where its draws are",
    "priorities": "drawing by priority",
    "stale": "priorities told for steps that are gone",
}
"""What a memory may offer. A rule about something that is not offered is not asked."""


class NotOffered(Exception):  # noqa: N818  no error of the memory's
    """Raised by a factory for a setting that its memory does not claim to serve."""


class Subject(Protocol):
    """A memory under test.

    Further methods, of those that offer it: `resumed()` gives a new one that goes on from this
    one's saved state (save, and resume if its draws go on too); `feedback(ids, priorities)` tells
    priorities of `id`s that a batch held (priorities). An attribute `padding` of "zeros" says that
    stacks begin with zeros.
    """

    def begin(self, obs: Array) -> None:
        """First frames of every lane, `[L, side, side]`; breaks off what is open."""

    def step(self, tick: Tick) -> None:
        """One step of every lane; where an episode is over another has begun, see `Tick`."""

    def sample(self, count: int) -> Batch:
        """Units: `obs next_obs` `[B, W, side, side]`, oldest first; `action reward discount`.

        `discount` is what the successor's value counts: gamma^m, 0 after a terminal.
        """


Factory = Callable[[Setting], Any]
"""Builds a subject, or a `Memory` of this package. Its attribute `offers`, a set of names of
`EVERY`, says what there is; without, everything."""


def factory_of(path: str) -> Factory:
    """The factory that 'module:name' names. Raises ValueError in one line where there is none."""
    module, _, name = path.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"no memory '{path}': {error}; give module:factory") from None
    if not callable(found):
        raise ValueError(f"'{path}' is no function that builds a memory")
    unknown = sorted(offers_of(found) - EVERY.keys())
    if unknown:
        raise ValueError(f"'{path}' offers {unknown[0]!r}, which is none of {', '.join(EVERY)}")
    return found  # type: ignore[no-any-return]


def offers_of(factory: Factory) -> frozenset[str]:
    """What a factory says that its memories offer."""
    return frozenset(getattr(factory, "offers", EVERY))


def padding_of(subject: Subject) -> Padding:
    """What the stacks of a subject begin with."""
    return getattr(subject, "padding", "first")


class Stacks:
    """Stacks of the newest frames `[L, W, side, side]`, for a memory whose caller stacks.

    Before an episode's first frame stands that frame again, as gymnasium has it.
    """

    def __init__(self, setting: Setting) -> None:
        shape = (setting.lanes, setting.window, setting.side, setting.side)
        self.now = np.zeros(shape, np.uint8)

    def begin(self, obs: Array) -> None:
        """First frames of every lane."""
        self.now = np.repeat(obs[:, None], self.now.shape[1], 1)

    def step(self, tick: Tick) -> tuple[Array, Array]:
        """The stacks before a step and after it; then new episodes begin where one is over."""
        before = self.now
        after = np.concatenate([before[:, 1:], tick.next_obs[:, None]], 1)
        fresh = np.repeat(tick.first[:, None], after.shape[1], 1)
        self.now = np.where(tick.over[:, None, None, None], fresh, after)
        return before, after
