"""Stacks: the rule, and that the actor sees what the memory gives."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.checkpoint import from_bytes, to_bytes
from core.episodes.stacking import FrameStack, stack_offsets
from core.sampling.uniform import Draw, all_starts
from core.types import ArraySpec
from tests.conftest import examples
from tests.harness import equal_trees
from tests.oracles.worlds import OBSERVATIONS, Twin, World

ONE = {"obs": ArraySpec((), np.dtype(np.int64))}


def test_offsets_repeat_the_first_observation() -> None:
    assert stack_offsets(np.array([0, 1, 2, 3, 9]), 4).tolist() == [
        [0, 0, 0, 0],
        [1, 1, 1, 0],
        [2, 2, 1, 0],
        [3, 2, 1, 0],
        [3, 2, 1, 0],
    ]
    assert stack_offsets(np.array([[5], [0]]), 1).tolist() == [[[0]], [[0]]]


def push(stack: FrameStack, values: list[int], first: list[bool]) -> list[list[int]]:
    return stack.push({"obs": np.array(values)}, np.array(first))["obs"].tolist()


def test_a_stack_is_oldest_first_and_begins_with_its_episode() -> None:
    stack = FrameStack(ONE, 2, 3)
    assert push(stack, [1, 10], [True, True]) == [[1, 1, 1], [10, 10, 10]]
    assert push(stack, [2, 20], [False, False]) == [[1, 1, 2], [10, 10, 20]]
    assert push(stack, [3, 30], [False, True]) == [[1, 2, 3], [30, 30, 30]]
    assert push(stack, [4, 40], [False, False]) == [[2, 3, 4], [30, 30, 40]]
    assert push(stack, [5, 50], [True, False]) == [[5, 5, 5], [30, 40, 50]]


def test_a_window_of_one_is_the_observation() -> None:
    stack = FrameStack(ONE, 1, 1)
    assert [push(stack, [n], [n == 0]) for n in range(3)] == [[[0]], [[1]], [[2]]]


def test_what_was_returned_and_what_was_given_stay_apart() -> None:
    stack = FrameStack(ONE, 1, 2)
    given_obs = {"obs": np.array([1])}
    one = stack.push(given_obs, np.array([True]))["obs"]
    given_obs["obs"][:] = 77
    one[:] = 88
    assert push(stack, [2], [False]) == [[1, 2]]


def test_a_loaded_stack_gives_what_the_saved_one_gives() -> None:
    specs = {"obs": ONE["obs"], "obs.left/right": ArraySpec((2,), np.dtype(np.uint8))}
    rng = np.random.default_rng(0)

    def seen(stacks: FrameStack, number: int, *first: bool) -> bytes:
        obs = {"obs": np.full(2, number), "obs.left/right": np.full((2, 2), number, np.uint8)}
        return b"".join(stack.tobytes() for stack in stacks.push(obs, np.array(first)).values())

    for window in (1, 2, 4):
        one = FrameStack(specs, 2, window)
        for number in range(9):
            two, state, again = FrameStack(specs, 2, window), one.state(), one.state()
            read = from_bytes(to_bytes(state), "")
            two.load(read)
            first = rng.random(2) < 0.3
            assert seen(one, number, *first) == seen(two, number, *first)
            assert equal_trees(dict(one.state()), dict(two.state()))
            # neither what was saved nor what was loaded moves along
            assert equal_trees(dict(state), dict(again)) and equal_trees(dict(state), read)
            seen(two, 99, True, False)


@examples(40)
@given(
    st.sampled_from(sorted(OBSERVATIONS)),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=12),
)
def test_the_actor_sees_what_the_memory_gives(
    kind: str, window: int, episodes: list[tuple[int, bool]]
) -> None:
    world = World(observation=kind, window=window, capacity=500)
    twin = Twin(world)
    memory, writer = twin.memory, twin.writers[0]
    stack = FrameStack(world.env.observations, 1, window)
    seen = []
    for length, terminal in episodes:
        obs = _lane(twin.observe())
        writer.start(obs)
        first = True
        for at in range(length):
            seen.append(stack.push(obs, np.array([first])))
            first = False
            obs = _lane(twin.observe())
            last = at == length - 1
            writer.append(
                np.array([0]),
                np.array([0.0]),
                np.array([last and terminal]),
                np.array([last and not terminal]),
                obs,
            )
    lanes, rows = all_starts(memory.starts)
    batch = memory.reader.read(Draw(lanes, rows, np.ones(len(rows), np.float32)))
    assert len(rows) == len(seen)
    for name, spec in world.env.observations.items():
        acted_on = np.concatenate([stacks[name] for stacks in seen])
        assert acted_on.dtype == batch[name].dtype == spec.dtype
        assert acted_on.tobytes() == np.ascontiguousarray(batch[name]).tobytes()


def _lane(obs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array[None] for name, array in obs.items()}
