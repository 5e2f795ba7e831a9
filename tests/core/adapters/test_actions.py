"""Actions that arrive as numbers, as indices or one-hot are held, and given back as they came."""

import numpy as np
import pytest

from core.adapters.actions import env_like
from core.errors import UsageError
from core.types import ContinuousActions, DiscreteActions

OBS = np.zeros((3, 9, 9), np.uint8)


def test_one_hot_actions_are_held_as_indices_and_told_in_their_kind() -> None:
    given = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], np.int32)
    env, form = env_like(OBS, given[0], 3)
    assert env.actions == form.space == DiscreteActions(3)
    assert (env.observations["obs"].shape, env.observations["obs"].dtype) == (OBS.shape, np.uint8)
    held = form.held(given)
    assert held.tolist() == [1, 2, 0]
    told = form.told(held)
    assert told.dtype == np.int32 and (told == given).all()
    assert form.held(given[:, None]).tolist() == [[1], [2], [0]], "along the last axis"


@pytest.mark.parametrize(
    ("actions", "count", "space"),
    [
        (np.array([2, 0, 1]), 3, DiscreteActions(3)),
        (np.array([[0.5, -1.0]], np.float32), None, ContinuousActions((-1.0, -1.0), (1.0, 1.0))),
    ],
)
def test_indices_and_numbers_stay_what_they_are(actions, count, space) -> None:
    _, form = env_like(OBS, actions[0], count)
    assert form.space == space
    assert (form.told(form.held(actions)) == actions).all()


@pytest.mark.parametrize("shape", [(1,), (4,), (2, 3)])
def test_another_shape_is_refused_in_one_line(shape) -> None:
    with pytest.raises(UsageError, match=r"is neither an index nor one-hot of 3; set actions to"):
        env_like(OBS, np.zeros(shape, np.int64), 3)
