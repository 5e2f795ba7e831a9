"""Reports ENV-06, ENV-08 and ENV-10: episodes that never end, clipped scores, missing screens."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import agents.dqn
from core.envs.atari import make as make_atari
from core.envs.gym import make
from core.envs.options import AtariOptions, GymOptions
from core.evaluate import evaluate
from tests.core.envs.optional import needs
from tests.harness import CHAIN, ROOT, Run, environment, rows_of

ME = "tests.reports.test_env_steps"
ROW = {**CHAIN, "env_type": "gym", "steps": 400, "eval_freq": 200, "eval_episodes": 2}
del ROW["size"]


class Waiting(gym.Env[Any, Any]):
    """Nothing happens before the action `start`; then `length` steps, each worth 10."""

    def __init__(self, length: int = 20, start: int | None = 1) -> None:
        self.observation_space = spaces.Box(0, 1, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._length, self._start = length, start
        self._at = 0

    def _observe(self) -> np.ndarray:
        return np.array([self._at > 0, self._at / self._length], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._at = 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        begins = self._at > 0 or self._start in (None, action)
        self._at += begins
        return self._observe(), 10.0 * begins, self._at == self._length, False, {}


gym.register("Waiting-v0", f"{ME}:Waiting")
gym.register("Never-v0", f"{ME}:Waiting", kwargs={"start": 2})
gym.register("Earning-v0", f"{ME}:Waiting", kwargs={"start": None})


class Constant:
    """An actor that never presses the button."""

    playing = None

    def act(self, obs: Any, first: Any, step: int, *, explore: bool) -> Any:
        return np.zeros(len(first), np.int64), {}


def test_env_06_an_evaluation_ends_though_the_game_never_begins() -> None:
    # pass: evaluation ends, episode marked as cut off
    env = make(GymOptions(game="Waiting-v0"), 2)
    found = evaluate(env, Constant(), [1, 2], 3, limit=200)  # type: ignore[arg-type]
    assert found is not None
    # a lane whose episode is cut plays no more
    assert found.lengths == (200, 200)
    assert found.returns == (0.0, 0.0)
    assert found.cut == 2
    env.close()


@pytest.mark.parametrize("time_limit", [0, 30])
def test_env_06_and_the_run_goes_on(time_limit: int, tmp_path: Path) -> None:
    # pass: run goes on
    keys = {"game": "Never-v0", "eval_limit": 25, "time_limit": time_limit}
    run = Run(tmp_path, ROW, **keys).go()
    assert run.result["status"] == "finished"
    assert "2 evaluation episodes were cut at 25" in run.log
    lengths = {float(row["length_mean"] or 0) for row in rows_of(run.folder.path / "progress.csv")}
    assert lengths - {0.0} == ({30.0} if time_limit else set())


def test_env_06_without_a_limit_training_has_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.envs.gym.NO_LIMIT", 50)
    env = make(GymOptions(game="Never-v0"), 1)
    env.reset([1])
    ends = [env.step(np.zeros(1, np.int64)).truncated[0] for _ in range(100)]
    assert np.flatnonzero(ends).tolist() == [49, 99]
    env.close()


@needs("ale_py", "cv2")
@pytest.mark.parametrize("fire", [True, False])
def test_env_06_buttons_and_idle_frames_are_options_that_are_told(fire: bool) -> None:
    options = AtariOptions(game="ALE/Breakout-v5", fire_reset=fire, noop_max=7, time_limit=40)
    env = make_atari(options, 1)
    assert f"noop_max 7, fire_reset {str(fire).lower()}, " in env.about
    env.reset([1])
    steps = [env.step(np.zeros(1, np.int64)) for _ in range(40)]
    # a ball that nobody serves waits for ever, and the limit cuts it
    lost = any(step.infos["lives"][0] < 5 for step in steps)
    assert (lost, bool(steps[-1].truncated[0])) == (fire, True)
    env.close()


def test_env_08_scores_are_raw_whatever_the_learner_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pass: evaluation return = 200 and training return in the CSV = 200; learner rewards <= 1
    learnt: list[torch.Tensor] = []
    clipped = agents.dqn.clipped

    def watched(rewards: torch.Tensor, bound: float) -> torch.Tensor:
        assert bound == 1.0
        learnt.append(clipped(rewards, bound).clone())
        return clipped(rewards, bound)

    monkeypatch.setattr("agents.dqn.clipped", watched)
    run = Run(tmp_path, ROW, game="Earning-v0", clip_reward=1.0).go()
    rows = rows_of(run.folder.path / "progress.csv")
    assert {float(row["return_mean"]) for row in rows if row["return_mean"]} == {200.0}
    assert {float(row["eval_return_mean"]) for row in rows if row["eval_return_mean"]} == {200.0}
    assert run.result["eval_return_mean"] == run.result["last_eval_return_mean"] == 200.0
    assert len(learnt) > 50
    assert all((rewards == 1.0).all() for rewards in learnt)
    # what is remembered is raw too: clipping belongs to whoever learns
    assert (run.parts.memory.sample(8)["reward"] == 10.0).all()


def without_display(code: str, **variables: str) -> dict[str, Any]:
    """What a process of its own prints as JSON, on a machine without a screen."""
    clean = {
        name: value
        for name, value in environment().items()
        if name not in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, env={**clean, **variables}, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


PLAY = """
import json, os
import gymnasium as gym, numpy as np
from core.envs.gym import make
from core.envs.options import GymOptions
said = {}
for game, keys in GAMES:
    env = make(GymOptions(game=game, **keys), 2)
    env.reset([1, 2])
    for _ in range(100):
        step = env.step(np.full(2, 1))
    (last,) = step.next_obs.values()
    said[game] = [list(last.shape), float(last.std())]
    env.close()
clip = gym.make("CartPole-v1", render_mode="rgb_array")
clip.reset(seed=1)
said["clip"] = list(clip.render().shape)
said["driver"] = os.environ.get("SDL_VIDEODRIVER")
print(json.dumps(said))
"""


@needs("pygame", unless="ENGRAM_REQUIRE_BOX2D")
def test_env_10_pictures_are_drawn_without_a_screen() -> None:
    # pass: one clip and 100 pixel steps work without DISPLAY
    said = without_display("GAMES = [('CartPole-v1', {})]" + PLAY)
    assert said["clip"] == [400, 600, 3]
    assert said["driver"] == "dummy"


@needs("Box2D", "pygame", unless="ENGRAM_REQUIRE_BOX2D")
def test_env_10_so_it_is_with_box2d() -> None:
    racing = {"actions": "discrete", "frame_skip": 2}
    games = [("CarRacing-v3", racing), ("LunarLander-v3", {})]
    said = without_display(f"GAMES = {games}" + PLAY)
    shape, spread = said["CarRacing-v3"]
    assert shape == [2, 96, 96, 3]
    assert spread > 10
    assert said["LunarLander-v3"][0] == [2, 8]
    assert said["clip"] == [400, 600, 3]


@needs("pygame", unless="ENGRAM_REQUIRE_BOX2D")
def test_env_10_a_driver_that_somebody_chose_is_left_alone() -> None:
    said = without_display("GAMES = [('CartPole-v1', {})]" + PLAY, SDL_VIDEODRIVER="offscreen")
    assert said["driver"] == "offscreen"
    assert "SDL_VIDEODRIVER" not in os.environ or os.environ["SDL_VIDEODRIVER"] != "offscreen"
