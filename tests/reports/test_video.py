"""What people have reported of clips, as tests: MEM-08 and ENV-05."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import main
from core.report import play
from tests.core.envs.optional import needs
from tests.harness import CHAIN, EMPTY, Run, never, settings_of
from tests.utils.test_video import frames
from utils.assemble import prepare
from utils.video import INSTALL, Film

pytestmark = needs("imageio_ffmpeg", "pygame", unless="ENGRAM_REQUIRE_VIDEO")
CARTPOLE = {key: value for key, value in EMPTY.items() if key != "size"}
CARTPOLE |= {"env_type": "gym", "game": "CartPole-v1"}
SIDE = (400, 600)


def private() -> int:
    """Anonymous bytes of this process: what it has taken for itself."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) << 10


@pytest.fixture
def children() -> Iterator[None]:
    """No encoder outlives its clip."""
    before = {child.pid for child in psutil.Process(os.getpid()).children()}
    yield
    assert {child.pid for child in psutil.Process(os.getpid()).children()} <= before


def test_mem_08_thirty_clips_take_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, children: None
):
    """A clip of CartPole is 10 to 50 frames of 720 kB here; of 30 of them nothing stays."""
    taken = []
    keep = Film.keep

    def watched(*arguments: object) -> None:
        keep(*arguments)
        taken.append(private())

    monkeypatch.setattr(Film, "keep", watched)
    players, _ = prepare(settings_of(CARTPOLE))
    players.env.close()
    film = Film(tmp_path / "videos", "best-step-0", 30, 50, 1000)
    with film.filming(players.make_eval_env, "CartPole-v1") as made:
        play(replace(players, make_eval_env=made), {}, 40, 1000, never)
    assert len(taken) == 30
    assert taken[-1] <= taken[4] + (20 << 20)
    clips = sorted((tmp_path / "videos").iterdir())
    assert len(clips) == 30
    assert all(5 < len(frames(clip, SIDE)) <= 51 for clip in clips)


def test_env_05_a_render_mode_that_nobody_set_is_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], children: None
):
    run = Run(tmp_path, CARTPOLE, steps=1000, eval_freq=0).go()
    flags = ["--runs", str(tmp_path), "--episodes", "1", "--video"]
    assert main.run(["test", run.folder.path.name, *flags]) == 0
    (clip,) = (run.folder.path / "videos").iterdir()
    assert str(clip) in capsys.readouterr().out
    shown = frames(clip, SIDE)
    assert len(shown) == 1 + float(clip.stem.partition("return")[2])
    assert len({frame.tobytes() for frame in shown}) == len(shown)


def test_env_05_what_cannot_be_filmed_is_refused_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    blind = {key: value for key, value in CHAIN.items() if key != "size"}
    blind |= {"env_type": "gym", "game": "tests.utils.test_video:Blind-v0"}
    run = Run(tmp_path, blind, eval_freq=0).go()

    def played(*_: object) -> None:
        raise AssertionError("it has begun")

    monkeypatch.setattr("core.report.play", played)
    assert main.run(["test", run.folder.path.name, "--runs", str(tmp_path), "--video"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "Blind-v0' cannot be drawn" in said.err
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main.run(["test", run.folder.path.name, "--runs", str(tmp_path), "--video"]) == 2
    said = capsys.readouterr()
    assert said.err == "engram: --video needs the encoder ffmpeg: " + INSTALL + "\n"
