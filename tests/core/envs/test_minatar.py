"""MinAtar, against the package itself."""

import numpy as np
import pytest
from gymnasium import spaces

from core.envs.minatar import MinAtar, make
from core.envs.options import MinAtarOptions
from core.errors import UsageError
from core.types import ArraySpec, DiscreteActions, image_layout
from tests.harness import python

from .optional import needs

pytestmark = needs("minatar")
PLANES = {"asterix": 4, "breakout": 4, "freeway": 7, "seaquest": 10, "space_invaders": 6}
MINIMAL = {"asterix": 5, "breakout": 3, "freeway": 3, "seaquest": 6, "space_invaders": 4}
GAMES = list(PLANES)


@pytest.mark.parametrize("ramping", [True, False])
@pytest.mark.parametrize("sticky", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("game", GAMES)
def test_it_plays_as_the_package_does(game: str, sticky: float, ramping: bool) -> None:
    from minatar import Environment

    options = MinAtarOptions(game=game, sticky_actions=sticky, difficulty_ramping=ramping)
    ours, theirs = MinAtar(options), Environment(game, sticky, ramping)
    obs, _ = ours.reset(seed=5)
    theirs.seed(5)
    theirs.reset()
    assert np.array_equal(obs, theirs.state())
    rng = np.random.default_rng(1)
    episodes = 0
    for _ in range(600):
        action = int(rng.integers(6))
        obs, reward, terminated, truncated, _ = ours.step(action)
        their_reward, over = theirs.act(action)
        assert (reward, terminated, truncated) == (their_reward, over, False)
        assert isinstance(reward, float)
        assert np.array_equal(obs, theirs.state())
        if over:
            episodes += 1
            obs, _ = ours.reset()
            theirs.reset()
            theirs.last_action = 0  # the package lets it stick beyond the episode
            assert np.array_equal(obs, theirs.state())
    assert episodes >= 1 or game in ("freeway", "seaquest")


@pytest.mark.parametrize("game", GAMES)
def test_planes_and_actions(game: str) -> None:
    env = make(MinAtarOptions(game=game), 2)
    shape = (10, 10, PLANES[game])
    assert env.spec.observations == {"obs": ArraySpec(shape, np.dtype(np.bool_))}
    assert image_layout(shape) == "HWC"
    assert env.spec.actions == DiscreteActions(6)
    obs = env.reset([1, 2])["obs"]
    assert obs.shape == (2, *shape)
    assert obs.dtype == np.bool_
    assert 0 < obs.mean() < 0.5
    env.close()
    few = make(MinAtarOptions(game=game, full_action_space=False), 1)
    assert few.spec.actions == DiscreteActions(MINIMAL[game])
    few.close()


def test_indices_of_few_actions_mean_the_game_s_own() -> None:
    # breakout's are no-op, left and right: 0, 1 and 3 of the six
    few = MinAtar(MinAtarOptions(game="breakout", full_action_space=False, sticky_actions=0.0))
    six = MinAtar(MinAtarOptions(game="breakout", sticky_actions=0.0))
    few.reset(seed=1)
    six.reset(seed=1)
    for index, action in [(1, 1), (2, 3), (2, 3), (0, 0), (1, 1)]:
        assert np.array_equal(few.step(index)[0], six.step(action)[0])


@pytest.mark.parametrize("game", GAMES)
def test_a_seed_decides_everything(game: str) -> None:
    def story(seeds: list[int]) -> list[np.ndarray]:
        env = make(MinAtarOptions(game=game), len(seeds))
        frames = [env.reset(seeds)["obs"].copy()]
        rng = np.random.default_rng(1)
        for _ in range(300):
            frames.append(env.step(np.repeat(rng.integers(0, 6, 1), len(seeds))).obs["obs"].copy())
        env.close()
        return frames

    pair, again, other = story([1, 2]), story([1, 2]), story([2, 1])
    assert np.array_equal(pair, again)
    assert not np.array_equal(pair, other)
    assert np.array_equal(np.array(pair)[:, 0], np.array(other)[:, 1])  # whatever the lane


def test_an_action_does_not_stick_into_the_next_episode() -> None:
    env = MinAtar(MinAtarOptions(game="breakout", sticky_actions=0.999))
    env.reset(seed=1)
    env._last = 3
    env.reset()
    before = env._game.pos
    for _ in range(3):
        env.step(1)
    assert env._game.pos == before


def ends(env, steps: int) -> list[tuple[int, bool, bool]]:
    env.reset([1])
    found = []
    for at in range(1, steps + 1):
        step = env.step(np.zeros(1, np.int64))
        if step.ended[0]:
            found.append((at, bool(step.terminated[0]), bool(step.truncated[0])))
    env.close()
    return found


def test_freeway_s_clock_cuts_and_is_no_terminal() -> None:
    assert ends(make(MinAtarOptions(game="freeway"), 1), 5_010) == [
        (2_501, False, True),
        (5_002, False, True),
    ]


def test_a_lost_ball_is_a_terminal() -> None:
    found = ends(make(MinAtarOptions(game="breakout"), 1), 200)
    assert len(found) > 5
    assert {end[1:] for end in found} == {(True, False)}


@pytest.mark.parametrize("game", ["freeway", "breakout"])
def test_a_time_limit_cuts(game: str) -> None:
    found = ends(make(MinAtarOptions(game=game, time_limit=4), 1), 12)
    assert found == [(4, False, True), (8, False, True), (12, False, True)]


def test_what_was_decided_is_one_line() -> None:
    env = make(MinAtarOptions(game="freeway"), 1)
    assert env.about == (
        "MinAtar freeway: time_limit 0 (its own 2,501 steps), sticky_actions 0.1, "
        "difficulty_ramping true, full_action_space true; "
        "obs is a picture [10, 10, 7] of bool, HWC"
    )
    env.close()
    plain = make(MinAtarOptions(game="breakout", sticky_actions=0.0, difficulty_ramping=False), 1)
    assert plain.about.startswith(
        "MinAtar breakout: time_limit 0, sticky_actions 0.0, difficulty_ramping false, "
    )
    plain.close()
    assert "time_limit 9, " in make(MinAtarOptions(game="freeway", time_limit=9), 1).about


def test_the_observation_space_is_the_planes() -> None:
    env = MinAtar(MinAtarOptions(game="breakout"))
    assert env.observation_space == spaces.Box(0, 1, (10, 10, 4), np.bool_)
    assert env.observation_space.contains(env.reset(seed=1)[0])


def test_nothing_is_logged_and_no_plotting_library_loaded() -> None:
    said = python(
        "import logging, os, sys\n"
        "os.dup2(1, 2)\n"
        "from core.envs.minatar import make\n"
        "from core.envs.options import MinAtarOptions\n"
        "make(MinAtarOptions(game='breakout'), 1).reset([1])\n"
        "print([name for name in ('matplotlib', 'minatar') if name in sys.modules])\n"
        "print(logging.getLogger().handlers)\n"
    )
    assert said == "[]\n[]\n"


def test_without_the_package_the_command_to_install_it_is_told(monkeypatch) -> None:
    monkeypatch.setattr("core.envs.minatar.find_spec", lambda name: None)
    from core.envs.minatar import _game_class

    _game_class.cache_clear()
    with pytest.raises(UsageError) as error:
        make(MinAtarOptions(game="breakout"), 1)
    assert str(error.value) == (
        "MinAtar needs the package 'minatar': pip install --no-deps -r requirements-minatar.txt"
    )
