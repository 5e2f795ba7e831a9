"""Candidates at play: which lane plays whom, and what observations look like to all of them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.agent import Restart
from core.episodes.stacking import FrameStack
from core.parameters.generation import Generation, Vector
from core.parameters.kept import candidate_id
from core.parameters.returns import CANDIDATE
from core.seeding import SeedTree
from core.types import Array, ArraySpec, Columns, Tree
from models.es import ESMLP, flat_inputs

EXTRAS = {CANDIDATE: ArraySpec((), np.dtype(np.int64))}
LEAST_STD = 1e-2
CLIP = 5.0


class Normalizer:
    """Mean and spread of the observations of earlier generations; frozen within one.

    `fold` takes what the candidates saw one candidate after the other, so that the lanes that they
    played in leave no trace in the rounding.
    """

    def __init__(self, size: int, on: bool) -> None:
        self.on = on
        self._count = 0.0
        self._mean, self._square = np.zeros(size), np.ones(size)
        self._freeze()

    def _freeze(self) -> None:
        variance = np.maximum(self._square - self._mean**2, LEAST_STD**2)
        self._shift = self._mean.astype(np.float32)
        self._scale = (1 / np.sqrt(variance)).astype(np.float32)

    def __call__(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Shifted, scaled and clipped, `[L, D]`; unchanged where it is off or has seen nothing."""
        if not self.on or not self._count:
            return inputs
        return ((inputs - self._shift) * self._scale).clip(-CLIP, CLIP)

    def fold(self, sums: Array) -> None:
        """Folds in `[P, 3, D]`: each candidate's count, sum and sum of squares.

        What a candidate saw that is not finite is left out, so that it spoils no other's view.
        """
        seen = (sums[:, 0, 0] > 0) & np.isfinite(sums).all(axis=(1, 2))
        for counts, totals, squares in sums[seen]:
            self._count += counts[0]
            self._mean += (totals - counts[0] * self._mean) / self._count
            self._square += (squares - counts[0] * self._square) / self._count
        self._freeze()

    def state(self) -> Tree:
        """Everything that changes between generations."""
        return {"mean": self._mean.copy(), "square": self._square.copy(), "count": self._count}

    def load(self, state: Tree) -> None:
        """Takes over a saved state."""
        self._mean, self._square = np.array(state["mean"]), np.array(state["square"])
        self._count = state["count"]
        self._freeze()


class Population:
    """The candidates of the generation at play, handed out one after the other."""

    def __init__(self, seeds: SeedTree, normalizer: Normalizer, inputs: int) -> None:
        self._seeds = seeds
        self.normalizer = normalizer
        self._inputs = inputs
        self._sums = np.zeros((0, 3, inputs))
        self._next = 0
        self._again: list[int] = []

    def begin(self, generation: Generation) -> None:
        """Hands out this generation's candidates from now on; folds in what the last one saw."""
        self.normalizer.fold(self._sums)
        size = len(generation) if self.normalizer.on else 0
        self._sums = np.zeros((size, 3, self._inputs))
        self.generation, self._next, self._again = generation, 0, []

    def take(self, most: int) -> list[int]:
        """The next candidates that nobody plays yet; those given back first."""
        taken, self._again = self._again[:most], self._again[most:]
        end = min(self._next + most - len(taken), len(self.generation))
        taken += range(self._next, end)
        self._next = end
        return taken

    def give_back(self, indices: Sequence[int]) -> None:
        """Takes back candidates whose episodes were broken off: what they saw never was."""
        self._again = sorted([*self._again, *indices])
        if self.normalizer.on:
            self._sums[list(indices)] = 0.0

    def episode_seeds(self, indices: Sequence[int]) -> list[int]:
        """Seeds of the candidates' episodes: a candidate's own, whichever lane it plays in."""
        number = self.generation.number
        return [self._seeds.integers("env", 1, 1, number, index)[0] for index in indices]

    def watch(self, indices: NDArray[np.int64], inputs: NDArray[np.float32]) -> None:
        """Notes what candidates see, `[n, D]`; no candidate twice."""
        if self.normalizer.on:
            wide = inputs.astype(np.float64)
            self._sums[indices] += np.stack([np.ones_like(wide), wide, wide**2], axis=1)

    def state(self) -> Tree:
        """Everything that changes within a generation, and the generation."""
        return {
            "generation": self.generation.state(),
            "next": self._next,
            "again": list(self._again),
            # as bytes: what a candidate saw may be no number, an array in a checkpoint may not
            "sums": self._sums.copy().view(np.uint8),
        }

    def load(self, state: Tree) -> None:
        """Takes over a saved state; the normalizer has one of its own."""
        self.generation = Generation.of(state["generation"])
        self._next, self._again = state["next"], list(state["again"])
        self._sums = np.array(state["sums"]).view(np.float64)


