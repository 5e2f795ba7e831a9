"""What any memory of trajectories, and any of parameters, has to do. The table enrols them."""

from collections import Counter

import numpy as np
import pytest

from core.memory import Memory, MemoryContext
from core.options import SharedOptions
from core.parameters.kept import candidate_id
from core.types import ArraySpec, DiscreteActions, EnvSpec, Unit
from tests.core.parameters.candidates import copied, generation, play, rewards, same, total
from utils.factory import MEMORIES as TABLE
from utils.factory import resolve_name

KINDS: list[type[Memory]] = [resolve_name(entry.target) for entry in TABLE.values()]
TRAJECTORIES = [kind for kind in KINDS if kind.gives is Unit.TRAJECTORIES]
PARAMETERS = [kind for kind in KINDS if kind.gives is Unit.PARAMETERS]
ENV = EnvSpec({"obs": ArraySpec((2,), np.dtype(np.float32))}, DiscreteActions(3))
EXTRAS = {"mark": ArraySpec((), np.dtype(np.float32))}
LANES, WINDOW, T, GAMMA = 2, 2, 4, 0.5
LENGTHS = (7, 3)
LIMIT = 2 * 41

of_trajectories = pytest.mark.parametrize("kind", TRAJECTORIES, ids=lambda kind: kind.__name__)
of_parameters = pytest.mark.parametrize("kind", PARAMETERS, ids=lambda kind: kind.__name__)


def make(kind: type[Memory], seed: int = 0, **shared) -> Memory:
    options = SharedOptions(
        **{"num_envs": LANES, "window_length": WINDOW, "trajectory_length": T, "gamma": GAMMA},
        **shared,
    )
    context = MemoryContext(ENV, options, np.random.default_rng(seed), EXTRAS, parameters=5)
    return kind(kind.Options(memory_limit=LIMIT), context)


def fill(memory: Memory, ticks: int) -> None:
    """Lanes of episodes of 7 and 3 steps; observation, action, reward and mark name the step."""
    writer, at = memory.writer(), np.zeros(LANES, np.int64)
    episode = np.zeros(LANES, np.int64)

    def observe(lanes: np.ndarray) -> dict[str, np.ndarray]:
        return {"obs": np.stack([episode[lanes], at[lanes]], 1).astype(np.float32)}

    every = np.arange(LANES)
    writer.start(observe(every))
    for _ in range(ticks):
        action, reward, mark = at % 3, 10.0 * episode + at, episode + at / 10
        at += 1
        over = at == LENGTHS
        # lane 0 terminates, lane 1 is cut off
        writer.append(action, reward, over & [True, False], over & [False, True], observe(every),
                      {"mark": mark.astype(np.float32)})  # fmt: skip
        begun = np.flatnonzero(over)
        episode[begun] += 1
        at[begun] = 0
        if len(begun):
            writer.start(observe(begun), begun)


def test_there_are_memories_of_both() -> None:
    assert TRAJECTORIES
    assert PARAMETERS


@of_trajectories
def test_shapes_are_those_of_the_contract(kind: type[Memory]) -> None:
    memory = make(kind)
    fill(memory, 60)
    shapes = {name: (array.shape, array.dtype.name) for name, array in memory.sample(9).items()}
    assert shapes == {
        "obs": ((T + 1, 9, WINDOW, 2), "float32"),
        "action": ((T, 9), "int64"),
        "mark": ((T, 9), "float32"),
        "reward": ((T, 9), "float32"),
        "discount": ((T, 9), "float32"),
        "mask": ((T, 9), "bool"),
        "weight": ((9,), "float32"),
        "id": ((9,), "int64"),
    }


