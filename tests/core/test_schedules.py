"""Schedules and intervals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.schedules import Clock, Every, Linear


def test_linear_by_hand() -> None:
    ramp = Linear(1.0, 0.1, 10)
    assert [round(ramp(step), 6) for step in (0, 1, 5, 9, 10, 11, 10**9)] == [
        1.0, 0.91, 0.55, 0.19, 0.1, 0.1, 0.1,
    ]  # fmt: skip
    assert ramp(10) == 0.1


def test_linear_over_nothing_is_its_end() -> None:
    assert Linear(1.0, 0.1, 0)(0) == 0.1


@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 1000), st.integers(0, 2000))
def test_linear_stays_between_its_ends(start: float, end: float, over: int, step: int) -> None:
    assert min(start, end) - 1e-9 <= Linear(start, end, over)(step) <= max(start, end) + 1e-9


@pytest.mark.parametrize(
    ("interval", "steps", "crossings"),
    [
        (4, [1, 3, 4, 5, 8, 9], [0, 0, 1, 0, 1, 0]),
        (4, [3, 6, 9, 12, 15], [0, 1, 1, 1, 0]),  # lanes step together past a multiple
        (2, [8, 16], [4, 4]),
        (1, [1, 2, 3], [1, 1, 1]),
        (0, [1, 100, 1000], [0, 0, 0]),
        (5, [5, 5, 5], [1, 0, 0]),
    ],
)
def test_every_counts_the_multiples_it_crossed(interval, steps, crossings) -> None:
    every = Every(interval)
    assert [every.crossings(step) for step in steps] == crossings


def test_every_goes_on_from_a_saved_step() -> None:
    resumed = Every(10, 25)
    assert [resumed.due(step) for step in (26, 29, 30, 31)] == [False, False, True, False]


@given(st.integers(1, 50), st.lists(st.integers(0, 30), max_size=40))
def test_no_multiple_is_lost_or_counted_twice(interval: int, moves: list[int]) -> None:
    every, step, total = Every(interval), 0, 0
    for move in moves:
        step += move
        total += every.crossings(step)
    assert total == step // interval


def test_the_clock_begins_at_nothing() -> None:
    assert Clock().step == 0
