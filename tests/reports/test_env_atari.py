"""Reports of users about Atari and about pictures, each kept from coming back."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import main
from core.envs.atari import make
from core.envs.gym import make as make_gym
from core.envs.options import AtariOptions, GymOptions, ToyOptions
from core.envs.spaces import pictures
from core.envs.toy import Counter, Moment, decode, encode
from core.envs.vector import GymVector
from core.errors import UsageError
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.rollout import Rollout
from core.types import ArraySpec
from models.dqn import DQNCNN
from models.options import DQNCNNOptions
from tests.core.envs.optional import needs
from tests.harness import ROOT, Run, environment
from utils.options import CONFIGS

ALE = needs("ale_py", "cv2")
SMALL: dict[str, Any] = {
    "memory_limit": 300,
    "steps": 90,
    "learn_start": 40,
    "batch_size": 8,
    "eval_freq": 0,
    "eval_limit": 3,
    "eval_episodes": 2,
    "checkpoint_freq": 0,
    "log_freq": 30,
    "visdom": "off",
}
INSTALL = "pip install -r requirements-atari.txt"


def main_without(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`python main.py ...` where a module cannot be imported."""
    code = (
        f"import sys; sys.modules[{module!r}] = None; import main; sys.exit(main.run(sys.argv[1:]))"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("module", ["ale_py", pytest.param("cv2", marks=needs("ale_py"))])
def test_env_04_without_the_package_one_line_says_what_to_install(module: str) -> None:
    # pass: works with the package; without it one helpful line, exit != 0 <= 10 s
    begun = time.monotonic()
    done = main_without(module, "dqn_pong")
    assert done.returncode == 2
    assert done.stderr == f"engram: Atari needs the package '{module}': {INSTALL}\n"
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("module", ["ale_py", pytest.param("cv2", marks=needs("ale_py"))])
@pytest.mark.parametrize("game", ["ALE/Pong-v5", "ALE/Pnog-v5", "Atari/Pong-v5"])
def test_env_04_and_so_it_does_whatever_the_id(
    module: str, game: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    assert main.run(["dqn_pong", "--game", game]) == 2
    out, error = capsys.readouterr()
    assert (out, error) == ("", f"engram: Atari needs the package '{module}': {INSTALL}\n")


@pytest.fixture(scope="module")
def pong(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of the row, as small as can be."""
    return Run(tmp_path_factory.mktemp("runs"), CONFIGS["dqn_pong"], **SMALL).go()


@ALE
def test_env_04_with_the_package_nobody_registers_anything(pong: Run) -> None:
    assert pong.result["status"] == "finished"
    assert pong.result["updates"] > 5


@ALE
@pytest.mark.parametrize("game", ["ALE/Pnog-v5", "Atari/Pong-v5", "Pong-v5"])
def test_env_04_another_name_is_answered_with_the_nearest(game: str) -> None:
    with pytest.raises(UsageError, match=f"no game '{game}'; did you mean 'ALE/Pong-v5'"):
        make(AtariOptions(game=game), 1)


@ALE
@pytest.mark.parametrize("game", ["ALE/Pnog-v5", "Atari/Pong-v5"])
def test_env_04_on_the_command_line_that_is_one_line(
    game: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["dqn_pong", "--game", game, "--runs", str(tmp_path)]) == 2
    assert capsys.readouterr() == (
        "", f"engram: ALE knows no game '{game}'; did you mean 'ALE/Pong-v5'?\n"
    )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


@ALE
@pytest.mark.parametrize("game", ["ALE/Pong-v5", "PongNoFrameskip-v4"])
def test_env_04_an_atari_id_in_another_family_is_sent_to_its_own(game: str) -> None:
    says = f"'{game}' is a game of Atari: set --env_type atari"
    with pytest.raises(UsageError, match=says):
        make_gym(GymOptions(game=game), 1)
    make(AtariOptions(game=game), 1).close()  # ale-py is registered from here on
    with pytest.raises(UsageError, match=says):
        make_gym(GymOptions(game=game), 1)


@ALE
@pytest.mark.parametrize(
    ("game", "own"),
    [
        ("ALE/Pong-v5", " (the id's own 4 is off)"),
        ("Pong-v4", " (the id's own (2, 5) is off)"),
        ("PongNoFrameskip-v4", ""),
        ("PongDeterministic-v4", " (the id's own 4 is off)"),
    ],
)
@pytest.mark.parametrize("skip", [1, 4])
def test_env_07_a_step_is_as_many_frames_as_asked_for(game: str, own: str, skip: int) -> None:
    # pass: exactly 4 inner frames per step
    env = make(AtariOptions(game=game, frame_skip=skip), 2)
    env.reset([1, 2])
    for at in range(1, 6):
        step = env.step(np.zeros(2, np.int64))
        assert step.infos["frames"].tolist() == [at * skip] * 2
    inner = [lane.unwrapped._ale.getEpisodeFrameNumber() for lane in env._envs.envs]
    assert inner == [5 * skip] * 2
    assert f"frame_skip {skip}{own}," in env.about
    env.close()


@ALE
def test_env_07_a_run_says_once_what_was_decided(pong: Run) -> None:
    # pass: header lists skip, sticky, life-loss, no-op
    said = [line for line in pong.display.lines if "frame_skip" in line]
    assert said == [pong.parts.env.about]
    for part in ("frame_skip 4", "sticky_actions 0.0", "episodic_life true", "noop_max 30"):
        assert part in said[0]
    assert said[0] in pong.log


class Painted(gym.Env[Any, Any]):
    """The toy counter with a channel axis, first or last, and the code in every channel."""

    def __init__(self, layout: str, channels: int) -> None:
        options = ToyOptions(game="counter", observation="pixels", size=40, episode_length=5)
        self._counter = Counter(options, 0)
        self._axis = {"HWC": -1, "CHW": 0}[layout]
        self._channels = channels
        shape = (40, 40, channels) if layout == "HWC" else (channels, 40, 40)
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = self._counter.action_space

    def _paint(self, frame: np.ndarray) -> np.ndarray:
        return np.stack([frame] * self._channels, axis=self._axis)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        frame, infos = self._counter.reset(seed=seed)
        return self._paint(frame), infos

    def step(self, action: Any) -> Any:
        frame, *rest = self._counter.step(action)
        return self._paint(frame), *rest


def remembered(env: GymVector, window: int) -> SequentialMemory:
    class Idle:
        playing = None

        def restarts(self, first: Any) -> None:
            return None

        def act(self, obs: Any, first: Any, step: int, *, explore: bool) -> Any:
            return np.zeros(1, np.int64), {}

    shared = SharedOptions(window_length=window)
    memory = SequentialMemory(
        SequentialOptions(memory_limit=100),
        MemoryContext(env.spec, shared, np.random.default_rng(0)),
    )
    rollout = Rollout(env, Idle(), memory.writer())  # type: ignore[arg-type]
    rollout.begin([1])
    for step in range(20):
        rollout.step(step)
    return memory


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("window", [1, 4])
def test_env_09_channels_are_found_and_their_content_kept(
    layout: str, channels: int, window: int
) -> None:
    # pass: input channels = colour channels x stack in all 8 cases; decoded content unchanged
    envs = SyncVectorEnv([lambda: Painted(layout, channels)], autoreset_mode=AutoresetMode.DISABLED)
    env = GymVector(envs)
    shape = list(env.spec.observations["obs"].shape)
    assert env.about == f"obs is a picture {shape} of uint8, {layout}"
    batch = remembered(env, window).sample(6)
    net = DQNCNN(DQNCNNOptions(), env.spec, window)
    stack = torch.from_numpy(batch["obs"])
    assert stack.shape == (6, window, *shape)
    assert net.picture.channels == net.trunk[0].in_channels == channels * window
    with torch.no_grad():
        assert net({"obs": stack}).shape == (6, 3)
    planes = net.picture(stack).numpy()
    assert planes.shape == (6, channels * window, 40, 40)
    for item, single in zip(planes, batch["obs"], strict=True):
        newest = decode(single[-1][..., 0] if layout == "HWC" else single[-1][0])
        for place, plane in enumerate(item):
            back = window - 1 - place // channels
            moment = Moment(0, newest.episode, max(0, newest.step - back))
            assert np.array_equal(plane, encode(moment, 40))
    env.close()


def test_env_09_what_is_no_picture_is_not_called_one() -> None:
    kinds = {
        "flat": (9,),
        "line": (1, 9),
        "stack": (4, 9, 9, 3),
        "eye": (9, 8, 3),
        "map": (2, 7, 9),
    }
    specs = {name: ArraySpec(shape, np.dtype(np.uint8)) for name, shape in kinds.items()}
    assert pictures(specs) == [
        "eye is a picture [9, 8, 3] of uint8, HWC",
        "map is a picture [2, 7, 9] of uint8, CHW",
    ]


@ALE
def test_pong_is_learnt_from_stacks_of_four(tmp_path) -> None:
    run = Run(tmp_path, CONFIGS["dqn_pong"], **SMALL, frame_codec="raw")
    parts, rollout = run.parts, run.rollout()
    for step in range(60):
        rollout.step(step)
    batch = parts.memory.sample(8)
    assert batch["obs"].shape == batch["next_obs"].shape == (8, 4, 84, 84)
    assert batch["obs"].dtype == np.uint8
    assert np.array_equal(batch["obs"][:, 1:], batch["next_obs"][:, :-1])
    trunk = parts.agent._online.trunk
    assert (trunk[0].in_channels, trunk[0].kernel_size) == (4, (8, 8))
    assert parts.agent.learn(parts.memory)["grad_norm"] > 0
    # a frame a row, and 16 bytes of everything else
    assert sum(parts.memory.usage().values()) / parts.memory.rows == pytest.approx(7_072, rel=0.01)
    parts.env.close()


@needs("minatar")
def test_minatar_is_learnt_from_its_planes(tmp_path) -> None:
    run = Run(tmp_path, CONFIGS["dqn_minatar_breakout"], **SMALL)
    memory, rollout = run.parts.memory, run.rollout()
    for step in range(60):
        rollout.step(step)
    batch = memory.sample(8)
    assert batch["obs"].shape == (8, 1, 10, 10, 4)
    assert batch["obs"].dtype == np.bool_
    trunk = run.parts.agent._online.trunk
    assert (trunk[0].in_channels, trunk[0].kernel_size) == (4, (3, 3))
    assert run.parts.agent.learn(memory)["grad_norm"] > 0
    assert run.parts.agent.parameters > 100_000
    run.parts.env.close()