@of_trajectories
@pytest.mark.parametrize("way", ["sample", "latest"])
def test_a_window_lies_in_one_episode_and_is_padded_to_its_right(
    kind: type[Memory], way: str
) -> None:
    memory = make(kind)
    short = 0
    for _ in range(4):
        fill(memory, 60)
        batch = memory.sample(300) if way == "sample" else memory.latest()
        open_at = {e.lane: e.length for e in memory.episodes() if e.ended == "open"}
        for window in range(batch["mask"].shape[1]):
            lane = int(batch["id"][window]) >> 40
            mask = batch["mask"][:, window]
            steps = int(mask.sum())
            assert steps >= 1
            assert mask.tolist() == [True] * steps + [False] * (T - steps)
            newest = batch["obs"][:, window, -1]
            episode, first = newest[0].tolist()
            at = first + np.minimum(np.arange(T + 1), steps)
            assert newest.tolist() == [[episode, moment] for moment in at]
            before = batch["obs"][:, window, 0]
            assert before.tolist() == [[episode, max(0, moment - 1)] for moment in at]
            real = at[:steps]
            assert batch["action"][:steps, window].tolist() == (real % 3).tolist()
            assert batch["reward"][:, window].tolist() == [
                *(10 * episode + real).tolist(), *[0] * (T - steps)
            ]  # fmt: skip
            marks = (episode + real / 10).astype(np.float32)
            assert batch["mark"][:steps, window].tolist() == marks.tolist()
            ends = (real + 1 == LENGTHS[lane]) & (lane == 0)
            assert batch["discount"][:, window].tolist() == [
                *np.where(ends, 0, GAMMA).tolist(), *[1] * (T - steps)
            ]  # fmt: skip
            # shorter than T only where its episode ends, or where nothing newer is
            assert steps == T or at[-1] in (LENGTHS[lane], open_at.get(lane))
            short += steps < T
    assert short > 0


@of_trajectories
def test_every_step_can_be_drawn_and_every_terminal_is_seen(kind: type[Memory]) -> None:
    memory = make(kind)
    fill(memory, 61)
    batch = memory.sample(40 * len(memory))
    assert len(set(batch["id"].tolist())) == len(memory)
    ended = sum(episode.ended == "terminated" for episode in memory.episodes())
    ends = np.argwhere((batch["discount"] == 0) & batch["mask"])
    assert len({int(batch["id"][window]) + int(step) for step, window in ends}) == ended > 1


@of_trajectories
def test_what_is_held_are_whole_episodes(kind: type[Memory]) -> None:
    memory = make(kind)
    for _ in range(80):
        fill(memory, 1)  # a start closes what was open
        assert memory.rows <= memory.capacity
        assert sum(episode.length for episode in memory.episodes()) >= len(memory) > 0
    assert all(episode.whole for episode in memory.episodes())


@of_trajectories
def test_the_newest_steps_are_given_once_and_nothing_is_drawn(kind: type[Memory]) -> None:
    one, two = make(kind), make(kind)
    for memory in (one, two):
        fill(memory, 50)
    for _ in range(3):
        batch = one.latest()
        assert batch["mask"].sum() == LANES * T
        assert (np.diff(batch["id"]) > 0).all()
    assert same(one.sample(30), two.sample(30))


@of_trajectories
def test_a_saved_memory_goes_on(kind: type[Memory]) -> None:
    memory, resumed = make(kind, seed=1), make(kind, seed=2)
    fill(memory, 90)
    fill(resumed, 10)
    resumed.load(copied(memory.state()))
    for both in (memory, resumed):
        fill(both, 9)
    assert memory.episodes() == resumed.episodes()
    assert same(memory.latest(), resumed.latest())
    assert same(memory.sample(50), resumed.sample(50))


@of_parameters
def test_candidates_are_given_with_what_they_earned(kind: type[Memory]) -> None:
    memory, some = make(kind), generation(0)
    memory.begin(some)
    assert memory.finished() is None
    play(memory.writer(), some, LANES)
    returns = memory.finished()
    wanted = {candidate_id(0, index): total(rewards(0, index)) for index in range(len(some))}
    assert returns.tolist() == list(wanted.values())
    batch = memory.sample(200)
    assert Counter(batch["id"].tolist()).keys() == wanted.keys()
    for place, name in enumerate(batch["id"].tolist()):
        assert batch["total_reward"][place] == wanted[name]
        assert batch["parameters"][place].tobytes() == some.candidate(name).tobytes()
    assert memory.elites(2)["total_reward"].tolist() == sorted(wanted.values())[:-3:-1]


@of_parameters
def test_a_memory_of_parameters_can_be_full_and_never_holds_more(kind: type[Memory]) -> None:
    memory = make(kind)
    writer = memory.writer()
    for number in range(20):
        some = generation(number)
        memory.begin(some)
        play(writer, some, LANES)
        assert memory.finished() is not None
        memory.check()
        assert memory.rows == len(memory) <= memory.capacity
        assert sum(memory.usage().values()) <= memory.bytes_full
        assert memory.ready(10**9)
    assert memory.full
    with pytest.raises(ValueError, match="no column"):
        memory.sample(2, columns=["reward"])
