"""Thinned curves and the following of a progress.csv."""

import math
import os
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from utils.series import CURVES, LIMIT, Curves, Progress, Trace

finite = st.floats(-1e6, 1e6)


def filled(values: list[float], limit: int = LIMIT) -> Trace:
    trace = Trace(limit)
    for step, value in enumerate(values):
        trace.add(float(step), value)
    return trace


@given(st.lists(finite, max_size=400), st.integers(8, 64))
def test_a_trace_keeps_the_extremes_the_newest_and_the_order(values: list[float], limit: int):
    check(values, limit)


@pytest.mark.parametrize("limit", [8, 9, 10, 13, 64])
def test_a_trace_does_so_at_every_length(limit: int):
    random = Random(limit)
    values = [random.gauss(0, 1) for _ in range(300)]
    for length in range(len(values)):
        check(values[:length], limit)


def check(values: list[float], limit: int) -> None:
    points = filled(values, limit).points()
    assert len(points) <= limit
    steps = [step for step, _ in points]
    assert steps == sorted(set(steps))
    assert all(values[int(step)] == value for step, value in points)
    if values:
        kept = [value for _, value in points]
        assert (min(kept), max(kept)) == (min(values), max(values))
        assert points[-1] == (len(values) - 1, values[-1])


@given(st.lists(finite, min_size=1, max_size=600), st.integers(8, 64))
def test_every_bucket_keeps_its_own_extremes(values: list[float], limit: int):
    trace = filled(values, limit)
    kept = dict(trace.points())
    for first in range(0, len(values) - trace.width, trace.width):
        bucket = values[first : first + trace.width]
        found = [kept[first + i] for i in range(trace.width) if first + i in kept]
        assert (min(bucket), max(bucket)) == (min(found), max(found))


def test_a_trace_is_exact_until_its_limit_is_near():
    values = [math.sin(i) for i in range(LIMIT - 4)]
    assert filled(values).points() == list(enumerate(values))


def test_a_spike_of_one_row_among_a_million_stays():
    trace = Trace()
    for step in range(1_000_000):
        trace.add(step, 1e3 if step == 765_432 else 0.0)
    assert (765_432, 1e3) in trace.points()
    assert len(trace.points()) <= LIMIT


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_left_out(value: float):
    trace = Trace()
    assert trace.add(1, 2.0)
    assert not trace.add(2, value)
    assert not trace.add(value, 2.0)
    assert trace.points() == [(1, 2.0)]


def test_a_trace_without_room_is_refused():
    with pytest.raises(ValueError, match="at least 8 points"):
        Trace(7)


# Following the file.


def test_rows_come_once_and_as_the_file_grows(tmp_path: Path):
    path = tmp_path / "progress.csv"
    progress = Progress(path)
    assert list(progress.rows()) == []
    path.write_text("step,loss\n1,0.5\n")
    assert list(progress.rows()) == [{"step": 1, "loss": 0.5}]
    with path.open("a") as file:
        file.write("2,\n3,0.2")
    assert list(progress.rows()) == [{"step": 2}]
    with path.open("a") as file:
        file.write("5\n")
    assert list(progress.rows()) == [{"step": 3, "loss": 0.25}]
    assert list(progress.rows()) == []


@given(st.lists(st.integers(1, 12), max_size=30))
def test_wherever_the_writer_is_cut_every_row_comes_once(tmp_path_factory, cuts: list[int]):
    path = tmp_path_factory.mktemp("cut") / "progress.csv"
    text = "step,loss\n" + "".join(f"{i},{i}.5\n" for i in range(20))
    progress, given_rows, at = Progress(path), [], 0
    for cut in [*cuts, len(text)]:
        with path.open("a") as file:
            file.write(text[at : at + cut])
        at += cut
        given_rows += list(progress.rows())
    assert given_rows == [{"step": i, "loss": i + 0.5} for i in range(20)]


