"""Generations for tests, and lanes that play them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from core.memory import Writer
from core.parameters.generation import Generation
from core.parameters.kept import candidate_id
from core.parameters.returns import CANDIDATE

NOBODY = -1


def generation(number: int = 0, count: int = 6, size: int = 5) -> Generation:
    """Antithetic pairs around a random mean, with a spread for each number."""
    rng = np.random.default_rng(1_000 + number)
    return Generation(
        number,
        rng.normal(size=size).astype(np.float32),
        rng.uniform(0.1, 1, size).astype(np.float32),
        np.repeat(rng.integers(0, 2**62, (count + 1) // 2), 2)[:count],
        np.tile(np.array([1, -1], np.int8), (count + 1) // 2)[:count],
    )


class Judge(Protocol):
    """What says how a candidate's episode goes."""

    def __call__(self, number: int, index: int) -> Sequence[float]:
        """The rewards of its steps."""


def rewards(number: int, index: int) -> list[float]:
    """One to seven steps, by candidate, whose sum depends on the order of adding."""
    rng = np.random.default_rng((number, index))
    return (rng.normal(size=rng.integers(1, 8)) * 10.0 ** rng.integers(-3, 4)).tolist()


def total(earned: Sequence[float]) -> float:
    """What the writer's sum has to be, to the bit: one addition after the other."""
    summed = 0.0
    for reward in earned:
        summed += reward
    return summed


def play(writer: Writer, played: Generation, lanes: int, judge: Judge = rewards) -> None:
    """Lanes take the next candidate as they become free; a lane that has none stands still."""
    waiting = list(range(len(played)))
    at_play: list[tuple[int, list[float]] | None] = [None] * lanes
    while True:
        for lane in range(lanes):
            if at_play[lane] is None and waiting:
                index = waiting.pop(0)
                at_play[lane] = (index, list(judge(played.number, index)))
                writer.start(nothing(1), np.array([lane]))
        moving = [lane for lane in range(lanes) if at_play[lane] is not None]
        if not moving:
            return
        names, earned, ended = [], [], []
        for lane in moving:
            index, left = at_play[lane]
            names.append(candidate_id(played.number, index))
            earned.append(left.pop(0))
            ended.append(not left)
            if not left:
                at_play[lane] = None
        step(writer, earned, ended, names, lanes=moving)


def step(
    writer: Writer,
    reward: Sequence[float],
    ended: Sequence[bool],
    names: Sequence[int] | None = None,
    *,
    lanes: Sequence[int] | None = None,
    cut: bool = False,
) -> None:
    """One step of some lanes, whose candidates are named, or of all of the writer's."""
    count = len(reward)
    over, no = np.array(ended, np.bool_), np.zeros(count, np.bool_)
    writer.append(
        np.zeros(count, np.int64),
        np.array(reward, np.float64),
        no if cut else over,
        over if cut else no,
        nothing(count),
        None if names is None else {CANDIDATE: np.array(names, np.int64)},
        lanes=None if lanes is None else np.array(lanes, np.int64),
    )


def episode(writer: Writer, *earned: float) -> None:
    """An episode that nobody is named for, in the one lane there is."""
    writer.start(nothing(1))
    for place, reward in enumerate(earned):
        step(writer, [reward], [place == len(earned) - 1])


def nothing(lanes: int) -> Mapping[str, np.ndarray]:
    """Observations, which nobody keeps."""
    return {"obs": np.zeros((lanes, 1), np.float32)}


def same(one: Mapping[str, np.ndarray], two: Mapping[str, np.ndarray]) -> bool:
    """Whether two batches are the same to the bit."""
    return one.keys() == two.keys() and all(
        one[name].dtype == two[name].dtype and one[name].tobytes() == two[name].tobytes()
        for name in one
    )


def copied(tree):
    """A tree of state that no later change reaches."""
    if isinstance(tree, Mapping):
        return {key: copied(value) for key, value in tree.items()}
    return tree.copy() if isinstance(tree, np.ndarray) else tree
