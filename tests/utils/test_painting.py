"""Pictures of observations and of stacks."""

import numpy as np
import pytest

from utils.painting import BORDER, PADDED, PLANES, SIDE, cells, magnified, picture, screen, strip


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_colours_and_grey_are_what_they_are(rng: np.random.Generator):
    grey = rng.integers(0, 256, (5, 7), np.uint8)
    assert np.array_equal(picture(grey), np.stack([grey] * 3, axis=-1))
    assert np.array_equal(picture(grey[..., None]), picture(grey))
    colours = rng.integers(0, 256, (5, 7, 3), np.uint8)
    assert np.array_equal(picture(colours), colours)
    assert np.array_equal(picture(np.moveaxis(colours, -1, 0)), colours)


def test_floats_are_shares_or_pixels():
    shares = np.array([[0.0, 0.5], [1.0, np.nan]])
    assert picture(shares)[..., 0].tolist() == [[0, 127], [255, 0]]
    assert picture(255 * shares)[..., 0].tolist() == [[0, 127], [255, 0]]


def test_every_plane_has_a_colour_and_later_ones_lie_above():
    planes = np.zeros((4, 4, 6), np.bool_)
    planes[0, 0, 2] = planes[0, 1, 5] = planes[0, 2, 2] = planes[0, 2, 5] = True
    expected = [PLANES[2].tolist(), PLANES[5].tolist(), PLANES[5].tolist(), [0, 0, 0]]
    assert picture(planes)[0].tolist() == expected
    assert len(np.unique(PLANES, axis=0)) == 10


def test_cells_go_from_black_to_white():
    low, high = np.array([-1.0, 0.0, 0.0]), np.array([1.0, 4.0, 1.0])
    assert cells(np.array([0.0, 4.0, -9.0]), low, high)[0, :, 0].tolist() == [127, 255, 0]


def test_screens_are_large_and_even():
    frame = np.arange(3 * 5 * 3, dtype=np.uint8).reshape(3, 5, 3)
    assert magnified(frame, 6).shape == (6, 10, 3)
    assert magnified(frame, 2) is not None
    assert magnified(frame, 2).shape == frame.shape
    assert screen(frame).shape == (SIDE, 400, 3)
    odd = np.zeros((241, 301, 3), np.uint8)
    odd[-1], odd[:, -1] = 9, 9
    assert screen(odd).shape == (242, 302, 3)
    assert (screen(odd)[-1] == 9).all()


def test_three_planes_of_flags_are_no_colours():
    planes = np.zeros((4, 4, 3), np.bool_)
    planes[0, 0] = True
    assert picture(planes)[0, 0].tolist() == PLANES[2].tolist()


def test_a_stack_lies_side_by_side_newest_right_and_padding_is_dimmed():
    frames = np.full((3, 2, 4), [[[200]], [[200]], [[90]]], np.uint8)
    shown = strip(frames, 2, 36)
    assert shown.shape == (2 * 2 + 4, 3 * (4 * 2 + 4), 3)
    lefts = range(0, shown.shape[1], 12)
    assert [shown[0, left].tolist() for left in lefts] == [list(PADDED)] * 2 + [list(BORDER)]
    assert [shown[2, left + 2].tolist() for left in lefts] == [[100] * 3] * 2 + [[90] * 3]
    assert np.array_equal(shown[2:-2, 26:-2], np.full((4, 8, 3), 90))


def test_a_stack_keeps_its_pixels_where_it_is_large(rng: np.random.Generator):
    frames = rng.integers(0, 256, (4, 96, 96, 3), np.uint8)
    shown = strip(frames, 0, 400)
    assert shown.shape == (100, 400, 3)
    for place in range(4):
        assert np.array_equal(shown[2:-2, 100 * place + 2 : 100 * place + 98], frames[place])
