"""The toy worlds: their right answers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core.envs.options import ToyOptions
from core.envs.toy import Catch, Chain, Counter, Moment, decode, encode, make
from core.errors import UsageError
from core.types import DiscreteActions


@given(
    st.integers(0, 255), st.integers(0, 2**24 - 1), st.integers(0, 2**32 - 1), st.integers(3, 64)
)
def test_a_frame_tells_its_moment(lane: int, episode: int, step: int, side: int) -> None:
    frame = encode(Moment(lane, episode, step), side)
    assert (frame.shape, frame.dtype) == ((side, side), np.uint8)
    assert decode(frame) == Moment(lane, episode, step)


def test_frames_differ_beyond_their_code() -> None:
    one, two, three = (encode(Moment(0, e, s), 10) for e, s in ((0, 0), (0, 1), (1, 0)))
    for frame in (two, three):
        assert (frame.reshape(-1)[8:] != one.reshape(-1)[8:]).mean() > 0.9


@pytest.mark.parametrize("observation", ["vector", "pixels"])
@pytest.mark.parametrize("ending", ["terminate", "truncate"])
def test_counter(observation: str, ending: str) -> None:
    options = ToyOptions(
        game="counter", episode_length=3, ending=ending, observation=observation, size=4
    )
    env = Counter(options, 2)
    for episode in range(2):
        obs, _ = env.reset()
        assert env.observation_space.contains(obs)
        assert decode(obs) == Moment(2, episode, 0)
        for step in (1, 2, 3):
            obs, reward, terminated, truncated, infos = env.step(0)
            assert env.observation_space.contains(obs)
            assert decode(obs) == Moment(2, episode, step)
            assert (reward, infos) == (step, {"step": step})
            over = step == 3
            assert terminated == (over and ending == "terminate")
            assert truncated == (over and ending == "truncate")


def test_a_counter_without_length_never_ends() -> None:
    env = Counter(ToyOptions(game="counter", episode_length=0), 0)
    env.reset()
    assert not any(any(env.step(0)[2:4]) for _ in range(500))


@pytest.mark.parametrize(("size", "lanes"), [(2, 1), (3, 257)])
def test_a_counter_frame_that_cannot_tell_its_moment_is_refused(size: int, lanes: int) -> None:
    options = ToyOptions(game="counter", observation="pixels", size=size)
    with pytest.raises(UsageError, match="size 3 or more and num_envs up to 256"):
        make(options, lanes)
    make(ToyOptions(game="counter", size=2), 2).close()
    make(ToyOptions(game="counter", observation="pixels", size=3), 2).close()


def test_chain() -> None:
    env = Chain(ToyOptions(game="chain", size=4), 0)
    obs, _ = env.reset()
    assert obs.tolist() == [1, 0, 0, 0]
    told = []
    for action in (1, 1, 1):
        obs, reward, terminated, truncated, _ = env.step(action)
        told.append((obs.argmax().item(), obs.sum().item(), reward, terminated, truncated))
    assert told == [(1, 1, 0, False, False), (2, 1, 0, False, False), (3, 1, 1, True, False)]
    env.reset()
    env.step(1)
    obs, reward, terminated, truncated, _ = env.step(0)
    assert (obs.tolist(), reward, terminated, truncated) == ([0, 1, 0, 0], 0.1, True, False)


def catch(env: Catch, aim: bool) -> tuple[float, int]:
    """Plays one ball, moving to it or away from it."""
    obs, _ = env.reset()
    total, steps, terminated = 0.0, 0, False
    while not terminated:
        assert env.observation_space.contains(obs)
        ball = int(np.flatnonzero(obs[:-1].max(axis=0))[0])
        paddle = int(np.flatnonzero(obs[-1])[0])
        toward = 1 + np.sign(ball - paddle)
        obs, reward, terminated, truncated, _ = env.step(toward if aim else 2 * (ball == 0))
        assert not truncated
        total, steps = total + reward, steps + 1
    return total, steps


def test_catch_pays_for_catching() -> None:
    env = Catch(ToyOptions(game="catch", size=10), 0)
    env.reset(seed=3)
    assert {catch(env, aim=True) for _ in range(30)} == {(1.0, 9)}
    assert {catch(env, aim=False) for _ in range(30)} == {(-1.0, 9)}


def test_catch_drops_balls_everywhere_by_seed() -> None:
    env = Catch(ToyOptions(game="catch", size=10), 0)
    columns = {int(env.reset(seed=seed)[0][0].argmax()) for seed in range(60)}
    assert columns == set(range(5))
    one, two = (env.reset(seed=7)[0].tolist() for _ in range(2))
    assert one == two


def test_make_gives_lanes_of_their_own_and_a_time_limit() -> None:
    env = make(ToyOptions(game="counter", episode_length=9, time_limit=4), 3)
    assert env.lanes == 3
    assert env.spec.actions == DiscreteActions(3)
    assert [decode(one) for one in env.reset([1, 2, 3])["obs"]] == [
        Moment(x, 0, 0) for x in range(3)
    ]
    ends = [env.step(np.zeros(3, int)).truncated.all() for _ in range(4)]
    assert ends == [False, False, False, True]
    env.close()


@pytest.mark.parametrize("wrong", [{"game": "chess"}, {"game": "chain", "size": 1}, {}])
def test_options_say_what_is_allowed(wrong) -> None:
    with pytest.raises(ValidationError):
        ToyOptions(**wrong)