class CandidateActor:
    """Each lane plays a candidate for an episode, then the next; without exploration the mean.

    It sees with the population's eyes and plays the population's mean, until it takes others.
    """

    def __init__(
        self, policy: ESMLP, stacks: FrameStack, lanes: int, population: Population
    ) -> None:
        self._policy = policy
        self._stacks = stacks
        self._population = population
        self._parameters = np.zeros((lanes, policy.size), np.float32)
        self._mean: Vector | None = None
        self._normalizer = population.normalizer
        self._candidate = np.full(lanes, -1, np.int64)
        self._index = np.full(lanes, -1, np.int64)

    @property
    def playing(self) -> NDArray[np.bool_] | None:
        """See `Actor.playing`: lanes that have a candidate."""
        playing: NDArray[np.bool_] = self._candidate >= 0
        return playing

    def restarts(self, first: NDArray[np.bool_]) -> Restart | None:
        """See `Actor.restarts`: lanes that are free, as long as there are candidates."""
        free = np.flatnonzero(first | (self._candidate < 0))
        if not len(free):
            return None
        self._candidate[free] = -1
        self._parameters[free] = 0.0  # an idle lane's have to follow from who plays, too
        indices = self._population.take(len(free))
        if not indices:
            return None
        generation = self._population.generation
        lanes = free[: len(indices)]
        self._index[lanes] = indices
        self._candidate[lanes] = candidate_id(generation.number, self._index[lanes])
        self._parameters[lanes] = [generation.candidate(index) for index in indices]
        return lanes, self._population.episode_seeds(indices)

    def act(
        self, obs: Columns, first: NDArray[np.bool_], step: int, *, explore: bool
    ) -> tuple[Array, Columns]:
        """See `Actor.act`."""
        inputs = flat_inputs(self._stacks.push(obs, first))
        if not explore:
            actions = self._policy.act(self._incumbent, self._normalizer(inputs))
            return actions, {CANDIDATE: self._candidate.copy()}
        playing = np.flatnonzero(self._candidate >= 0)
        if len(playing) < len(inputs):
            return self._some(playing, inputs[playing]), {CANDIDATE: self._candidate.copy()}
        self._population.watch(self._index, inputs)
        actions = self._policy.act(self._parameters, self._normalizer(inputs))
        return actions, {CANDIDATE: self._candidate.copy()}

    def _some(self, playing: NDArray[np.int64], inputs: NDArray[np.float32]) -> Array:
        """Actions of all lanes, of which some play; the others' are 0, as theirs of no weights."""
        self._population.watch(self._index[playing], inputs)
        some = self._policy.act(self._parameters[playing], self._normalizer(inputs))
        actions = np.zeros((len(self._candidate), *some.shape[1:]), some.dtype)
        actions[playing] = some
        return actions

    @property
    def _incumbent(self) -> Vector:
        """The mean, once a lane."""
        mean = self._population.generation.mean if self._mean is None else self._mean
        return np.broadcast_to(mean, self._parameters.shape)

    def take(self, weights: Tree) -> None:
        """See `Actor.take`: the mean, and how it sees observations."""
        self._mean = np.array(weights["mean"])
        self._normalizer = Normalizer(self._policy.inputs, self._normalizer.on)
        self._normalizer.load(weights["normalizer"])

    def broken_off(self, lanes: NDArray[np.bool_]) -> None:
        """See `Actor.broken_off`: their candidates are played again, from their first step."""
        broken = np.flatnonzero(lanes & (self._candidate >= 0))
        self._population.give_back(self._index[broken].tolist())
        self._candidate[broken] = -1

    def state(self) -> Tree:
        """See `Actor.state`: who plays, and the weights only where the agent's are not played."""
        mean, eyes = self._mean, self._normalizer.state()
        return {
            "candidate": self._candidate.copy(),
            "index": self._index.copy(),
            "stacks": self._stacks.state(),
            "taken": {} if mean is None else {"mean": mean.copy(), "normalizer": eyes},
        }

    def load(self, state: Tree) -> None:
        """See `Actor.load`: the candidates are those of the population's generation."""
        self._candidate, self._index = np.array(state["candidate"]), np.array(state["index"])
        self._stacks.load(state["stacks"])
        generation = self._population.generation
        self._parameters[...] = 0.0
        for lane in np.flatnonzero(self._candidate >= 0):
            index = int(self._index[lane])
            if self._candidate[lane] == candidate_id(generation.number, index):  # else it is over
                self._parameters[lane] = generation.candidate(index)
        self._mean, self._normalizer = None, self._population.normalizer
        if state["taken"]:
            self.take(state["taken"])
