"""Where candidates are kept: as copies, as float16 differences, or as the seeds they grew from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from ..types import Tree
from .generation import Generation, Vector, rebuild

Remember = Literal["seeds", "copies", "float16"]


class ParameterStore(Protocol):
    """Slots of parameters; a slot's generation has to be among the newest that are kept."""

    def put(self, slot: int, generation: Generation, index: int) -> None:
        """Keeps a candidate in a slot."""

    def get(self, slot: int) -> Vector:
        """The parameters `[D]` in a slot; float16 differences give them back nearly."""

    def usage(self, slots: int) -> int:
        """Bytes in use with so many slots filled."""

    def state(self) -> Tree:
        """Everything that changes."""

    def load(self, state: Tree) -> None:
        """Takes over a saved state."""


class Copies:
    """The parameters themselves, 4 bytes a number."""

    def __init__(self, slots: int, size: int) -> None:
        self._parameters = np.zeros((slots, size), np.float32)

    def put(self, slot: int, generation: Generation, index: int) -> None:
        """See `ParameterStore.put`."""
        self._parameters[slot] = generation.candidate(index)

    def put_vector(self, slot: int, parameters: Vector) -> None:
        """Keeps a copy of any finite parameters `[D]`; raises ValueError for others."""
        if np.shape(parameters) != self._parameters[slot].shape:
            mine = self._parameters[slot].shape
            raise ValueError(f"parameters have shape {np.shape(parameters)}, not {mine}")
        if not np.isfinite(parameters).all():
            raise ValueError("parameters are not finite")
        self._parameters[slot] = parameters

    def get(self, slot: int) -> Vector:
        """See `ParameterStore.get`."""
        parameters: Vector = self._parameters[slot].copy()
        return parameters

    def usage(self, slots: int) -> int:
        """See `ParameterStore.usage`."""
        return slots * int(self._parameters[0].nbytes)

    def state(self) -> Tree:
        """See `ParameterStore.state`."""
        return {"parameters": self._parameters}

    def load(self, state: Tree) -> None:
        """See `ParameterStore.load`."""
        self._parameters[...] = state["parameters"]


class Means:
    """Means and spreads of the newest generations, in turn."""

    def __init__(self, generations: int, size: int) -> None:
        self._numbers = np.full(generations, -1, np.int64)
        self._means = np.zeros((generations, size), np.float32)
        self._spreads = np.zeros((generations, size), np.float32)

    def put(self, generation: Generation) -> None:
        """Keeps a generation's, in place of the oldest."""
        place = generation.number % len(self._numbers)
        if self._numbers[place] != generation.number:
            self._numbers[place] = generation.number
            self._means[place], self._spreads[place] = generation.mean, generation.spread

    def of(self, number: int) -> tuple[Vector, Vector]:
        """Mean and spread of a generation; raises KeyError where it is no longer kept."""
        place = number % len(self._numbers)
        if self._numbers[place] != number:
            raise KeyError(f"generation {number} is no longer kept")
        return self._means[place], self._spreads[place]

    @property
    def nbytes(self) -> int:
        """Bytes in use: the generations kept."""
        kept = int((self._numbers >= 0).sum())
        return kept * int(self._means[0].nbytes + self._spreads[0].nbytes)

    def state(self) -> Tree:
        """Everything that changes."""
        return {"numbers": self._numbers, "means": self._means, "spreads": self._spreads}

    def load(self, state: Tree) -> None:
        """Takes over a saved state."""
        for name, array in self.state().items():
            array[...] = state[name]


class Seeds:
    """A seed and a sign each; the means of the newest generations rebuild the rest exactly."""

    def __init__(self, slots: int, size: int, generations: int) -> None:
        self._seeds = np.zeros(slots, np.int64)
        self._signs = np.zeros(slots, np.int8)
        self._numbers = np.full(slots, -1, np.int64)
        self._means = Means(generations, size)

    def put(self, slot: int, generation: Generation, index: int) -> None:
        """See `ParameterStore.put`."""
        self._means.put(generation)
        self._numbers[slot] = generation.number
        self._seeds[slot], self._signs[slot] = generation.seeds[index], generation.signs[index]

    def get(self, slot: int) -> Vector:
        """See `ParameterStore.get`."""
        mean, spread = self._means.of(int(self._numbers[slot]))
        return rebuild(mean, spread, int(self._seeds[slot]), int(self._signs[slot]))

    def usage(self, slots: int) -> int:
        """See `ParameterStore.usage`."""
        return slots * 17 + self._means.nbytes

    def state(self) -> Tree:
        """See `ParameterStore.state`."""
        own = {"seeds": self._seeds, "signs": self._signs, "numbers": self._numbers}
        return {**own, "means": self._means.state()}

    def load(self, state: Tree) -> None:
        """See `ParameterStore.load`."""
        self._seeds[...], self._signs[...] = state["seeds"], state["signs"]
        self._numbers[...] = state["numbers"]
        self._means.load(state["means"])


class Differences:
    """Differences from the generation's mean, 2 bytes a number."""

    def __init__(self, slots: int, size: int, generations: int) -> None:
        self._differences = np.zeros((slots, size), np.float16)
        self._numbers = np.full(slots, -1, np.int64)
        self._means = Means(generations, size)

    def put(self, slot: int, generation: Generation, index: int) -> None:
        """See `ParameterStore.put`."""
        self._means.put(generation)
        self._numbers[slot] = generation.number
        self._differences[slot] = generation.candidate(index) - generation.mean

    def get(self, slot: int) -> Vector:
        """See `ParameterStore.get`."""
        mean, _ = self._means.of(int(self._numbers[slot]))
        parameters: Vector = mean + self._differences[slot].astype(np.float32)
        return parameters

    def usage(self, slots: int) -> int:
        """See `ParameterStore.usage`."""
        return slots * (int(self._differences[0].nbytes) + 8) + self._means.nbytes

    def state(self) -> Tree:
        """See `ParameterStore.state`."""
        own = {"differences": self._differences, "numbers": self._numbers}
        return {**own, "means": self._means.state()}

    def load(self, state: Tree) -> None:
        """See `ParameterStore.load`."""
        self._differences[...], self._numbers[...] = state["differences"], state["numbers"]
        self._means.load(state["means"])


def make_store(remember: Remember, slots: int, size: int, generations: int) -> ParameterStore:
    """The store that a key names."""
    if remember == "copies":
        return Copies(slots, size)
    kind = Seeds if remember == "seeds" else Differences
    return kind(slots, size, generations)


def bytes_full(remember: Remember, slots: int, size: int, generations: int) -> int:
    """Bytes of a store with every slot filled."""
    each = {"copies": 4 * size, "float16": 2 * size + 8, "seeds": 17}[remember]
    return slots * each + (0 if remember == "copies" else generations * size * 8)


@dataclass(frozen=True)
class ParameterPlan:
    """What the memory takes when full."""

    bytes_full: int
    rows_full: int

    @property
    def tiers(self) -> Mapping[str, int]:
        """See `Plan.tiers`."""
        return {"heap": self.bytes_full}

    @property
    def bytes_saved(self) -> int:
        """See `Plan.bytes_saved`: it is part of checkpoints."""
        return 0

    @property
    def bytes_low(self) -> int:
        """See `Plan.bytes_low`: nothing is compressed."""
        return self.bytes_full

    @property
    def bytes_high(self) -> int:
        """See `Plan.bytes_high`."""
        return self.bytes_full
