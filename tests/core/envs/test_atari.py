"""Atari: the wrapper on an emulator of our own, frame by frame; then ale-py itself."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import AtariPreprocessing

from core.envs.atari import MAX_FRAMES, Atari, make, read_id
from core.envs.options import AtariOptions
from core.envs.vector import LOST_LIFE
from core.errors import RunFailedError, UsageError
from core.types import ArraySpec, DiscreteActions
from tests.harness import python

from .emulator import Console, plays, seen
from .optional import needs

ALE = needs("ale_py", "cv2")
ROW = {"game": "ALE/Breakout-v5", "sticky_actions": 0.0}


@pytest.mark.parametrize("max_pool", [True, False])
@pytest.mark.parametrize("skip", [1, 2, 3, 4, 7])
def test_a_step_is_so_many_frames_and_shows_the_last(skip: int, max_pool: bool) -> None:
    console = Console()
    game = plays(console, frame_skip=skip, max_pool=max_pool)
    obs, _ = game.reset(seed=1)
    assert seen(obs) == [0]
    for step in range(1, 15 // skip + 1):
        obs, reward, terminated, truncated, infos = game.step(2)
        last = step * skip
        assert console.actions == [2] * last
        assert console.ale.frame == infos["frames"] == last
        assert seen(obs) == ([last - 1, last] if max_pool else [last])
        assert (reward, terminated, truncated) == (skip, False, False)
        assert game.observation_space.contains(obs)


@pytest.mark.parametrize("skip", [1, 2])
def test_two_screens_are_pooled_across_steps_where_none_lies_between(skip: int) -> None:
    game = plays(Console(over={5: "terminated"}), frame_skip=skip)
    game.reset(seed=1)
    while not (result := game.step(0))[2]:
        pass
    assert seen(result[0]) == [4, 5]


@pytest.mark.parametrize("how", ["terminated", "truncated"])
@pytest.mark.parametrize(("frame", "shown"), [(5, [5]), (6, [6]), (7, [7]), (8, [7, 8])])
def test_a_game_that_ends_within_a_step_shows_its_last_screen(
    how: str, frame: int, shown: list[int]
) -> None:
    console = Console(over={frame: how})
    game = plays(console)
    game.reset(seed=1)
    game.step(0)
    obs, reward, terminated, truncated, _ = game.step(0)
    assert seen(obs) == shown
    assert console.ale.frame == frame
    assert reward == frame - 4
    assert (terminated, truncated) == (how == "terminated", how == "truncated")
    assert seen(game.reset()[0]) == [0]


def test_without_skip_nor_pool_the_last_screen_is_the_true_one() -> None:
    game = plays(Console(over={5: "terminated"}), max_pool=False)
    game.reset(seed=1)
    game.step(0)
    assert seen(game.step(0)[0]) == [5]


def lost_lives(game: Atari, steps: int) -> list[bool]:
    return [game.step(0)[4][LOST_LIFE] for _ in range(steps)]


def test_a_lost_life_is_told_once_and_ends_nothing() -> None:
    # lost in frame 2 (step 1) and 9 (step 3); two come back in 13; the last goes before the end
    lives = {2: 2, 9: 1, 13: 3, 17: 2, 21: 0}
    game = plays(Console(lives, {26: "terminated"}), episodic_life=True)
    game.reset(seed=1)
    assert lost_lives(game, 6) == [True, False, True, False, True, False]
    _, _, terminated, _, infos = game.step(0)
    assert terminated
    assert infos[LOST_LIFE] is False
    game.reset()
    assert lost_lives(game, 2) == [True, False]


def test_lives_do_not_count_unless_asked_for() -> None:
    game = plays(Console({2: 2, 9: 1}))
    game.reset(seed=1)
    assert lost_lives(game, 4) == [False] * 4


def test_fire_begins_a_game_and_not_its_lives() -> None:
    console = Console({5: 2})
    game = plays(console, fire_reset=True)
    obs, _ = game.reset(seed=1)
    assert console.actions == [1] * 4
    assert seen(obs) == [3, 4]
    game.step(2)
    game.step(3)
    assert console.actions == [1] * 4 + [2] * 4 + [3] * 4
    game.reset()
    assert console.actions == [1] * 4


def test_with_episodic_life_fire_begins_each_life() -> None:
    console = Console({6: 2})
    game = plays(console, fire_reset=True, episodic_life=True)
    game.reset(seed=1)
    obs, reward, terminated, truncated, infos = game.step(2)
    assert console.actions == [1] * 4 + [2] * 4 + [1] * 4
    assert seen(obs) == [11, 12]
    assert reward == 8
    assert (terminated, truncated) == (False, False)
    assert infos[LOST_LIFE] is True
    game.step(3)
    assert console.actions[12:] == [3] * 4


@pytest.mark.parametrize("how", ["terminated", "truncated"])
def test_a_game_may_end_as_fire_is_pressed(how: str) -> None:
    console = Console({6: 2}, {10: how})
    game = plays(console, fire_reset=True, episodic_life=True)
    game.reset(seed=1)
    obs, reward, terminated, truncated, _ = game.step(2)
    assert (terminated, truncated) == (how == "terminated", how == "truncated")
    assert (reward, seen(obs)) == (6, [10])


@pytest.mark.parametrize("how", ["terminated", "truncated"])
def test_fire_is_not_pressed_once_the_game_is_over(how: str) -> None:
    console = Console({6: 2}, {7: how})
    game = plays(console, fire_reset=True, episodic_life=True)
    game.reset(seed=1)
    game.step(2)
    assert console.actions == [1] * 4 + [2] * 3


def test_a_game_without_fire_is_refused_where_it_is_wanted() -> None:
    idle = Console(meanings=["NOOP", "UP", "DOWN"])
    with pytest.raises(UsageError, match="'stub' has no action FIRE; set --fire_reset false"):
        plays(idle, fire_reset=True)
    plays(idle)


def test_fire_is_found_wherever_it_stands() -> None:
    console = Console(meanings=["NOOP", "UP", "FIRE"])
    plays(console, fire_reset=True).reset(seed=1)
    assert console.actions == [2] * 4


def test_a_game_that_fire_ends_is_a_failure_not_a_loop() -> None:
    with pytest.raises(RunFailedError, match="'stub' is over as soon as FIRE is pressed"):
        plays(Console(over={3: "terminated"}), fire_reset=True).reset(seed=1)


def test_idle_frames_are_one_to_as_many_as_asked_for() -> None:
    console = Console()
    game = plays(console, noop_max=3)
    counts = []
    for seed in range(60):
        obs, _ = game.reset(seed=seed)
        assert set(console.actions) == {0}
        assert seen(obs) == [console.ale.frame]
        counts.append(len(console.actions))
    assert {count: counts.count(count) >= 10 for count in set(counts)} == {
        1: True,
        2: True,
        3: True,
    }
    game.reset(seed=7)
    assert len(console.actions) == counts[7]


def test_by_default_there_is_no_idle_frame_and_no_fire() -> None:
    console = Console()
    plays(console).reset(seed=1)
    assert console.actions == []


def test_idle_frames_come_before_fire() -> None:
    console = Console()
    obs, _ = plays(console, noop_max=1, fire_reset=True).reset(seed=1)
    assert console.actions == [0] + [1] * 4
    assert seen(obs) == [4, 5]


def test_a_game_that_ends_in_its_idle_frames_begins_anew() -> None:
    console = Console(over={2: "terminated"})
    game = plays(console, noop_max=3)
    for seed in range(20):
        game.reset(seed=seed)
        assert console.ale.frame < 2
    assert None in console.seeds  # begun anew with the generator as it was, not with the seed


def test_a_seed_reaches_the_emulator() -> None:
    console = Console()
    game = plays(console)
    game.reset(seed=5)
    game.reset()
    assert console.seeds == [5, None]


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"resize": 84}, (84, 84)),
        ({"resize": 0}, (16, 16)),
        ({"resize": 8, "greyscale": "off"}, (8, 8, 3)),
        ({"resize": 0, "greyscale": "mean"}, (16, 16)),
    ],
)
@ALE
def test_what_is_observed(options: dict, shape: tuple[int, ...]) -> None:
    game = plays(Console(), **options)
    assert game.observation_space == spaces.Box(0, 255, shape, np.uint8)
    assert game.reset(seed=1)[0].shape == shape


# ale-py itself


@ALE
@pytest.mark.parametrize("noop_max", [0, 30])
@pytest.mark.parametrize("grey", ["luma", "off"])
def test_whole_steps_are_those_of_gymnasium(noop_max: int, grey: str) -> None:
    ours = make(AtariOptions(**ROW, noop_max=noop_max, greyscale=grey), 1)
    inner = gym.make("ALE/Breakout-v5", frameskip=1, repeat_action_probability=0.0)
    theirs = AtariPreprocessing(inner, noop_max=noop_max, grayscale_obs=grey == "luma")
    obs, (their_obs, _) = ours.reset([3])["obs"], theirs.reset(seed=3)
    assert np.array_equal(obs[0], their_obs)
    rng = np.random.default_rng(0)
    for _ in range(600):
        action = rng.integers(0, 4, 1)
        step = ours.step(action)
        their_obs, reward, terminated, truncated, _ = theirs.step(action[0])
        assert (step.reward[0], step.terminated[0]) == (reward, terminated)
        if terminated or truncated:  # theirs then shows a screen of before
            break
        assert np.array_equal(step.next_obs["obs"][0], their_obs)
    else:
        pytest.fail("no game ended")
    ours.close()
    theirs.close()


@ALE
def test_luma_is_the_brightness_of_the_colours() -> None:
    grey = make(AtariOptions(**ROW, resize=0, max_pool=False), 1)
    colour = make(AtariOptions(**ROW, resize=0, max_pool=False, greyscale="off"), 1)
    mean = make(AtariOptions(**ROW, resize=0, max_pool=False, greyscale="mean"), 1)
    frames = [env.reset([1])["obs"][0].astype(float) for env in (grey, colour, mean)]
    assert np.array_equal(frames[0], np.rint(frames[1] @ [0.2989, 0.587, 0.114]))
    assert np.array_equal(frames[2], np.rint(frames[1].mean(axis=2)))
    assert frames[0].std() > 10


@ALE
def test_the_usual_observation_is_one_square_of_bytes() -> None:
    env = make(AtariOptions(game="ALE/Pong-v5"), 2)
    assert env.spec.observations == {"obs": ArraySpec((84, 84), np.dtype(np.uint8))}
    assert env.spec.actions == DiscreteActions(6)
    obs = env.reset([1, 2])["obs"]
    assert obs.shape == (2, 84, 84)
    assert obs.dtype == np.uint8
    assert obs.max() > 100
    env.close()


@ALE
@pytest.mark.parametrize(("full", "actions"), [(False, 4), (True, 18)])
def test_all_actions_or_those_of_the_game(full: bool, actions: int) -> None:
    env = make(AtariOptions(**ROW, full_action_space=full), 1)
    assert env.spec.actions == DiscreteActions(actions)
    env.close()


def story(options: AtariOptions, seeds: list[int], steps: int = 60) -> list:
    env = make(options, len(seeds))
    frames = [env.reset(seeds)["obs"].copy()]
    rng = np.random.default_rng(1)
    for _ in range(steps):
        step = env.step(rng.integers(0, 4, len(seeds)))
        frames.append(step.obs["obs"].copy())
    env.close()
    return frames


@ALE
def test_a_seed_decides_idle_frames_and_sticky_actions() -> None:
    options = AtariOptions(game="ALE/Breakout-v5", noop_max=30, fire_reset=True)
    first, again = story(options, [1, 2]), story(options, [1, 2])
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(frame[0], frame[1]) for frame in first)
    other = story(options, [3, 4])
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@ALE
def test_without_chance_every_seed_is_the_same_game() -> None:
    env = make(AtariOptions(**ROW), 2)
    env.reset([8, 9])
    rng = np.random.default_rng(1)
    for _ in range(30):
        obs = env.step(np.repeat(rng.integers(0, 4, 1), 2)).obs["obs"]
        assert np.array_equal(obs[0], obs[1])
    env.close()


@ALE
@pytest.mark.parametrize("chance", [0.0, 0.25, 0.75])
def test_the_emulator_is_told_how_sticky_actions_are(chance: float) -> None:
    env = make(AtariOptions(**{**ROW, "sticky_actions": chance}), 1)
    (game,) = env._envs.envs
    probability = game.unwrapped._ale.getFloat("repeat_action_probability")
    assert probability == pytest.approx(chance)
    env.close()


@ALE
def test_a_time_limit_counts_steps_and_cuts() -> None:
    env = make(AtariOptions(**ROW, time_limit=5), 1)
    env.reset([1])
    ends = []
    for _ in range(10):
        step = env.step(np.zeros(1, np.int64))
        ends.append((bool(step.terminated[0]), bool(step.truncated[0])))
    assert ends == [*[(False, False)] * 4, (False, True)] * 2
    (game,) = env._envs.envs
    assert game.unwrapped._ale.getInt("max_num_frames_per_episode") == 0
    env.close()


@ALE
def test_ale_s_own_limit_cuts_too() -> None:
    env = make(AtariOptions(**ROW), 1)
    (game,) = env._envs.envs
    ale = game.unwrapped._ale
    assert ale.getInt("max_num_frames_per_episode") == MAX_FRAMES
    ale.setInt("max_num_frames_per_episode", 18)  # read when the game is loaded, with a seed
    env.reset([1])
    for _ in range(4):
        assert not env.step(np.zeros(1, np.int64)).ended[0]
    step = env.step(np.zeros(1, np.int64))
    assert (step.terminated[0], step.truncated[0]) == (False, True)
    assert step.infos["frames"].tolist() == [18]
    env.close()


@ALE
def test_lives_of_a_real_game() -> None:
    env = make(AtariOptions(**ROW, episodic_life=True, fire_reset=True), 1)
    env.reset([1])
    lost, lives = 0, []
    for _ in range(400):
        step = env.step(np.zeros(1, np.int64))
        lost += int(step.lost_life[0])
        if step.lost_life[0]:
            lives.append(step.infos["lives"][0])
            assert not step.ended[0]
        if step.ended[0]:
            break
    # of five lives, the last ends the game
    assert step.terminated[0]
    assert (lost, lives) == (4, [4, 3, 2, 1])
    env.close()


@ALE
def test_a_lane_s_game_does_not_depend_on_the_others() -> None:
    env = make(AtariOptions(**ROW, episodic_life=True, fire_reset=True, noop_max=30), 3)
    obs = env.reset([1, 2, 3])["obs"].copy()
    assert not np.array_equal(obs[0], obs[1])
    lone = make(AtariOptions(**ROW, episodic_life=True, fire_reset=True, noop_max=30), 1)
    assert np.array_equal(lone.reset([2])["obs"][0], obs[1])
    env.close()
    lone.close()


@ALE
def test_what_was_decided_is_one_line() -> None:
    env = make(AtariOptions(game="ALE/Pong-v5"), 1)
    assert env.about == (
        "ALE/Pong-v5: time_limit 0 (ALE's own 108,000 frames), frame_skip 4 (the id's own 4 is "
        "off), noop_max 0, fire_reset false, episodic_life false, sticky_actions 0.25, "
        "full_action_space false, greyscale luma, resize 84, max_pool true; "
        "obs is a picture [84, 84] of uint8, HW"
    )
    env.close()
    plain = make(
        AtariOptions(game="PongNoFrameskip-v4", greyscale="off", sticky_actions=0.0, time_limit=9),
        1,
    )
    assert "time_limit 9, frame_skip 4, noop_max" in plain.about
    assert ", greyscale off, resize 84" in plain.about
    assert "sticky_actions 0.0, " in plain.about
    assert plain.about.endswith("obs is a picture [84, 84, 3] of uint8, HWC")
    plain.close()


@ALE
@pytest.mark.parametrize(
    ("game", "rom", "skip", "sticky"),
    [
        ("ALE/SpaceInvaders-v5", "space_invaders", 4, 0.25),
        ("Pong-v4", "pong", (2, 5), 0.0),
        ("Pong-v0", "pong", (2, 5), 0.25),
        ("PongNoFrameskip-v4", "pong", 1, 0.0),
        ("PongDeterministic-v4", "pong", 4, 0.0),
        ("PongDeterministic-v0", "pong", 4, 0.25),
    ],
)
def test_ids_old_and_new(game: str, rom: str, skip: object, sticky: float) -> None:
    make(AtariOptions(game=game), 1).close()
    assert read_id(game) == (rom, skip, sticky)


@ALE
@pytest.mark.parametrize(
    ("game", "meant"),
    [
        ("ALE/Pnog-v5", "did you mean 'ALE/Pong-v5'?"),
        ("Atari/Pong-v5", "did you mean 'ALE/Pong-v5'?"),
        ("ALE/Pong-v4", "did you mean 'ALE/Pong-v5'?"),
        ("pong", "did you mean 'ALE/Pong-v5'?"),
        ("Pong-ram-v0", "did you mean 'ALE/Pong-v5'?"),
        ("BreakotNoFrameskip-v4", "did you mean 'ALE/Breakout-v5'?"),
        ("SpaceInvadersDeterministic-v7", "did you mean 'ALE/SpaceInvaders-v5'?"),
        ("space_invaders", "did you mean 'ALE/SpaceInvaders-v5'?"),
        ("xyzzy", "its ids are of the kind 'ALE/Pong-v5'"),
        ("CartPole-v1", "its ids are of the kind 'ALE/Pong-v5'"),
    ],
)
def test_a_misspelt_game_names_the_nearest(game: str, meant: str) -> None:
    with pytest.raises(UsageError) as error:
        make(AtariOptions(game=game), 1)
    assert str(error.value) == f"ALE knows no game '{game}'; {meant}"


@ALE
def test_a_real_game_without_fire_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="'ALE/Freeway-v5' has no action FIRE"):
        make(AtariOptions(game="ALE/Freeway-v5", fire_reset=True), 1)


@ALE
def test_a_process_hears_nothing_of_it_and_registers_nothing_itself() -> None:
    said = python(
        "import os\n"
        "os.dup2(1, 2)\n"
        "from core.envs.atari import make\n"
        "from core.envs.options import AtariOptions\n"
        "env = make(AtariOptions(game='ALE/Pong-v5'), 1)\n"
        "env.reset([1])\n"
        "import cv2\n"
        "print(cv2.getNumThreads())\n"
    )
    assert said == "1\n"
