"""Clips of a test: what is in them, and that filming changes nothing."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import main
from core.errors import RunFailedError, UsageError
from core.evaluate import Evaluation
from core.report import play
from tests.core.envs.optional import needs
from tests.harness import CHAIN, EMPTY, ROOT, Run, environment, never, settings_of, wait_until
from utils.assemble import prepare
from utils.cli import split_arguments
from utils.video import Clip, Film, encoder
from utils.worlds import painter_of

pytestmark = needs("imageio_ffmpeg", unless="ENGRAM_REQUIRE_VIDEO")
WORLDS: dict[str, tuple[dict[str, Any], tuple[int, int]]] = {
    "chain": ({}, (240, 1200)),
    "catch": ({"game": "catch", "size": 10}, (480, 240)),
    "counter": ({"game": "counter", "size": 16, "observation": "pixels"}, (240, 240)),
    "cartpole": ({"env_type": "gym", "game": "CartPole-v1"}, (400, 600)),
    "lander": ({"env_type": "gym", "game": "LunarLander-v3", "time_limit": 60}, (400, 600)),
    "racing": (
        {
            "env_type": "gym",
            "game": "CarRacing-v3",
            "actions": "discrete",
            "greyscale": "luma",
            "resize": 48,
            "time_limit": 12,
        },
        (400, 600),
    ),
    "pong": ({"env_type": "atari", "game": "ALE/Pong-v5", "time_limit": 20}, (420, 320)),
    "breakout": ({"env_type": "minatar", "game": "breakout", "time_limit": 20}, (240, 240)),
}
"""Rows' keys, and height and width of what a person sees."""
NEEDED = {
    "lander": needs("Box2D", unless="ENGRAM_REQUIRE_BOX2D"),
    "racing": needs("Box2D", unless="ENGRAM_REQUIRE_BOX2D"),
    "pong": needs("ale_py", "cv2"),
    "breakout": needs("minatar"),
}


def row(**keys: Any) -> dict[str, Any]:
    """A row of the agent that acts at random in some world."""
    base = {key: value for key, value in EMPTY.items() if key != "size" or "env_type" not in keys}
    return {**base, **keys}


def film(folder: Path, **keys: Any) -> Film:
    return Film(folder, **{"name": "best-step-7", "clips": 2, "steps": 100, "limit": 1000, **keys})


def played(config: dict[str, Any], episodes: int, filmed: Film | None = None) -> Evaluation:
    """Episodes of the agent of a row, filmed or not."""
    settings = settings_of(config)
    players, _ = prepare(settings)
    players.env.close()
    weights = players.agent.weights()
    if filmed is None:
        score = play(players, weights, episodes, 1000, never)
    else:
        with filmed.filming(players.make_eval_env, settings.env.game) as made:
            score = play(replace(players, make_eval_env=made), weights, episodes, 1000, never)
    assert score is not None
    return score


def frames(path: Path, side: tuple[int, int]) -> np.ndarray:
    """The frames of a clip, decoded: `[N, H, W, 3]`."""
    command = [encoder(), "-loglevel", "error", "-i", str(path), "-f", "rawvideo"]
    done = subprocess.run(
        [*command, "-pix_fmt", "rgb24", "-"], capture_output=True, check=True, timeout=60
    )
    assert done.stderr == b""
    return np.frombuffer(done.stdout, np.uint8).reshape(-1, *side, 3)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=NEEDED.get(name, ())) for name in WORLDS]
)
# SWIG's types, of Box2D, are made in C, which dies of a warning that is made an error
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_shown_is_what_was_played(name: str, tmp_path: Path):
    """The score is the same to the bit, a clip has every frame, and its name has its return."""
    keys, side = WORLDS[name]
    config, filmed = row(**keys), film(tmp_path / "videos")
    plain, seen = played(config, 3), played(config, 3, filmed)
    assert seen == plain
    assert sorted(filmed.made) == [0, 1]
    assert len(list((tmp_path / "videos").iterdir())) == 2
    known = {
        (min(length, 100), round(value, 2))
        for length, value in zip(plain.lengths, plain.returns, strict=True)
    }
    for episode, path in filmed.made.items():
        shown = frames(path, side)
        assert shown.std() > 1
        assert path.name.startswith(f"best-step-7-episode-{episode:03d}-seed-")
        total = float(path.stem.rpartition("return")[2])
        assert (len(shown) - 1, total) in known


