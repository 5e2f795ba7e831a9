"""What actions are called."""

import json
from pathlib import Path
from typing import Any

import pytest

import main
from tests.core.envs.optional import needs
from tests.harness import CHAIN, EMPTY, settings_of
from utils.assemble import make_env
from utils.options import CONFIGS
from utils.worlds import action_names, lanes_of

BOX2D = needs("Box2D", unless="ENGRAM_REQUIRE_BOX2D")
# SWIG's types, of Box2D, are made in C, which dies of a warning that is made an error
NO_ERROR = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ({"env_type": "toy", "game": "catch"}, ["left", "stay", "right"]),
        ({"env_type": "gym", "game": "CartPole-v1"}, ["left", "right"]),
        ({"env_type": "gym", "game": "FrozenLake-v1"}, []),
        pytest.param(
            {"env_type": "gym", "game": "LunarLander-v3"},
            ["nothing", "left engine", "main engine", "right engine"],
            marks=[BOX2D, NO_ERROR],
        ),
        pytest.param(
            {"env_type": "atari", "game": "ALE/Pong-v5"},
            ["NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"],
            marks=needs("ale_py", "cv2"),
        ),
        pytest.param(
            {"env_type": "minatar", "game": "breakout", "full_action_space": False},
            ["noop", "left", "right"],
            marks=needs("minatar"),
        ),
    ],
    ids=lambda value: value["game"] if isinstance(value, dict) else "",
)
def test_actions_have_the_names_of_their_game(keys: dict[str, Any], names: list[str]):
    config = {key: value for key, value in EMPTY.items() if key != "size"}
    settings = settings_of({**config, **keys})
    env = make_env(settings, 2)
    assert action_names(env, settings.env.game) == names
    assert not names or len(names) == env.spec.actions.n  # type: ignore[union-attr]
    env.close()


def test_lanes_that_are_no_environments_have_no_names():
    class Other:
        pass

    assert lanes_of(Other()) is None  # type: ignore[arg-type]
    assert action_names(Other(), "theirs") == []  # type: ignore[arg-type]


def test_a_run_says_what_its_actions_are_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(CONFIGS, "chain", {**CHAIN, "steps": 60})
    assert main.run(["chain", "--runs", str(tmp_path)]) == 0
    (told,) = tmp_path.glob("*/live/actions.json")
    assert json.loads(told.read_text()) == {"names": ["leave", "right"]}
