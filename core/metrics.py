"""Numbers of a run: windows, means and infos, all of constant size."""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import astuple, dataclass, field

import numpy as np

from .envs.base import Step
from .types import Array, Tree, all_of

WINDOW = 100
MAX_INFOS = 64


def mean(values: Collection[float]) -> float | None:
    """The mean, or None of nothing."""
    return float(np.mean(list(values))) if values else None


class Meter:
    """Means of the numbers reported since it was last read; their names are fixed."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._clear()

    def _clear(self) -> None:
        self._sums = dict.fromkeys(self.names, 0.0)
        self._counts = dict.fromkeys(self.names, 0)

    def add(self, metrics: Mapping[str, float]) -> None:
        """Adds one report; raises KeyError for a name that was not announced."""
        for name, value in metrics.items():
            self._sums[name] += float(value)
            self._counts[name] += 1

    def read(self) -> dict[str, float | None]:
        """The means, None where nothing was reported; starts anew."""
        means = {
            name: total / self._counts[name] if self._counts[name] else None
            for name, total in self._sums.items()
        }
        self._clear()
        return means

    def state(self) -> Tree:
        """What was reported since it was last read."""
        return {"sums": list(self._sums.values()), "counts": list(self._counts.values())}

    def load(self, state: Tree) -> None:
        """Takes over a saved state, of the same names."""
        self._sums = dict(zip(self.names, state["sums"], strict=True))
        self._counts = dict(zip(self.names, state["counts"], strict=True))


@dataclass
class Running:
    """Count, mean, least and greatest of a stream."""

    count: int = 0
    mean: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")

    def add(self, values: Array) -> None:
        """Folds in the finite ones of some values."""
        finite = values[np.isfinite(values)]
        if not len(finite):
            return
        self.count += len(finite)
        self.mean += float((finite - self.mean).sum()) / self.count
        self.low = min(self.low, float(finite.min()))
        self.high = max(self.high, float(finite.max()))

    def merge(self, other: "Running") -> None:
        """Folds in what another stream was."""
        if not other.count:
            return
        self.count += other.count
        self.mean += (other.mean - self.mean) * other.count / self.count
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)


@dataclass
class Episodes:
    """Raw returns and lengths by lane: the open episodes, and a window of the newest finished."""

    lanes: int
    finished: int = 0
    returns: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    lengths: deque[int] = field(default_factory=lambda: deque(maxlen=WINDOW))
    infos: dict[str, Running] = field(default_factory=dict)

    heard: Callable[[float, int], None] | None = field(default=None, compare=False)
    """Told of each episode that ends: its return and its length."""

    def __post_init__(self) -> None:
        self.open_return = np.zeros(self.lanes)
        self.open_length = np.zeros(self.lanes, np.int64)

    def record(self, step: Step) -> Array:
        """Counts a step of every lane; gives the lanes whose episode it ended."""
        if all_of(step.stepped):
            self.open_return += step.reward
        else:
            self.open_return[step.stepped] += step.reward[step.stepped]
        self.open_length += step.stepped
        ended = np.flatnonzero(step.ended)
        for lane in ended:
            self._finish(int(lane))
        for key, values in step.infos.items():
            if key in self.infos or len(self.infos) < MAX_INFOS:
                self.infos.setdefault(key, Running()).add(values)
        return ended

    def _finish(self, lane: int) -> None:
        self.count(float(self.open_return[lane]), int(self.open_length[lane]))
        self.open_return[lane], self.open_length[lane] = 0.0, 0

    def count(self, earned: float, length: int) -> None:
        """Counts an episode that ended."""
        self.finished += 1
        self.returns.append(earned)
        self.lengths.append(length)
        if self.heard is not None:
            self.heard(earned, length)

    def forget(self, lanes: Array) -> None:
        """Forgets the open episodes of some lanes: they were broken off, and others begin."""
        self.open_return[lanes], self.open_length[lanes] = 0.0, 0

    def state(self) -> Tree:
        """Everything that changes, copied."""
        # a list of infos, since an environment's key may hold a slash, and a name in a tree may not
        infos = [[key, *astuple(running)] for key, running in self.infos.items()]
        return {
            "finished": self.finished,
            "returns": list(self.returns),
            "lengths": list(self.lengths),
            "open_return": self.open_return.copy(),
            "open_length": self.open_length.copy(),
            "infos": infos,
        }

    def load(self, state: Tree) -> None:
        """Takes over a saved state, of as many lanes."""
        self.finished = state["finished"]
        self.returns = deque(state["returns"], WINDOW)
        self.lengths = deque(state["lengths"], WINDOW)
        self.open_return = np.array(state["open_return"])
        self.open_length = np.array(state["open_length"])
        self.infos = {key: Running(*numbers) for key, *numbers in state["infos"]}

    @property
    def last_return(self) -> float | None:
        """The newest finished return."""
        return self.returns[-1] if self.returns else None