def test_a_clip_shows_a_balls_way_down(tmp_path: Path):
    filmed = film(tmp_path / "videos", clips=1)
    played(row(game="catch", size=6), 1, filmed)
    shown = frames(filmed.made[0], (480, 240)) > 128
    assert len(shown) == 6
    side = 80  # pixels of a cell: 240 by three columns
    balls = [np.flatnonzero(one[side // 2 : -side : side].any(axis=(1, 2))) for one in shown]
    assert [list(ball) for ball in balls[:5]] == [[0], [1], [2], [3], [4]]


def test_the_seed_in_the_name_begins_that_episode(tmp_path: Path):
    config = row(env_type="gym", game="CartPole-v1")
    filmed = film(tmp_path / "videos", clips=3)
    played(config, 3, filmed)
    for path in filmed.made.values():
        seed = int(path.stem.partition("seed-")[2].partition("-")[0])
        env = gym.make("CartPole-v1", render_mode="rgb_array")
        env.reset(seed=seed)
        first = frames(path, (400, 600))[0]
        assert np.abs(first.astype(int) - env.render().astype(int)).mean() < 1
        env.close()


def test_later_episodes_of_a_lane_are_filmed_too(tmp_path: Path):
    filmed = film(tmp_path / "videos", clips=12)
    score = played(row(game="counter", size=4, observation="pixels"), 25, filmed)
    assert sorted(filmed.made) == list(range(12))
    assert len(score.returns) == 25
    seeds = [path.stem.split("-seed-")[1].split("-")[0] for path in filmed.made.values()]
    assert len(set(seeds)) == 10
    assert seeds[10:] == seeds[:2]


def test_a_clip_is_no_longer_than_it_may_be_and_still_has_the_return(tmp_path: Path):
    filmed = film(tmp_path / "videos", clips=1, steps=3)
    played(row(game="counter", size=4, observation="pixels"), 1, filmed)
    assert len(frames(filmed.made[0], (240, 240))) == 4
    assert filmed.made[0].name.endswith("return+28.00.mp4")


def test_an_episode_that_the_evaluation_cuts_is_filmed_to_there(tmp_path: Path):
    settings = settings_of(row(game="counter", size=4, observation="pixels", episode_length=0))
    players, _ = prepare(settings)
    filmed = film(tmp_path / "videos", clips=1, limit=5)
    with filmed.filming(players.make_eval_env, "counter") as made:
        score = play(replace(players, make_eval_env=made), {}, 1, 5, never)
    assert score is not None
    assert score.cut == 1
    assert len(frames(filmed.made[0], (240, 240))) == 6
    assert filmed.made[0].name.endswith("return+15.00.mp4")


def test_a_test_that_is_stopped_leaves_no_clip(tmp_path: Path):
    players, _ = prepare(settings_of(row(game="counter", size=4, observation="pixels")))
    answers = iter([False, False, False, True])
    filmed = film(tmp_path / "videos")
    with filmed.filming(players.make_eval_env, "counter") as made:
        assert play(replace(players, make_eval_env=made), {}, 2, 99, lambda: next(answers)) is None
    assert list((tmp_path / "videos").iterdir()) == []


def test_what_a_killed_test_left_goes_and_what_runs_stays(tmp_path: Path):
    (tmp_path / "videos").mkdir()
    gone, running = (tmp_path / "videos" / f".clip-{pid}-0.tmp" for pid in (2**22 + 5, 1))
    gone.touch()
    running.touch()
    played(row(), 1, film(tmp_path / "videos", clips=1))
    assert running.exists()
    assert not gone.exists()


def test_a_killed_test_has_no_half_clip_under_a_name(tmp_path: Path):
    config = row(game="counter", size=4, observation="pixels", episode_length=0, eval_limit=10**6)
    run = Run(tmp_path, {**config, "eval_freq": 0, "eval_limit": 1, "steps": 50}).go()
    path = run.folder.path / "config.json"
    path.write_text(path.read_text().replace('"eval_limit": 1,', '"eval_limit": 100000000,'))
    flags = ["--runs", str(tmp_path), "--video", "1", "--video_steps", "1000000"]
    process = subprocess.Popen(
        [sys.executable, "main.py", "test", run.folder.path.name, *flags],
        cwd=ROOT,
        env=environment(),
    )
    videos = run.folder.path / "videos"
    try:
        wait_until(lambda: any(videos.glob(".clip-*.tmp")), 60)
        time.sleep(0.3)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert list(videos.glob("*.mp4")) == []
    (left,) = videos.iterdir()  # ffmpeg has ended too: nobody writes to it
    wait_until(lambda: not _open_by_anyone(left), 20)


def _open_by_anyone(path: Path) -> bool:
    for handle in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if handle.readlink() == path:
                return True
        except OSError:
            continue
    return False


# Refusals.


def test_a_world_that_cannot_be_drawn_is_refused(tmp_path: Path):
    config = row(env_type="gym", game="tests.utils.test_video:Blind-v0")
    with pytest.raises(UsageError, match=r"'.*Blind-v0' cannot be drawn: it has no render mode"):
        played(config, 1, film(tmp_path / "videos"))


def test_a_world_whose_drawing_breaks_is_refused(tmp_path: Path):
    config = row(env_type="gym", game="tests.utils.test_video:Torn-v0")
    with pytest.raises(UsageError, match=r"'.*Torn-v0' cannot be filmed: no light here"):
        played(config, 1, film(tmp_path / "videos"))
    assert list((tmp_path / "videos").iterdir()) == []


def test_a_missing_encoder_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match=r"needs the encoder ffmpeg: pip install -r requirements-"):
        encoder()


def test_an_encoder_that_fails_is_refused_before_the_first_step(tmp_path: Path):
    with pytest.raises(
        UsageError, match=r"'chain' cannot be filmed: the clip could not be written"
    ):
        played(row(), 1, film(tmp_path / "videos", exe="/bin/false"))


def test_a_clip_that_cannot_be_written_says_why(tmp_path: Path):
    clip = Clip(encoder(), tmp_path / "nowhere" / "clip.mp4", 15)
    with pytest.raises(RunFailedError, match="No such file or directory"):
        for _ in range(100):
            clip.add(np.zeros((240, 240, 3), np.uint8))
        clip.finish()


def test_a_frame_of_another_size_is_refused(tmp_path: Path):
    clip = Clip(encoder(), tmp_path / "clip.mp4", 15)
    clip.add(np.zeros((16, 16, 3), np.uint8))
    with pytest.raises(RunFailedError, match="cannot take a frame of"):
        clip.add(np.zeros((16, 18, 3), np.uint8))
    clip.discard()
    assert list(tmp_path.iterdir()) == []


class Blind(gym.Env[Any, Any]):
    """A world that shows nothing."""

    observation_space = gym.spaces.Box(0, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        return np.zeros(3, np.float32), {}

    def step(self, action: Any):
        return np.zeros(3, np.float32), 0.0, True, False, {}


class Torn(Blind):
    """One that promises to draw."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def render(self):
        raise RuntimeError("no light here")


for kind in (Blind, Torn):
    if f"{kind.__name__}-v0" not in gym.registry:
        gym.register(f"{kind.__name__}-v0", kind)


# Flags.


def test_the_flag_stands_alone_or_with_a_number():
    assert split_arguments(["a", "--video"]) == (["a"], {"video": "3"})
    assert split_arguments(["--video", "a"]) == (["a"], {"video": "3"})
    assert split_arguments(["--video", "5", "a"]) == (["a"], {"video": "5"})
    assert split_arguments(["--video=2"]) == ([], {"video": "2"})
    assert split_arguments(["--video", "--episodes", "4"]) == ([], {"video": "3", "episodes": "4"})


def test_the_verb_says_where_the_clips_are_and_films_no_more_than_it_plays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = Run(tmp_path, CHAIN, eval_freq=0).go()
    flags = ["--runs", str(tmp_path), "--episodes", "2"]
    said = []
    for more in ([], ["--video", "5"], ["--video", "1000"]):
        code = main.run(["test", run.folder.path.name, *flags, *more])
        said.append((code, *capsys.readouterr()))
    assert [code for code, _, _ in said] == [0, 0, 2]
    assert [error for _, _, error in said[:2]] == ["", ""]
    score, *paths = said[1][1].splitlines()
    assert f"{score}\n" == said[0][1]
    assert [Path(path).parent for path in paths] == [run.folder.path / "videos"] * 2
    assert all(Path(path).is_file() for path in paths)
    assert said[2][2].startswith("engram: video = 1000 on the command line is not allowed")


def test_drawing_leaves_the_render_mode_as_it_was():
    env = gym.make("CartPole-v1")
    env.reset(seed=0)
    assert painter_of(env, "CartPole-v1")(None).shape == (400, 600, 3)
    assert env.unwrapped.render_mode is None
    env.close()
