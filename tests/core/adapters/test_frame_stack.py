"""FrameStack: gymnasium's observations, in frames that are shared and never joined for keeps."""

import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import FrameStackObservation

from core.adapters.frame_stack import FrameStack, LazyStack


class Noise(gym.Env):
    """Pictures at random; unless they are copied, always in the same array."""

    observation_space = gym.spaces.Box(0, 255, (20, 20), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, copies=False):
        self._copies = copies
        self._obs, self._rng = np.zeros((20, 20), np.uint8), np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        self._time = 0
        self._obs[...] = self._rng.integers(0, 256, (20, 20))
        return self._told(), {}

    def _told(self):
        return self._obs.copy() if self._copies else self._obs

    def step(self, action):
        self._time += 1
        self._obs[...] = self._rng.integers(0, 256, (20, 20))
        return self._told(), 1.0, self._time == 6, False, {}


@pytest.mark.parametrize("padding", ["reset", "zero"])
def test_it_observes_what_gymnasiums_stack_does(padding):
    ours, theirs = (
        FrameStack(Noise(), 4, padding),
        FrameStackObservation(Noise(copies=True), 4, padding_type=padding),
    )
    assert ours.observation_space == theirs.observation_space
    kept = []
    for _ in range(3):
        kept.append((ours.reset()[0], theirs.reset()[0].copy()))
        over = False
        while not over:
            one, _, over, *_ = ours.step(0)
            other, *_ = theirs.step(0)
            kept.append((one, other.copy()))
    for one, other in kept:  # looked at late, when the environment has written over its array
        assert (np.asarray(one) == other).all()
        assert one.shape == other.shape
        assert one.dtype == other.dtype == np.asarray(one).dtype


def test_frames_are_shared_and_a_join_is_not_kept():
    env = FrameStack(Noise(), 4)
    first, _ = env.reset()
    second, *_ = env.step(0)
    assert second.frame(2) is first.frame(3) is first[3] is first[0]
    joined = np.asarray(second)
    assert np.asarray(second) is not joined
    joined[...] = 0
    assert np.asarray(second).any()
    assert not hasattr(second, "__dict__"), "there is no place to keep one"


def test_an_array_by_every_way():
    frames = [np.full((2, 2), value, np.uint8) for value in (1, 2, 250)]
    stack = LazyStack(frames)
    assert (stack.shape, stack.ndim, stack.dtype, len(stack), stack.count()) == (
        (3, 2, 2),
        3,
        np.uint8,
        3,
        3,
    )
    assert np.asarray(stack, np.float32).dtype == np.float32
    assert stack[-1] is frames[2]
    assert stack[1:].tolist() == np.stack(frames)[1:].tolist()
    assert stack[..., 0].shape == (3, 2)
    assert [frame.max() for frame in stack] == [1, 2, 250]
    assert (stack == np.stack(frames)).all()
    assert np.stack([stack, stack]).shape == (2, 3, 2, 2)
    with pytest.raises(ValueError, match="without a copy"):
        np.array(stack, copy=False)


def test_stacks_pickled_together_share_their_frames():
    frames = [
        np.random.default_rng(at).integers(0, 256, (50, 50)).astype(np.uint8) for at in range(5)
    ]
    pair = [LazyStack(frames[:4]), LazyStack(frames[1:])]
    data = pickle.dumps(pair)
    assert len(data) < 5 * 2500 + 1000
    one, other = pickle.loads(data)
    assert one.frame(1) is other.frame(0)
    assert (np.asarray(other) == np.stack(frames[1:])).all()


@pytest.mark.parametrize(("depth", "padding"), [(0, "reset"), (4, "first")])
def test_what_it_does_not_take_is_named(depth, padding):
    with pytest.raises(ValueError, match=f"depth {depth}, padding '{padding}'"):
        FrameStack(Noise(), depth, padding)
