"""What the race to a score makes of returns and times; the training itself is not tested here."""

import json
from typing import Any

import pytest

from benchmarks import time_to_score
from benchmarks.peers.pace import EnoughError, Pace, Race, watch
from benchmarks.time_to_score import CONTESTS, main
from tests.benchmarks.test_train_speed import train_flag
from utils.settings import find_row, resolve


def test_a_race_ends_where_the_newest_returns_have_the_goals_mean():
    race = Race(goal=5.0, window=2, limit=100)
    for step, earned in ((1, 9.0), (2, 0.0), (3, 4.0)):  # one alone is no window
        race.ended(earned)
        race.at(step)
    race.ended(6.0)
    with pytest.raises(EnoughError):
        race.at(4, updates=3)
    assert (race.figures["reached"], race.figures["score"]) == (True, 5.0)
    assert (race.figures["steps"], race.figures["updates"]) == (4, 3)


def test_a_race_is_given_up_at_its_limit():
    race = Race(goal=5.0, window=2, limit=3)
    race.at(2)
    with pytest.raises(EnoughError):
        race.at(3)
    assert race.figures["reached"] is False


def test_settings_with_a_goal_are_a_race():
    assert isinstance(watch({"goal": 1.0, "window": 2, "end": 3}), Race)
    assert isinstance(watch({"begin": 1, "end": 3}), Pace)


@pytest.mark.parametrize(("ours", "code"), [(7.0, 0), (8.0, 1)])
def test_the_exit_code_says_whether_the_bar_was_missed(
    ours: float, code: int, monkeypatch, tmp_path
):
    def told_by(words: list[str], who: str) -> dict[str, Any]:
        seed = json.loads(words[-1])["seed"]  # the middle one of three is what counts
        seconds = (ours if who == "ours" else 10.0) * (1, 30, 0.1)[seed - 1]
        return {"reached": seed != 2, "score": 1.0, "steps": 9, "cpu_seconds": seconds}

    monkeypatch.setattr(time_to_score, "told_by", told_by)
    place = tmp_path / "rows.json"
    words = ["--races", "breakout", "--seeds", "3", "--json", str(place)]
    assert main(words) == code
    (row,) = json.loads(place.read_text())
    assert row["value"] == pytest.approx(ours / 10)
    assert row["reached"] == {"ours": 2, "sb3": 2}


@pytest.mark.parametrize("name", CONTESTS)
def test_what_races_is_a_row_with_the_peers_network(name: str):
    contest = CONTESTS[name]
    given = contest.settings("ours", 3)
    chosen = resolve(
        contest.row,
        find_row(contest.row),
        {key: train_flag(value) for key, value in given["flags"].items()},
    )
    values = chosen.flat()
    plain = {"dueling": "off", "layer_norm": False, "noisy": False, "distribution": "none",
             "double": False, "sampler": "uniform"}  # fmt: skip
    assert {key: values[key] for key in plain} == plain
    assert contest.flags.items() <= contest.settings("sb3", 3).items()
