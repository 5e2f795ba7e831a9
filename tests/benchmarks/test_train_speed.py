"""What the benchmark of training makes of figures; the training itself is not tested here."""

import json
from typing import Any

import pytest

from benchmarks import train_speed
from benchmarks.peers.pace import EnoughError, Pace
from benchmarks.train_speed import TASKS, main
from utils.settings import find_row, resolve


def figures(rates: dict[str, float]):
    """In place of runs: rates by who runs, the same every time."""

    def measured(task: Any, who: str, seed: int) -> dict[str, Any]:
        return {"rate": rates[who] * seed, "version": "1.0", "threads": 1}

    return measured


@pytest.fixture(name="everyone")
def _everyone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_speed, "installed", lambda peer: True)


@pytest.mark.usefixtures("everyone")
@pytest.mark.parametrize(("sb3", "code"), [(100.0, 0), (120.0, 1)])
def test_the_exit_code_says_whether_a_bar_was_missed(sb3: float, code: int, monkeypatch, tmp_path):
    rates = {"ours": 200.0, "sb3": sb3, "sbx": 900.0, "plain": 900.0}
    monkeypatch.setattr(train_speed, "measured", figures(rates))
    place = tmp_path / "rows.json"
    assert main(["--tasks", "cartpole_zoo", "--rounds", "3", "--json", str(place)]) == code
    rows = {row["name"]: row for row in json.loads(place.read_text())}
    assert rows["cartpole_zoo: ours, env steps/s"]["value"] == 400.0  # the median of three rounds
    ratio = rows["cartpole_zoo: ours / sb3"]
    # rounds differ threefold, and the ratio does not: each is taken within its round
    assert ratio["value"] == pytest.approx(200 / sb3)
    assert (ratio["target"], ratio["ok"]) == (1.75, code == 0)
    assert rows["cartpole_zoo: ours / sbx"]["target"] is None


def test_a_peer_that_is_not_installed_is_named_and_left_out(monkeypatch, capsys):
    monkeypatch.setattr(train_speed, "installed", lambda peer: False)
    monkeypatch.setattr(train_speed, "measured", figures({"ours": 1.0, "plain": 1.0}))
    assert main(["--tasks", "es", "--rounds", "1"]) == 0
    assert "es: no evotorch: make bench-setup" in capsys.readouterr().err


@pytest.mark.parametrize("name", TASKS)
def test_what_is_trained_is_a_row_with_keys_that_it_has(name: str):
    task = TASKS[name]
    for own in task.variants.values():
        flags = {key: train_flag(value) for key, value in {**task.flags, **own}.items()}
        assert resolve(task.row, find_row(task.row), flags).run.steps > 0
    peer = next(iter(task.bars))
    given = task.settings(peer, 3)
    assert given["seed"] == 3 and given["end"] - given["begin"] == task.steps
    assert task.flags.items() <= given.items()


def train_flag(value: Any) -> str:
    from benchmarks.train_ours import flag

    return flag(value)


def test_a_pace_counts_from_its_beginning_to_its_end():
    pace = Pace(10, 30)
    with pytest.raises(EnoughError):
        for step in range(0, 100, 4):
            pace.at(step, updates=step // 2)
    assert pace.figures["steps"] == 32 - 12 and pace.figures["updates"] == 10
    assert pace.figures["rate"] > 0
