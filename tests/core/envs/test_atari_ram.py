"""Atari's games seen as the console's memory."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from core.envs.atari import Atari, make
from core.envs.options import AtariRamOptions
from core.errors import UsageError
from core.types import ArraySpec
from models.dqn import DQNMLP
from models.options import DQNMLPOptions
from tests.harness import Run, python, settings_of
from utils.options import CONFIGS

from .emulator import RAM, Console
from .optional import needs

ALE = needs("ale_py")
ROW = {"game": "ALE/Pong-v5", "sticky_actions": 0.0}


@pytest.mark.parametrize("skip", [1, 4])
def test_the_newest_frame_s_bytes_are_seen(skip: int) -> None:
    console = Console(over={6: "truncated"})
    game = Atari(console, AtariRamOptions(**ROW, frame_skip=skip))
    assert game.observation_space == spaces.Box(0, 255, (RAM,), np.uint8)
    first = game.reset(seed=1)[0]
    kept = first.copy()
    assert np.array_equal(first, np.arange(RAM))
    over = False
    while not over:
        obs, _, _, over, _ = game.step(0)
        assert obs.dtype == np.uint8
        assert np.array_equal(obs, np.arange(RAM) + console.ale.frame)
    assert console.ale.frame == 6
    assert np.array_equal(first, kept)


@ALE
def test_they_are_those_of_gymnasium() -> None:
    ours = make(AtariRamOptions(**ROW, frame_skip=4), 1)
    assert ours.spec.observations == {"obs": ArraySpec((RAM,), np.dtype(np.uint8))}
    theirs = gym.make(
        "ALE/Pong-v5", obs_type="ram", frameskip=4, repeat_action_probability=0.0
    )  # registered by ours
    obs, wanted = ours.reset([3])["obs"], theirs.reset(seed=3)[0]
    assert np.array_equal(obs[0], wanted)
    rng = np.random.default_rng(0)
    for _ in range(200):
        action = rng.integers(0, 6, 1)
        step = ours.step(action)
        wanted, reward, *_ = theirs.step(action[0])
        assert np.array_equal(step.next_obs["obs"][0], wanted)
        assert step.reward[0] == reward
    assert wanted.std() > 10
    ours.close()
    theirs.close()


@ALE
def test_pictures_need_no_package_here() -> None:
    code = (
        "import sys\n"
        "sys.modules['cv2'] = None\n"
        "from core.envs.atari import make\n"
        "from core.envs.options import AtariRamOptions\n"
        "env = make(AtariRamOptions(game='ALE/Pong-v5'), 2)\n"
        "print(env.reset([1, 2])['obs'].shape)\n"
    )
    assert python(code) == "(2, 128)\n"


@pytest.mark.parametrize(
    ("key", "value"), [("greyscale", "luma"), ("resize", 84), ("max_pool", True)]
)
def test_keys_of_a_picture_are_refused_by_name(key: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"'{key}'.* is read by env .*; atari-ram does not use it"):
        settings_of(CONFIGS["dqn_pong_ram"], **{key: value})


def test_bytes_are_scaled_once() -> None:
    spec = settings_of(CONFIGS["dqn_pong_ram"])
    assert (spec.run.model_type, spec.run.window_length) == ("dqn-mlp", 4)
    env = type("Spec", (), {})()
    env.observations = {"obs": ArraySpec((RAM,), np.dtype(np.uint8))}
    env.actions = type("Actions", (), {"n": 6})()
    net = DQNMLP(DQNMLPOptions(), env, 4)
    stack = torch.randint(0, 256, (3, 4, RAM), dtype=torch.uint8)
    inputs = net.inputs({"obs": stack})
    assert torch.equal(inputs, stack.flatten(1).float() / 255)
    assert 0.9 < inputs.max() <= 1


@ALE
def test_the_row_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.report.EPISODES", 2)
    keys = {"memory_limit": 300, "steps": 80, "learn_start": 40, "eval_freq": 0, "eval_limit": 3}
    run = Run(tmp_path, CONFIGS["dqn_pong_ram"], **keys, eval_episodes=1, checkpoint_freq=0).go()
    assert run.result["status"] == "finished"
    assert run.result["updates"] == 11
    assert run.parts.env.about in run.display.lines
