"""Env steps of several frames, and pictures made ready, on a world whose frames name themselves."""

import json
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from core.envs.frames import Frames
from core.envs.gym import vectorize
from core.envs.options import GymOptions
from core.envs.preprocess import shrunk
from core.errors import UsageError
from tests.conftest import examples

from .optional import needs

SIDE = 16
DISCRETE = spaces.Discrete(3)


class Reel(gym.Env[Any, Any]):
    """Frame n lights the n-th pixel, and earns n; `over` says which frame ends it, and how."""

    metadata = {"render_fps": 50}  # noqa: RUF012

    def __init__(
        self,
        over: dict[int, str] | None = None,
        shape: tuple[int, ...] = (SIDE, SIDE, 3),
        dtype: Any = np.uint8,
        actions: spaces.Space[Any] = DISCRETE,
    ) -> None:
        self.observation_space = spaces.Box(0, 255, shape, dtype)
        self.action_space = actions
        self.over = over or {}
        self.frame = 0
        self.drawn: list[int] = []
        self.actions: list[Any] = []
        self.seeds: list[int | None] = []

    def show(self) -> Any:
        self.drawn.append(self.frame)
        picture = np.zeros(self.observation_space.shape, self.observation_space.dtype)
        picture.reshape(SIDE * SIDE, -1)[self.frame] = 200
        return picture

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.frame, self.drawn, self.actions = 0, [], []
        return self.show(), {}

    def step(self, action: Any) -> Any:
        self.frame += 1
        self.actions.append(action)
        how = self.over.get(self.frame)
        return (
            self.show(),
            float(self.frame),
            how == "terminated",
            how == "truncated",
            {"at": self.frame},
        )


class Lazy(Reel):
    """The same, which draws what it is told to alone."""

    drawing = True

    def show(self) -> Any:
        return super().show() if self.drawing else None

    def draw(self) -> Any:
        return super().show()


def seen(obs: np.ndarray) -> list[int]:
    """The frames that an observation of full size is made of."""
    return np.flatnonzero(obs.reshape(SIDE * SIDE, -1)[:, 0]).tolist()


def plays(world: gym.Env[Any, Any], **options: Any) -> Frames:
    return Frames(world, GymOptions(game="reel", **options))


@pytest.mark.parametrize("world", [Reel, Lazy])
@pytest.mark.parametrize("max_pool", [True, False])
@pytest.mark.parametrize("skip", [1, 2, 3, 4])
def test_a_step_is_so_many_frames_and_shows_the_last(world: Any, skip: int, max_pool: bool) -> None:
    inner = world()
    game = plays(inner, frame_skip=skip, max_pool=max_pool)
    assert seen(game.reset(seed=1)[0]) == [0]
    for step in range(1, 5):
        obs, reward, terminated, truncated, infos = game.step(2)
        last = step * skip
        assert inner.actions == [2] * last
        assert seen(obs) == ([last - 1, last] if max_pool else [last])
        assert reward == sum(range(last - skip + 1, last + 1))
        assert (terminated, truncated, infos) == (False, False, {"at": last})
        assert game.observation_space.contains(obs)


@pytest.mark.parametrize("world", [Reel, Lazy])
@pytest.mark.parametrize("how", ["terminated", "truncated"])
@pytest.mark.parametrize(("frame", "shown"), [(5, [5]), (6, [6]), (7, [7]), (8, [7, 8])])
def test_an_episode_that_ends_within_a_step_shows_its_true_last_frame(
    world: Any, how: str, frame: int, shown: list[int]
) -> None:
    inner = world({frame: how})
    game = plays(inner, frame_skip=4, max_pool=True)
    game.reset(seed=1)
    game.step(0)
    obs, reward, terminated, truncated, _ = game.step(0)
    assert seen(obs) == shown
    assert inner.frame == frame
    assert reward == sum(range(5, frame + 1))
    assert (terminated, truncated) == (how == "terminated", how == "truncated")
    assert seen(game.reset()[0]) == [0]


@pytest.mark.parametrize("skip", [1, 2])
def test_two_frames_are_pooled_across_steps_where_none_lies_between(skip: int) -> None:
    game = plays(Reel({5: "terminated"}), frame_skip=skip, max_pool=True)
    game.reset(seed=1)
    while not (result := game.step(0))[2]:
        pass
    assert seen(result[0]) == [4, 5]