def test_a_damaged_line_is_skipped(tmp_path: Path):
    path = tmp_path / "progress.csv"
    path.write_bytes(b"step,loss\n1,0.5\n2,0.4,7\nx,y\n3\n\xff,1\n\n4,0.3\n")
    assert [row["step"] for row in Progress(path).rows()] == [1, 4]


@pytest.mark.parametrize("again", [2, 3, 4, 40])
def test_a_file_that_was_cut_back_is_read_again(tmp_path: Path, again: int):
    """However far it has grown since: shorter than before, as long, or longer."""
    path = tmp_path / "progress.csv"
    restarts = []
    progress = Progress(path, lambda: restarts.append(1))
    path.write_text("step,loss\n1,0.5\n2,0.5\n3,0.5\n")
    assert len(list(progress.rows())) == 3
    os.truncate(path, len("step,loss\n1,0.5\n"))
    with path.open("a") as file:
        file.write("".join(f"{step},0.7\n" for step in range(2, again + 1)))
    rows = list(progress.rows())
    assert restarts == [1]
    assert [row["step"] for row in rows] == list(range(1, again + 1))
    assert [row["loss"] for row in rows] == [0.5] + [0.7] * (again - 1)


# The curves.


HEADER = "step,wall_seconds,return_mean,eval_return_mean,updates,memory_len,memory_bytes\n"


def curve(name: str):
    return next(curve for curve in CURVES if curve.window == name)


def test_curves_are_read_and_derived(tmp_path: Path):
    path = tmp_path / "progress.csv"
    path.write_text(HEADER + "100,1,20,,0,100,5000000\n200,3,30,25,50,200,10000000\n")
    curves = Curves(path, memory_limit=400)
    curves.read()
    assert curves.traces(curve("return")) == {
        "train": [(100, 20), (200, 30)],
        "eval": [(200, 25)],
    }
    assert curves.traces(curve("updates_per_second")) == {"updates/s": [(200, 25)]}
    assert curves.traces(curve("memory_fill")) == {"fill": [(100, 25), (200, 50)]}
    assert curves.traces(curve("memory_bytes")) == {"memory": [(100, 5), (200, 10)]}


def test_a_curve_without_its_column_has_no_window(tmp_path: Path):
    path = tmp_path / "progress.csv"
    path.write_text("step,return_mean,loss\n1,5,\n2,6,inf\n")
    curves = Curves(path)
    curves.read()
    assert curves.changed == {"return"}
    assert curves.traces(curve("loss")) == {}
    assert curves.traces(curve("memory_fill")) == {}


def test_only_what_has_a_new_point_is_changed(tmp_path: Path):
    path = tmp_path / "progress.csv"
    path.write_text("step,return_mean,loss\n1,5,1\n")
    curves = Curves(path)
    curves.read()
    assert curves.changed == {"return", "loss"}
    curves.changed.clear()
    curves.read()
    assert curves.changed == set()
    with path.open("a") as file:
        file.write("2,6,\n")
    curves.read()
    assert curves.changed == {"return"}
    curves.touch()
    assert curves.changed == {"return", "loss"}


def test_a_resumed_run_does_not_draw_back_over_itself(tmp_path: Path):
    path = tmp_path / "progress.csv"
    path.write_text("step,return_mean\n1,5\n2,6\n3,7\n")
    curves = Curves(path)
    curves.read()
    path.write_text("step,return_mean\n1,5\n2,60\n")
    curves.read()
    assert curves.traces(curve("return")) == {"train": [(1, 5), (2, 60)]}
    assert curves.changed == {"return"}


def test_a_break_in_the_clock_gives_no_rate(tmp_path: Path):
    path = tmp_path / "progress.csv"
    path.write_text("step,wall_seconds,updates\n1,10,100\n2,10,120\n3,2,130\n4,3,90\n5,4,100\n")
    curves = Curves(path)
    curves.read()
    assert curves.traces(curve("updates_per_second")) == {"updates/s": [(5, 10)]}
