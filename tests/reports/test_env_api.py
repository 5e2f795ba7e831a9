"""Report ENV-01: only the five-value interface is used."""

import json
from pathlib import Path

import pytest

import main
from tests.harness import flags, only_folder

KEYS = {"steps": 200, "learn_start": 10, "eval_freq": 0, "visdom": "off"}


def test_env_01_cartpole_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("core.report.EPISODES", 2)
    assert main.run(["random_cartpole", *flags(**KEYS, runs=tmp_path)]) == 0
    result = json.loads((only_folder(tmp_path) / "result.json").read_text())
    assert result["status"] == "finished" and result["memory_len"] == 200


@pytest.mark.parametrize(
    ("game", "why"),
    [
        ("FourValues", "its step gives 4 values, not 5"),
        ("BareReset", "its reset gives no (observation, info)"),
    ],
)
def test_env_01_an_old_env_ends_with_one_line(
    game: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    game = f"tests.faults.worlds:{game}-v0"
    assert main.run(["random_cartpole", *flags(**KEYS, game=game, runs=tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"engram: '{game}' speaks the old gym interface: {why}; port it to gymnasium.Env\n"
    )
    assert list(tmp_path.iterdir()) == [], "refused before anything is built"
