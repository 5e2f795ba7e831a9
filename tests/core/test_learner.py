"""When learning comes, and when there is nothing to learn."""

from types import SimpleNamespace

from core.options import LoopOptions
from core.schedules import Clock
from core.train import Learner


class Pupil:
    """An agent that updates every call, or only the first of a moment; it counts the calls."""

    def __init__(self, once: bool) -> None:
        self._once = once
        self.updates = self.calls = 0

    def learn(self, memory: object) -> dict[str, float]:
        self.calls += 1
        if self._once and self.calls % 2 == 0:
            return {}
        self.updates += 1
        return {"loss": 1.0}


class Shelf:
    """A memory that is ready after some asking; it counts how often it was asked."""

    def __init__(self, ready_at: int) -> None:
        self._ready_at = ready_at
        self.asked = 0

    def ready(self, units: int) -> bool:
        self.asked += 1
        return self.asked >= self._ready_at


def learner(pupil: Pupil, shelf: Shelf, **keys: int) -> tuple[Learner, Clock, SimpleNamespace]:
    clock = Clock()
    parts = SimpleNamespace(agent=pupil, memory=shelf, clock=clock)
    told: list[dict[str, float]] = []
    recorder = SimpleNamespace(learning=False, meter=SimpleNamespace(add=told.append), told=told)
    return Learner(parts, LoopOptions(**keys)), clock, recorder  # type: ignore[arg-type]


def test_an_agent_that_updates_is_called_as_often_as_is_due():
    pupil = Pupil(once=False)
    learn, clock, recorder = learner(pupil, Shelf(1), train_interval=2, updates=3)
    for step in (1, 2, 6, 7):
        clock.step = step
        learn(False, recorder)
    assert pupil.calls == pupil.updates == 3 * 3 and len(recorder.told) == 9


def test_an_agent_that_waits_for_more_is_not_asked_again_at_the_same_moment():
    pupil = Pupil(once=True)
    learn, clock, recorder = learner(pupil, Shelf(1), train_interval=1)
    clock.step = 40  # forty times due at once, as for forty lanes
    learn(False, recorder)
    assert (pupil.updates, pupil.calls) == (1, 2)


def test_a_memory_is_asked_until_it_is_ready_and_only_when_learning_is_due():
    shelf, pupil = Shelf(3), Pupil(once=False)
    learn, clock, recorder = learner(pupil, shelf, train_interval=10)
    for step in range(1, 101):
        clock.step = step
        learn(False, recorder)
    assert shelf.asked == 3 and pupil.calls == 8
