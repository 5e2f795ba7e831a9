"""Recordings: rows that follow the rules, the same for the same seed, and games that are played."""

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks import recordings
from benchmarks.recordings import COLUMNS, GAMES, Game, Recording, held_index, landing, main, record
from core.envs import toy
from core.envs.options import ToyOptions
from core.errors import UsageError
from tests.core.envs.optional import needs

ALE = needs("ale_py", "cv2")
BOX2D = pytest.mark.skipif(
    find_spec("Box2D") is None and os.environ.get("ENGRAM_REQUIRE_BOX2D") != "1",
    reason="no Box2D: pip install -r requirements-box2d.txt",
)
LENGTH = 7


def counter(ending: str = "terminate", length: int = LENGTH) -> Game:
    """A world whose frames name their episode and step, and whose reward is the step's number."""
    options = ToyOptions(
        game="counter", observation="pixels", ending=ending, episode_length=length, size=6
    )
    return Game(lambda: toy.make(options, 1), held_index, "at random", 20)


def recorded(folder: Path, game: Game, steps: int, seed: int = 0) -> Recording:
    record("counter", game, folder, steps, seed)
    return Recording.load("counter", folder)


def moments(recording: Recording) -> list[tuple[int, int]]:
    return [toy.decode(frame)[1:] for frame in recording.frames]


def expected(steps: int, length: int) -> list[tuple[int, int]]:
    """Episode and step of each row, an episode of T steps filling T + 1."""
    whole, rest = divmod(steps, length)
    lengths = [length] * whole + [rest] * (rest > 0)
    return [(episode, step) for episode, last in enumerate(lengths) for step in range(last + 1)]


@pytest.mark.parametrize("ending", ["terminate", "truncate"])
@pytest.mark.parametrize("steps", [1, LENGTH - 1, LENGTH, LENGTH + 1, 200, 30 * LENGTH])
def test_an_episode_is_its_rows_and_a_closing_one(tmp_path: Path, steps: int, ending: str):
    found = recorded(tmp_path, counter(ending), steps)
    rows = expected(steps, LENGTH)
    assert moments(found) == rows
    lasts = [i + 1 == len(rows) or rows[i + 1][1] == 0 for i in range(len(rows))]
    assert found.closing.tolist() == lasts
    # row i holds what its own action led to, a closing row nothing
    rewards = [0 if last else row[1] + 1 for row, last in zip(rows, lasts, strict=True)]
    assert found.reward.tolist() == rewards
    dies = [reward == LENGTH and ending == "terminate" for reward in rewards]
    assert found.terminated.tolist() == dies
    assert not found.action[found.closing].any()


def test_a_recording_says_what_it_is(tmp_path: Path):
    found = recorded(tmp_path, counter(), 200, seed=3)
    count = 200 + 200 // LENGTH + 1  # the episode under way is closed too
    assert found.frames.shape == (count, 6, 6)
    shapes = {getattr(found, name).shape for name in COLUMNS if name != "frames"}
    assert shapes == {(count,)}
    kinds = [str(getattr(found, name).dtype) for name in COLUMNS]
    assert kinds == ["uint8", "int64", "float32", "bool", "bool"]
    assert set(found.action.tolist()) == {0, 1, 2}
    meta = {key: found.meta[key] for key in ("game", "seed", "steps", "rows", "episodes", "policy")}
    assert meta == {
        "game": "counter",
        "seed": 3,
        "steps": 200,
        "rows": count,
        "episodes": 200 // LENGTH,
        "policy": "at random",
    }
    assert found.meta["mean_return"] == sum(range(1, LENGTH + 1))
    assert "gymnasium" in found.meta["versions"]
    files = {path.name for path in (tmp_path / "counter").iterdir()}
    assert files == {"meta.json", *(f"{name}.npy" for name in COLUMNS)}
    assert [path.name for path in tmp_path.iterdir()] == ["counter"]


def test_the_seed_is_that_of_the_environment_too(tmp_path: Path):
    options = ToyOptions(game="catch", size=20)
    catch = Game(lambda: toy.make(options, 1), held_index, "at random", 20)
    balls = {recorded(tmp_path, catch, 1, seed).frames[0].tobytes() for seed in range(5)}
    assert len(balls) > 1


def test_no_return_is_told_where_no_episode_was_finished(tmp_path: Path):
    found = recorded(tmp_path, counter(length=50), 20)
    assert (found.meta["episodes"], found.meta["mean_return"]) == (0, None)


def test_actions_are_held_and_replaced_with_their_chance(tmp_path: Path):
    found = recorded(tmp_path, counter(length=0), 4_000)
    changed = np.mean(np.diff(found.action[:-1]) != 0)
    assert changed == pytest.approx(recordings.RENEWAL * 2 / 3, abs=0.02)


def columns_of(folder: Path, game: str) -> dict[str, bytes]:
    return {name: (folder / game / f"{name}.npy").read_bytes() for name in COLUMNS}


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> dict[str, Game]:
    table = {"counter": counter(), "short": counter(length=2)}
    monkeypatch.setattr(recordings, "GAMES", table)
    return table


def run(folder: Path, *flags: str) -> int:
    return main([*flags, "--folder", str(folder)])


