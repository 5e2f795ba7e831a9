"""Screens become observations as the papers say."""

import numpy as np
import pytest

from core.envs.preprocess import Emulated, Screen, mean_grey, shrunk

from .emulator import SIDE, Emulator, seen
from .optional import needs

pytestmark = needs("cv2")


def area(frame: np.ndarray, side: int) -> np.ndarray:
    """The definition: each pixel the mean of what it covers, parts of pixels counted by share."""

    def shares(length: int) -> np.ndarray:
        edges = np.arange(side + 1) * length / side
        low, high = edges[:-1, None], edges[1:, None]
        pixels = np.arange(length)
        return np.clip(np.minimum(high, pixels + 1) - np.maximum(low, pixels), 0, 1) * side / length

    rows, columns = shares(frame.shape[0]), shares(frame.shape[1])
    return np.einsum("ij,jk...,lk->il...", rows, frame.astype(np.float64), columns, optimize=True)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def test_mean_grey_is_the_rounded_mean() -> None:
    frame = noise(210, 160, 3)
    grey = mean_grey(frame)
    assert grey.dtype == np.uint8
    assert np.array_equal(grey, np.rint(frame.astype(float).mean(axis=2)))


@pytest.mark.parametrize("shape", [(210, 160), (250, 160), (210, 160, 3), (96, 96, 3)])
@pytest.mark.parametrize("side", [42, 48, 84])
def test_a_pixel_is_the_mean_of_its_area(shape: tuple[int, ...], side: int) -> None:
    frame = noise(*shape)
    square = shrunk(frame, side)
    assert square.shape == (side, side, *shape[2:])
    assert square.dtype == np.uint8
    assert np.abs(square - area(frame, side)).max() <= 1


def screen(grey="luma", side: int = 0, *, pooled: bool) -> tuple[Screen, Emulator]:
    emulator = Emulator({}, {})
    return Screen(Emulated(emulator, grey), side, pooled=pooled), emulator


def draw(screen: Screen, emulator: Emulator, frames: int) -> None:
    for _ in range(frames):
        emulator.act()
        screen.draw()


@pytest.mark.parametrize("grey", ["luma", "mean", "off"])
@pytest.mark.parametrize(("pooled", "depth"), [(True, 2), (False, 1)])
def test_the_newest_screens_are_seen(grey: str, pooled: bool, depth: int) -> None:
    shown, emulator = screen(grey, pooled=pooled)
    assert shown.depth == depth
    for last in range(1, 8):
        draw(shown, emulator, 1)
        assert seen(shown.observation()) == list(range(max(1, last - depth + 1), last + 1))


def test_what_is_drawn_after_forgetting_stands_alone() -> None:
    shown, emulator = screen(pooled=True)
    for frames in (1, 2, 3):
        draw(shown, emulator, frames)
        shown.forget()
        draw(shown, emulator, 1)
        assert seen(shown.observation()) == [emulator.frame]


@pytest.mark.parametrize(("grey", "lit"), [("luma", 200), ("mean", 60), ("off", [30, 60, 91])])
def test_planes_and_colours(grey: str, lit) -> None:
    shown, emulator = screen(grey, pooled=True)
    draw(shown, emulator, 3)
    obs = shown.observation()
    assert shown.shape == obs.shape == ((SIDE, SIDE, 3) if grey == "off" else (SIDE, SIDE))
    assert obs.dtype == np.uint8
    for frame in (2, 3):
        assert np.array_equal(obs.reshape(SIDE * SIDE, -1)[frame].squeeze(), lit)


@pytest.mark.parametrize(
    ("grey", "shape"), [("luma", (8, 8)), ("mean", (8, 8)), ("off", (8, 8, 3))]
)
def test_shrinking_comes_last(grey: str, shape: tuple[int, ...]) -> None:
    shown, emulator = screen(grey, 8, pooled=True)
    whole, same = screen(grey, pooled=True)
    for one, its in ((shown, emulator), (whole, same)):
        draw(one, its, 2)
    assert shown.shape == shown.observation().shape == shape
    assert np.array_equal(shown.observation(), shrunk(whole.observation(), 8))


@pytest.mark.parametrize("pooled", [True, False])
def test_an_observation_stays_as_it_is(pooled: bool) -> None:
    shown, emulator = screen(pooled=pooled)
    draw(shown, emulator, 3)
    obs = shown.observation()
    kept = obs.copy()
    draw(shown, emulator, 5)
    assert np.array_equal(obs, kept)