@pytest.mark.parametrize("max_pool", [True, False])
def test_what_nobody_sees_is_not_drawn_where_that_can_be_told(max_pool: bool) -> None:
    inner = Lazy({7: "terminated"})
    game = plays(inner, frame_skip=4, max_pool=max_pool, noop_max=3)
    game.reset(seed=3)
    idle = len(inner.actions)
    assert inner.drawn == [idle]
    inner.over = {idle + 7: "truncated"}
    game.step(1)
    game.step(1)
    # the last step ended with its third frame
    pooled = [idle + 3] if max_pool else []
    end = [idle + 7]
    assert inner.drawn == [idle, *pooled, idle + 4, *end]


def test_idle_frames_are_one_to_as_many_as_asked_for_and_earn_nothing() -> None:
    inner = Lazy()
    game = plays(inner, noop_max=3)
    counts = []
    for seed in range(60):
        obs, _ = game.reset(seed=seed)
        counts.append(len(inner.actions))
        assert set(inner.actions) == {0}
        assert seen(obs) == [counts[-1]]
    assert sorted(set(counts)) == [1, 2, 3]
    assert all(counts.count(count) >= 10 for count in (1, 2, 3))
    game.reset(seed=7)
    assert len(inner.actions) == counts[7]
    assert game.step(1)[1] == counts[7] + 1


@pytest.mark.parametrize("world", [Reel, Lazy])
def test_an_episode_that_ends_in_its_idle_frames_begins_anew(world: Any) -> None:
    inner = world({2: "terminated"})
    game = plays(inner, noop_max=3)
    for seed in range(20):
        obs, _ = game.reset(seed=seed)
        assert seen(obs) == [inner.frame]
        assert inner.frame < 2
    assert None in inner.seeds  # with the generator as it was, not with the seed


@pytest.mark.parametrize(
    ("space", "idle"),
    [
        (spaces.Discrete(3, start=5), 5),
        (spaces.Box(-1, 1, (2,), np.float32), np.zeros(2, np.float32)),
    ],
)
def test_what_an_idle_action_is(space: Any, idle: Any) -> None:
    inner = Reel(actions=space)
    plays(inner, noop_max=1).reset(seed=1)
    assert len(inner.actions) == 1
    assert np.array_equal(inner.actions[0], idle)
    assert space.contains(inner.actions[0])


@pytest.mark.parametrize("space", [spaces.Box(1, 2, (2,)), spaces.MultiDiscrete([2, 2])])
def test_without_an_idle_action_there_are_no_idle_frames(space: Any) -> None:
    with pytest.raises(UsageError, match="noop_max needs an idle action"):
        plays(Reel(actions=space), noop_max=1)
    plays(Reel(actions=space), frame_skip=2).reset(seed=1)


def test_a_vector_is_passed_on_and_its_steps_skip_too() -> None:
    inner = Reel(shape=(SIDE * SIDE,), dtype=np.float32)
    game = plays(inner, frame_skip=3)
    game.reset(seed=1)
    obs, reward, *_ = game.step(1)
    assert obs.dtype == np.float32
    assert np.flatnonzero(obs).tolist() == [3]
    assert reward == 6
    assert game.observation_space == inner.observation_space


@pytest.mark.parametrize("skip", [1, 4])
def test_a_step_lasts_as_long_as_its_frames(skip: int) -> None:
    assert plays(Reel(), frame_skip=skip).metadata["render_fps"] == 50 / skip
    assert Reel.metadata == {"render_fps": 50}


class Noise(Reel):
    """Pictures in which every pixel counts."""

    def show(self) -> Any:
        rng = np.random.default_rng(self.frame)
        return rng.integers(0, 256, self.observation_space.shape, np.uint8)


GREY = {
    "luma": lambda rgb: np.rint(rgb.astype(float) @ [0.299, 0.587, 0.114]),
    "mean": lambda rgb: np.rint(rgb.astype(float).mean(axis=2)),
    "off": lambda rgb: rgb,
}


@needs("cv2")
@examples(40)
@given(
    st.sampled_from(["luma", "mean", "off"]),
    st.tuples(*[st.integers(0, 7)] * 4),
    st.sampled_from([0, 4, 11]),
    st.booleans(),
    st.integers(1, 4),
)
def test_cut_then_grey_then_pooled_then_shrunk(
    grey: str, crop: tuple[int, int, int, int], side: int, max_pool: bool, skip: int
) -> None:
    keys = {"greyscale": grey, "crop": crop, "resize": side, "max_pool": max_pool}
    game = plays(Noise(shape=(20, 24, 3)), frame_skip=skip, **keys)
    inner = Noise(shape=(20, 24, 3))
    game.reset(seed=1)
    top, bottom, left, right = crop
    for step in range(1, 4):
        obs = game.step(0)[0]
        frames = []
        for inner.frame in range(step * skip - max_pool, step * skip + 1):
            part = inner.show()[top : 20 - bottom, left : 24 - right]
            frames.append(GREY[grey](part).astype(np.uint8))
        wanted = np.max(frames, axis=0)
        if side:
            wanted = shrunk(wanted, side)
        assert obs.shape == game.observation_space.shape == wanted.shape
        assert obs.dtype == np.uint8
        # OpenCV weighs colours in fixed point: a tie may fall otherwise
        assert np.abs(obs.astype(int) - wanted).max() <= (grey == "luma")


