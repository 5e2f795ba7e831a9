"""EpisodicMemory: plan, readiness, a batch by hand, and what is private to it stays flat."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from core.episodes.summary import Episode
from core.errors import UsageError
from core.memories.episodic import EpisodicMemory, EpisodicOptions
from core.memory import MemoryContext
from core.memory_watch import private_bytes
from core.options import SharedOptions
from core.types import ArraySpec, DiscreteActions, EnvSpec, Unit
from tests.conftest import SOAK

ROOT = Path(__file__).resolve().parents[3]
F32, U8 = np.dtype(np.float32), np.dtype(np.uint8)
NUMBER = {"obs": ArraySpec((), F32)}
PIXELS = {"obs": ArraySpec((16, 16), U8)}


def make(
    limit: int = 30, observations=NUMBER, extras=None, draw: str = "steps", **shared
) -> EpisodicMemory:
    context = MemoryContext(
        EnvSpec(observations, DiscreteActions(4)),
        SharedOptions(**{"trajectory_length": 3, "gamma": 0.5, **shared}),
        np.random.default_rng(0),
        extras or {},
    )
    options = EpisodicOptions(memory_limit=limit, draw=draw, frame_codec="raw")
    return EpisodicMemory(options, context)


def tell(memory: EpisodicMemory, steps: int, *, end: str = "", first: float = 0) -> None:
    """An episode of one lane whose observations are `first`, `first` + 1, and so on."""
    writer = memory.writer()
    writer.start({"obs": np.array([first], F32)})
    for at in range(steps):
        last = at == steps - 1
        writer.append(
            np.array([at % 4]),
            np.array([float(at + 1)]),
            np.array([last and end == "t"]),
            np.array([last and end == "c"]),
            {"obs": np.array([first + at + 1], F32)},
        )


def test_it_gives_trajectories() -> None:
    assert EpisodicMemory.gives is Unit.TRAJECTORIES


def test_a_batch_by_hand() -> None:
    memory = make(window_length=2)
    tell(memory, 4, end="t", first=10)
    batch = memory.sample(200)
    assert batch["obs"].shape == (4, 200, 2)
    assert set(batch["id"].tolist()) == {0, 1, 2, 3}
    at = batch["id"].tolist().index(2)
    assert {name: (array[:, at] if array.ndim > 1 else array[at]).tolist()
            for name, array in batch.items() if name != "action"} == {
        "obs": [[11, 12], [12, 13], [13, 14], [13, 14]],
        "reward": [3, 4, 0],
        "discount": [0.5, 0, 1],
        "mask": [True, True, False],
        "weight": 1,
        "id": 2,
    }  # fmt: skip
    assert batch["action"][:2, at].tolist() == [2, 3]


def test_latest_is_what_the_newest_policy_did() -> None:
    memory = make(num_envs=2)
    assert memory.latest()["id"].shape == (0,)
    one, two = memory.writer([0]), memory.writer([1])
    for writer, steps, length in ((one, 7, 5), (two, 2, 9)):
        writer.start({"obs": np.zeros(1, F32)})
        for at in range(1, steps + 1):
            end = np.array([at % length == 0])
            writer.append(
                np.array([0]), np.array([1.0 * at]), end, ~end & False, {"obs": np.array([at], F32)}
            )
            if end.all():
                writer.start({"obs": np.zeros(1, F32)})
    batch = memory.latest()
    assert batch["reward"].T.tolist() == [[5, 0, 0], [6, 7, 0], [1, 2, 0]]
    assert batch["obs"][..., 0].T.tolist() == [[4, 5, 5, 5], [0, 6, 7, 7], [0, 1, 2, 2]]
    assert batch["discount"].T.tolist() == [[0, 1, 1], [0.5, 0.5, 1], [0.5, 0.5, 1]]
    assert batch["mask"].sum(0).tolist() == [1, 2, 2]
    assert list(memory.latest(columns=["mask"])) == ["mask"]


def test_episodes_are_for_reading() -> None:
    memory = make()
    assert memory.episodes() == []
    tell(memory, 3, end="c")
    tell(memory, 2)
    assert memory.episodes() == [
        Episode(0, 0, 3, 6.0, "truncated", True),
        Episode(0, 4, 2, 3.0, "open", True),
    ]


def test_an_unknown_column_is_said() -> None:
    memory = make()
    tell(memory, 2)
    for call in (memory.latest, lambda columns: memory.sample(2, columns=columns)):
        with pytest.raises(ValueError, match=r"no column \['next_obs'\]"):
            call(columns=["next_obs"])


@pytest.mark.parametrize(
    ("limit", "shared"),
    [
        (6, {"window_length": 4, "trajectory_length": 3}),
        (7, {"num_envs": 2, "trajectory_length": 3}),
        (20, {"trajectory_length": 20}),
    ],
)
def test_a_memory_that_could_never_give_a_whole_window_is_refused(limit: int, shared) -> None:
    wanted = f"memory_limit {limit} gives each of .* envs .* window_length and trajectory_length"
    with pytest.raises(UsageError, match=wanted):
        make(limit, **shared)


def test_the_least_memory_gives_a_window_of_full_length() -> None:
    memory = make(7, window_length=4)
    tell(memory, 50)
    assert len(memory) == 3
    (at,) = np.flatnonzero(memory.sample(60)["mask"].all(axis=0))[:1]
    assert at >= 0
    assert memory.latest()["mask"].tolist() == [[True]] * 3
    assert memory.latest()["obs"][:, 0].tolist() == [[44 + k, 45 + k, 46 + k, 47 + k]
                                                     for k in range(4)]  # fmt: skip


def test_it_is_ready_once_it_has_wrapped_though_whole_episodes_left_room() -> None:
    memory = make(10)
    assert not memory.ready(1)
    tell(memory, 6, end="t")
    assert memory.ready(6)
    assert not memory.ready(7)
    tell(memory, 3, end="t")
    assert (memory.full, memory.rows, len(memory)) == (True, 4, 3)
    # what it can hold was reached: to wait for more might be to wait for ever
    assert memory.ready(7)


@pytest.mark.parametrize("draw", ["steps", "episodes"])
def test_the_key_says_what_is_alike(draw: str) -> None:
    memory = make(100, draw=draw)
    tell(memory, 60, end="t")
    tell(memory, 2, end="t", first=100)
    share = (memory.sample(4_000, columns=["id"])["id"] > 60).mean()
    wanted = 2 / 62 if draw == "steps" else 0.5
    assert abs(share - wanted) < 6 * (wanted * (1 - wanted) / 4_000) ** 0.5


def test_plan_and_usage_agree_once_full() -> None:
    memory = make(10, observations=PIXELS)
    writer, no = memory.writer(), np.zeros(1, np.bool_)
    assert memory.usage() == {"heap": 0}
    for at in range(40):
        if at % 4 == 0:
            writer.start({"obs": np.zeros((1, 16, 16), U8)})
        end = np.array([at % 4 == 3])
        writer.append(np.zeros(1, int), np.zeros(1), end, no, {"obs": np.zeros((1, 16, 16), U8)})
        assert memory.rows <= 10
        assert sum(memory.usage().values()) <= memory.bytes_full
    assert memory.usage() == {"heap": memory.bytes_full}


def endless_episodes(steps: int) -> None:
    """One episode of so many steps, then what the process took on the way."""
    memory = make(2_000, observations=PIXELS, window_length=4, trajectory_length=20)
    writer, no = memory.writer(), np.zeros(1, np.bool_)
    frame, zero = np.zeros((1, 16, 16), U8), np.zeros(1, np.int64)
    writer.start({"obs": frame})
    taken = []
    for at in range(steps):
        frame[...] = at % 251
        writer.append(zero, np.ones(1), no, no, {"obs": frame})
        if at % 50 == 0:
            memory.latest()
            memory.sample(4)
        if at % (steps // 20) == 0:
            (episode,) = memory.episodes()
            assert episode.length == min(at + 1, 1_999)
            taken.append(private_bytes())
    memory.check()
    # the ring is full after its first lap; the first half of the readings is the warm-up's
    later = taken[len(taken) // 2 :]
    slope = np.polyfit(np.arange(len(later)), later, 1)[0] * len(later)
    assert slope < 500_000, f"{slope / 1e6:.2f} MB in {steps // 2} steps"
    assert max(later) - min(later) < 1_000_000


def in_a_fresh_process(steps: int) -> None:
    call = f"from {__name__} import endless_episodes as f; f({steps})"
    done = subprocess.run(
        [sys.executable, "-c", call],
        cwd=ROOT, env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=3_000 if SOAK else 110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def test_private_memory_is_flat_over_an_endless_episode() -> None:
    in_a_fresh_process(20_000)


@pytest.mark.soak
@pytest.mark.timeout(3_000)
def test_private_memory_is_flat_over_an_episode_of_a_million_steps() -> None:
    in_a_fresh_process(1_000_000)
