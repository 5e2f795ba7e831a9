"""Schedules and intervals: pure functions of the one clock, environment steps over all lanes."""

from dataclasses import dataclass


@dataclass
class Clock:
    """Environment steps so far, over all lanes. The runtime moves it; everyone reads it."""

    step: int = 0


@dataclass(frozen=True)
class Linear:
    """From `start` to `end` over `over` steps, then constant."""

    start: float
    end: float
    over: int

    def __call__(self, step: int) -> float:
        """The value at a step."""
        if step >= self.over:
            return self.end
        return self.start + (self.end - self.start) * step / self.over


class Every:
    """Counts the multiples of `interval` that the clock crossed; 0 never fires."""

    def __init__(self, interval: int, step: int = 0) -> None:
        self._interval = interval
        self._last = step

    def crossings(self, step: int) -> int:
        """Multiples of the interval in (last call's step, step]."""
        if self._interval == 0:
            return 0
        crossed = step // self._interval - self._last // self._interval
        self._last = step
        return crossed

    def due(self, step: int) -> bool:
        """Whether at least one multiple was crossed."""
        return self.crossings(step) > 0
