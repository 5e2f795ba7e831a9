"""Windows of trajectories, by hand."""

import numpy as np
import pytest

from core.episodes.windows import WindowReader
from core.options import SharedOptions
from core.sampling.uniform import Draw

from .stories import ENV, EXTRAS, Story

LANE = 2**40


def reader(story: Story, *, window: int = 1, length: int = 4, gamma: float = 0.5) -> WindowReader:
    shared = SharedOptions(window_length=window, trajectory_length=length, gamma=gamma)
    return WindowReader(story.ring, ENV, EXTRAS, shared)


def draw(*rows: int, lane: int = 0) -> Draw:
    lanes = np.full(len(rows), lane)
    return Draw(lanes, np.array(rows, np.int64), np.ones(len(rows), np.float32))


def one(story: Story, row: int, most: int | None = None, **how) -> dict[str, list]:
    limit = None if most is None else np.array([most])
    batch = reader(story, **how).read(draw(row), most=limit)
    return {name: (array[0] if array.ndim == 1 else array[:, 0]).tolist()
            for name, array in batch.items()}  # fmt: skip


def test_a_window_of_full_length() -> None:
    assert one(Story(20).tell("s......"), 1) == {
        "obs": [[1], [2], [3], [4], [5]],
        "action": [1, 2, 3, 4],
        "mark": [0.5, 1, 1.5, 2],
        "reward": [2, 3, 4, 5],
        "discount": [0.5] * 4,
        "mask": [True] * 4,
        "weight": 1,
        "id": 1,
    }


@pytest.mark.parametrize(
    ("ending", "discount"), [("t", 0.0), ("c", 0.5), (".", 0.5)], ids=["done", "cut", "open"]
)
def test_it_ends_with_its_episode_and_is_padded_on_the_right(ending: str, discount: float) -> None:
    following = "" if ending == "." else "s..."
    found = one(Story(20).tell(f"s...{ending}{following}"), 2)
    # the last real observation is the successor of the last real step, and stands again after it
    assert found["obs"] == [[2], [3], [4], [4], [4]]
    assert found["reward"] == [3, 4, 0, 0]
    assert found["discount"] == [0.5, discount, 1, 1]
    assert found["mask"] == [True, True, False, False]
    assert found["action"][:2] == [2, 3]
    assert found["mark"][:2] == [1, 1.5]


def test_a_lost_life_ends_the_value_and_not_the_window() -> None:
    found = one(Story(20).tell("s.l..t"), 0, length=6)
    assert found["obs"] == [[0], [1], [2], [3], [4], [5], [5]]
    assert found["discount"] == [0.5, 0, 0.5, 0.5, 0, 1]
    assert found["mask"] == [True] * 5 + [False]
    assert found["reward"] == [1, 2, 3, 4, 5, 0]


def test_stacks_start_at_the_episode_s_first_observation_and_go_on_in_the_padding() -> None:
    found = one(Story(20).tell("sts..t"), 2, window=3)
    assert found["obs"] == [[2, 2, 2], [2, 2, 3], [2, 3, 4], [3, 4, 5], [3, 4, 5]]
    assert one(Story(20).tell("s...."), 2, window=3, length=1)["obs"] == [[0, 1, 2], [1, 2, 3]]


def test_most_ends_windows_earlier_each_by_its_own() -> None:
    story = Story(20).tell("s.....ts...")
    batch = reader(story, length=3).read(draw(0, 4, 7), most=np.array([1, 3, 2]))
    assert batch["mask"].T.tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]
    assert batch["obs"][..., 0].T.tolist() == [[0, 1, 1, 1], [4, 5, 6, 6], [7, 8, 9, 9]]
    assert batch["discount"].T.tolist() == [[0.5, 1, 1], [0.5, 0, 1], [0.5, 0.5, 1]]


def test_windows_over_the_seam_and_of_several_lanes() -> None:
    story = Story(5, lanes=2).tell("s.......", 0).tell("s..t", 1)
    lanes, rows = np.array([0, 1, 0]), np.array([4, 2, 6])
    batch = reader(story, length=3).read(Draw(lanes, rows, np.array([1, 2, 3], np.float32)))
    assert batch["obs"][..., 0].T.tolist() == [[4, 5, 6, 7], [2, 3, 3, 3], [6, 7, 7, 7]]
    assert batch["reward"].T.tolist() == [[5, 6, 7], [3, 0, 0], [7, 0, 0]]
    assert batch["id"].tolist() == [4, LANE + 2, 6]
    assert batch["weight"].tolist() == [1, 2, 3]


def test_shapes_and_dtypes() -> None:
    batch = reader(Story(20).tell("s..."), window=2, length=5).read(draw(0, 1, 1))
    assert {name: (array.shape, array.dtype.name) for name, array in batch.items()} == {
        "obs": ((6, 3, 2), "float32"),
        "action": ((5, 3), "int64"),
        "mark": ((5, 3), "float32"),
        "reward": ((5, 3), "float32"),
        "discount": ((5, 3), "float32"),
        "mask": ((5, 3), "bool"),
        "weight": ((3,), "float32"),
        "id": ((3,), "int64"),
    }


def test_no_windows_are_a_batch_of_none() -> None:
    batch = reader(Story(20)).read(draw())
    assert batch["obs"].shape == (5, 0, 1)
    assert batch["mask"].shape == (4, 0)


def test_columns_are_chosen_and_out_is_filled() -> None:
    story = Story(20).tell("s...t")
    names = reader(story).columns
    assert names == ("obs", "action", "mark", "reward", "discount", "mask", "weight", "id")
    whole = reader(story).read(draw(0, 2))
    for name in names:
        (array,) = reader(story).read(draw(0, 2), [name]).values()
        assert np.array_equal(array, whole[name])
    out = {"reward": np.full((4, 2), 9, np.float32)}
    given = out["reward"]
    filled = reader(story).read(draw(0, 2), ["reward", "mask"], out)
    assert filled["reward"] is given
    assert np.array_equal(given, whole["reward"])
    assert np.array_equal(filled["mask"], whole["mask"])


def test_an_unknown_column_is_said() -> None:
    with pytest.raises(ValueError, match=r"no column \['next_obs'\]; there are .*'mask'"):
        reader(Story(20).tell("s..")).read(draw(0), ["obs", "next_obs"])