def test_the_command_records_every_game_unless_told(tmp_path: Path, toys, capsys):
    assert run(tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [text.split()[0] for text in lines] == ["counter", "short"]
    assert run(tmp_path / "one", "short", "--steps", "5") == 0
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["short"]
    assert Recording.load("short", tmp_path / "one").meta["steps"] == 5


def test_a_recording_that_does_is_kept(tmp_path: Path, toys, capsys):
    def again(*flags: str) -> bool:
        before = (tmp_path / "counter" / "meta.json").stat().st_ino
        assert run(tmp_path, "counter", *flags) == 0
        return (tmp_path / "counter" / "meta.json").stat().st_ino != before

    run(tmp_path, "counter")
    assert not again()
    assert not again("--steps", "10")
    assert capsys.readouterr().out.count("kept") == 2
    assert again("--steps", "21")
    assert again("--seed", "1")
    assert again("--seed", "1", "--again")


def test_what_a_killed_recording_left_is_no_recording(tmp_path: Path, toys):
    (tmp_path / "counter.part").mkdir()
    (tmp_path / "counter.part" / "part.npy").write_bytes(b"half")
    (tmp_path / "counter").mkdir()
    assert run(tmp_path, "counter") == 0
    assert moments(Recording.load("counter", tmp_path)) == expected(20, LENGTH)


@pytest.mark.parametrize("flags", [["--steps", "0"], ["--steps", "-3"]])
def test_a_recording_of_no_steps_is_refused(tmp_path: Path, flags, capsys):
    with pytest.raises(SystemExit):
        run(tmp_path, "pong", *flags)
    assert "--steps has to be 1 or more" in capsys.readouterr().err


def test_a_game_that_is_not_there_names_the_nearest(tmp_path: Path, capsys):
    assert run(tmp_path, "sequest") == UsageError.exit_code
    message = "no game 'sequest' can be recorded; did you mean 'seaquest'?"
    assert capsys.readouterr().err == f"{message}\n"
    with pytest.raises(UsageError, match="did you mean 'seaquest'"):
        Recording.load("sequest", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_recording_says_how_to_make_it(tmp_path: Path, monkeypatch):
    with pytest.raises(UsageError) as error:
        Recording.load("pong", tmp_path)
    command = f"python -m benchmarks.recordings pong --folder {tmp_path}"
    assert str(error.value) == f"there is no recording of pong; make one with: {command}"


def test_the_ball_comes_down_where_a_straight_line_folded_at_the_walls_ends():
    field = (10, 20)
    assert landing((4, 6), (6, 7), field) == 9  # two steps on, a column each
    assert landing((4, 15), (6, 17), field) == 19  # 21 is 1 beyond the wall at 20
    assert landing((4, 5), (6, 3), field) == 1  # -1 is 1 beyond the wall at 0
    assert landing((6, 7), (4, 6), field) == 6  # rising: above itself
    assert landing(None, (4, 6), field) == 6


@ALE
@pytest.mark.parametrize("game", ["pong", "breakout"])
def test_atari_is_recorded_the_same_for_the_same_seed(tmp_path: Path, game: str):
    def take(name: str, seed: int) -> dict[str, bytes]:
        record(game, GAMES[game], tmp_path / name, 200, seed)
        return columns_of(tmp_path / name, game)

    first = take("first", 0)
    assert take("again", 0) == first
    assert take("other", 1)["frames"] != first["frames"]
    found = Recording.load(game, tmp_path / "first")
    assert found.frames.shape[1:] == (84, 84)
    assert (found.action.dtype, found.action.ndim) == (np.int64, 1)
    assert len(found.frames) == 200 + found.closing.sum()
    assert found.closing[-1]


@ALE
def test_the_player_of_breakout_plays_better_than_chance(tmp_path: Path):
    """Chance earns about 1 an episode (Mnih et al. 2015: 1.7)."""
    record("breakout", GAMES["breakout"], tmp_path, 1_500, 0)
    found = Recording.load("breakout", tmp_path)
    assert found.meta["episodes"] >= 1
    assert found.meta["mean_return"] > 10


@BOX2D
# SWIG's types are made in C, which dies of a warning that is made an error
@pytest.mark.filterwarnings("ignore:builtin type .* has no __module__ attribute:DeprecationWarning")
def test_carracing_is_recorded_without_a_screen(tmp_path: Path, monkeypatch):
    for variable in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(variable, raising=False)
    record("carracing", GAMES["carracing"], tmp_path / "first", 30, 0)
    found = Recording.load("carracing", tmp_path / "first")
    assert found.frames.shape == (31, 96, 96, 3)
    assert (found.action.dtype, found.action.shape) == (np.float32, (31, 3))
    assert np.abs(found.action).max() <= 1
    assert found.closing.tolist() == [False] * 30 + [True]
    moved = (found.frames[1:] != found.frames[:-1]).any((1, 2, 3))
    assert moved.mean() > 0.9
    record("carracing", GAMES["carracing"], tmp_path / "again", 30, 0)
    again = columns_of(tmp_path / "again", "carracing")
    assert again == columns_of(tmp_path / "first", "carracing")