@pytest.mark.parametrize("shape", [(SIDE, SIDE), (SIDE, SIDE, 1)])
@pytest.mark.parametrize(
    ("keys", "sides"), [({"crop": (1, 2, 3, 4)}, (13, 9)), ({"max_pool": True}, (SIDE, SIDE))]
)
def test_a_picture_keeps_its_axes(shape: tuple[int, ...], keys: Any, sides: Any) -> None:
    game = plays(Reel(shape=shape), **keys)
    obs = game.reset(seed=1)[0]
    assert obs.shape == game.observation_space.shape == (*sides, *shape[2:])


@needs("cv2")
def test_a_single_channel_stays_one() -> None:
    game = plays(Reel(shape=(SIDE, SIDE, 1)), resize=8)
    assert game.reset(seed=1)[0].shape == (8, 8, 1)


PICTURE = {"crop": (1, 0, 0, 0), "greyscale": "mean", "resize": 8, "max_pool": True}


@pytest.mark.parametrize("key", PICTURE)
@pytest.mark.parametrize(
    ("world", "says"),
    [
        (Reel(shape=(SIDE * SIDE,)), r"for one picture \[H, W\] or \[H, W, C\]"),
        (Reel(shape=(3, SIDE * 2, SIDE * 2)), r"for one picture \[H, W\] or \[H, W, C\]"),
        (Reel(dtype=np.float32), "for pixels of uint8, and it observes float32 from 0 to 255"),
    ],
)
def test_what_is_no_picture_of_bytes_is_refused_by_key(key: str, world: Any, says: str) -> None:
    with pytest.raises(UsageError, match=f"{key}: {says}"):
        plays(world, **{key: PICTURE[key]})


def test_nothing_grey_is_made_grey_and_nothing_is_cut_to_nothing() -> None:
    with pytest.raises(UsageError, match=r"greyscale: for pictures \[H, W, 3\].* \[16, 16\]"):
        plays(Reel(shape=(SIDE, SIDE)), greyscale="luma")
    with pytest.raises(UsageError, match=r"crop \[8, 8, 0, 0\] leaves nothing of \[16, 16, 3\]"):
        plays(Reel(), crop=(8, 8, 0, 0))
    with pytest.raises(UsageError, match="crop"):
        plays(Reel(), crop=(0, 0, 0, 16))
    plays(Reel(), crop=(8, 7, 0, 15))


@pytest.mark.parametrize("key", ["greyscale", "resize"])
def test_a_missing_package_is_named_at_once(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(UsageError, match="'cv2': pip install opencv-python-headless"):
        plays(Reel(), **{key: PICTURE[key]})
    plays(Reel(), crop=(1, 0, 0, 0), max_pool=True).reset(seed=1)


class Kept(Reel):
    """A reel that can be snapshotted."""

    def snapshot(self) -> Any:
        return {"frame": self.frame}

    def restore(self, snapshot: Any) -> None:
        self.frame = snapshot["frame"]


@pytest.mark.parametrize(
    "keys",
    [
        {"max_pool": True},
        {"max_pool": True, "frame_skip": 2, "crop": [1, 0, 0, 0]},
        {"frame_skip": 3, "noop_max": 5},
    ],
)
def test_a_snapshot_goes_on_bit_for_bit(keys: dict[str, Any]) -> None:
    def made() -> Any:
        return vectorize([lambda: plays(Kept({40: "terminated"}), **keys)], "reel")

    first, other = made(), made()
    first.reset([1])
    for _ in range(5):
        first.step(np.zeros(1, np.int64))
    snapshot = first.snapshot()
    assert snapshot is not None
    json.dumps(snapshot, default=lambda array: array.tolist())
    other.restore(snapshot)
    for _ in range(40):
        one, two = first.step(np.ones(1, np.int64)), other.step(np.ones(1, np.int64))
        assert np.array_equal(one.next_obs["obs"], two.next_obs["obs"])
        assert np.array_equal(one.obs["obs"], two.obs["obs"])
        assert (one.reward, one.terminated) == (two.reward, two.terminated)


def test_a_snapshot_of_other_options_is_refused() -> None:
    one, other = (plays(Kept(), frame_skip=skip) for skip in (2, 3))
    one.reset(seed=1)
    with pytest.raises(ValueError, match="snapshot of a game with"):
        other.restore(one.snapshot())
