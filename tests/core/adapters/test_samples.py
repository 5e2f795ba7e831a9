"""Batches by the names of other libraries, by hand."""

import numpy as np

from core.adapters.samples import five, outcome


def batch() -> dict:
    return {
        "obs": np.arange(6.0).reshape(3, 2),
        "next_obs": np.arange(6.0).reshape(3, 2) + 2,
        "action": np.array([2, 0, 1]),
        "reward": np.array([1.5, -1.0, 0.0], np.float32),
        "discount": np.array([0.99, 0.0, 0.5], np.float32),
    }


def test_what_ends_a_step_is_a_column_of_one() -> None:
    told = outcome(batch())
    assert told["reward"].tolist() == [[1.5], [-1.0], [0.0]]
    assert told["done"].tolist() == told["terminated"].tolist() == [[False], [True], [False]]
    assert told["truncated"].tolist() == [[False]] * 3
    assert told["truncated"].dtype == told["done"].dtype == np.bool_


def test_five_parts_by_their_names() -> None:
    parts = five(batch())
    assert list(parts) == ["observations", "actions", "next_observations", "dones", "rewards"]
    assert parts["dones"].tolist() == [[0.0], [1.0], [0.0]] and parts["dones"].dtype == np.float32
    assert parts["actions"].tolist() == [[2], [0], [1]]
    assert parts["rewards"].tolist() == [[1.5], [-1.0], [0.0]]
    assert five(batch(), 2)["discounts"].tolist() == batch()["discount"][:, None].tolist()


def test_observations_of_several_parts_are_a_dict() -> None:
    told = batch()
    for name in ("obs", "next_obs"):
        told |= {f"{name}.a": told[name], f"{name}.b": told.pop(name)[:, 0]}
    parts = five(told)
    assert set(parts["observations"]) == set(parts["next_observations"]) == {"a", "b"}
    assert (parts["observations"]["b"] == parts["observations"]["a"][:, 0]).all()
