"""What stands in the windows of the board."""

import numpy as np

from utils.board_windows import FEW, config_window, curve_window
from utils.series import CURVES, Curve

RETURN = CURVES[0]


def test_traces_of_different_lengths_share_a_window():
    window = curve_window(RETURN, {"train": [(1, 5), (2, 6), (3, 7)], "eval": [(2, 9)]})
    assert window["win"] == "return"
    assert window["X"].tolist() == [[1, 5], [2, 6], [3, 7], [2, 9]]
    assert window["Y"].tolist() == [1, 1, 1, 2]
    assert window["opts"]["legend"] == ["train", "eval"]


def test_a_trace_keeps_its_name_when_it_is_alone():
    window = curve_window(RETURN, {"eval": [(2, 9)]})
    assert window["Y"].tolist() == [2]
    assert window["X"].dtype == np.float64


def test_few_points_are_marked_and_many_are_not():
    few = curve_window(RETURN, {"train": [(i, i) for i in range(FEW)]})
    many = curve_window(RETURN, {"train": [(i, i) for i in range(FEW + 1)]})
    modes = [w["opts"]["traceopts"]["plotly"]["train"]["mode"] for w in (few, many)]
    assert modes == ["lines+markers", "lines"]


def test_the_legend_is_shown_where_there_is_a_choice():
    alone = curve_window(Curve("loss", "loss", (("loss", "loss"),)), {"loss": [(1, 1)]})
    assert not alone["opts"]["layoutopts"]["plotly"]["showlegend"]
    assert curve_window(RETURN, {"train": [(1, 1)]})["opts"]["layoutopts"]["plotly"]["showlegend"]


def test_windows_have_names_of_their_own():
    names = [curve.window for curve in CURVES]
    assert len(set(names)) == len(names)
    assert "run" not in names


def test_the_config_pane_shows_every_key_and_version_and_runs_no_markup():
    config = {"row": "my<script>row", "options": {"gamma": 0.99, "game": "<img src=x>"}}
    text = config_window("a-run-s1", config, {"torch": "2.13.0"})["text"]
    for word in ("a-run-s1", "gamma", "0.99", "torch", "2.13.0", "&lt;img src=x&gt;"):
        assert word in text
    assert "<script" not in text
    assert "<img" not in text


def test_a_run_without_config_still_has_a_pane():
    assert "a-run-s1" in config_window("a-run-s1", {}, {})["text"]
