"""n-step sums, by hand."""

import numpy as np
import pytest

from core.episodes.n_step import n_step_sum

NO, YES = False, True


def one(reward, terminal, exists, gamma: float = 0.5) -> tuple[int, float, float]:
    found = n_step_sum(
        np.array([reward], np.float32), np.array([terminal]), np.array([exists]), gamma
    )
    assert found.reward.dtype == found.discount.dtype == np.float32
    assert found.steps.shape == found.reward.shape == found.discount.shape == (1,)
    return int(found.steps[0]), float(found.reward[0]), float(found.discount[0])


@pytest.mark.parametrize(
    ("terminal", "exists", "answer"),
    [
        # rewards 1, 2, 4 at gamma 1/2: 1 + 1 + 1, then 1/8 of what follows
        ([NO, NO, NO], [YES, YES, YES], (3, 3.0, 0.125)),
        ([NO, NO, YES], [YES, YES, YES], (3, 3.0, 0.0)),
        ([NO, YES, NO], [YES, YES, YES], (2, 2.0, 0.0)),
        ([NO, YES, YES], [YES, YES, YES], (2, 2.0, 0.0)),
        ([YES, NO, NO], [YES, YES, YES], (1, 1.0, 0.0)),
        ([NO, NO, NO], [YES, YES, NO], (2, 2.0, 0.25)),
        ([NO, NO, NO], [YES, NO, NO], (1, 1.0, 0.5)),
        # what lies behind an end is another episode's, be it terminal
        ([NO, NO, YES], [YES, NO, YES], (1, 1.0, 0.5)),
        ([NO, YES, NO], [YES, NO, YES], (1, 1.0, 0.5)),
    ],
)
def test_by_hand(terminal, exists, answer) -> None:
    assert one([1, 2, 4], terminal, exists) == answer


def test_one_step() -> None:
    assert one([3], [NO], [YES], 0.9) == (1, 3.0, float(np.float32(0.9)))
    assert one([3], [YES], [YES], 0.9) == (1, 3.0, 0.0)


def test_gammas_at_their_limits() -> None:
    assert one([1, 2, 4], [NO] * 3, [YES] * 3, 1.0) == (3, 7.0, 1.0)
    assert one([1, 2, 4], [NO] * 3, [YES] * 3, 0.0) == (3, 1.0, 0.0)


def test_what_does_not_exist_adds_nothing_whatever_it_holds() -> None:
    assert one([1, np.nan, np.inf], [NO] * 3, [YES, NO, NO]) == (1, 1.0, 0.5)


def test_rows_of_a_batch_are_apart() -> None:
    found = n_step_sum(
        np.array([[1, 2], [4, 8], [16, 32]], np.float32),
        np.array([[NO, NO], [YES, NO], [NO, NO]]),
        np.array([[YES, YES], [YES, YES], [YES, NO]]),
        0.5,
    )
    assert found.steps.tolist() == [2, 1, 1]
    assert found.reward.tolist() == [2, 4, 16]
    assert found.discount.tolist() == [0.25, 0, 0.5]


def test_sums_are_made_in_double() -> None:
    # 2^24 + 1 is no float32: summed in those, the ones would vanish one by one
    reward = [2.0**24, 1, 1, 1, 1]
    assert one(reward, [NO] * 5, [YES] * 5, 1.0)[1] == 2.0**24 + 4
