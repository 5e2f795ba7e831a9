"""What others find in our files: with h5py and Minari alone, as docs/data.md says."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.envs.options import ToyOptions
from core.envs.toy import make
from core.exchange import hdf5
from core.exchange.episodes import RingEpisodes, joined
from core.exchange.files import export, open_episodes
from core.exchange.sums import Summed
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.types import ArraySpec, ContinuousActions, EnvSpec
from tests.conftest import examples
from tests.oracles.test_sequential_oracle import LIVES
from tests.oracles.worlds import (
    BREAK_OFF,
    CODES,
    LOSE_AND_CUT,
    LOSE_LIFE,
    STEP,
    TERMINATE,
    TRUNCATE,
    World,
)

from .lives import DATA, assert_hands_over, lived, source_of, wanted

pytestmark = DATA
AT = {code: CODES.index(code) for code in (STEP, TERMINATE, TRUNCATE, LOSE_LIFE, LOSE_AND_CUT)}
LIFE = bytes(
    AT[code]
    for code in [STEP, LOSE_LIFE, STEP, TERMINATE, STEP, TRUNCATE, STEP, LOSE_AND_CUT, STEP, STEP]
)
WORLD = World("parts", extras="policy", capacity=60)


def test_an_hdf5_file_is_flat_columns(tmp_path: Path) -> None:
    import h5py

    source = source_of(lived(WORLD, LIFE).memory)
    export(source, tmp_path / "memory.hdf5", "hdf5", {})
    with h5py.File(tmp_path / "memory.hdf5") as file:
        assert {name: sorted(group) for name, group in file.items()} == {
            "episodes": ["age", "ended", "first_row", "lane", "steps"],
            "observations": ["obs.image", "obs.state"],
            "steps": ["action", "reward", "terminal"],
            "extras": ["behaviour", "mark"],
        }
        steps = file["episodes/steps"][:]
        assert steps.tolist() == [4, 2, 2, 2]
        assert file["episodes/ended"][:].tolist() == [0, 1, 0, 2]
        assert file["steps/terminal"][:].tolist() == [
            *[False, True, False, True], *[False, False], *[False, True], *[False, False],
        ]  # fmt: skip
        ends = np.cumsum(steps)
        for number, end in enumerate(ends):
            own = joined(source, number)
            first = end - steps[number]
            assert file["steps/action"][first:end].tolist() == own["action"].tolist()
            frames = file["observations/obs.image"][first + number : end + number + 1]
            assert frames.tobytes() == own["obs.image"].tobytes()
        assert file["observations/obs.image"].compression == "gzip"


@examples(20)
@given(st.integers(1, 3_000), LIVES)
def test_chunks_of_any_size_hold_the_same(
    tmp_path_factory: pytest.TempPathFactory, size: int, life: bytes
) -> None:
    twin = lived(WORLD, life)
    path = tmp_path_factory.mktemp("files") / "memory"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hdf5, "CHUNK_BYTES", size)
        export(source_of(twin.memory), path, "hdf5", {})
    with closing(open_episodes(path)) as file:
        assert_hands_over(file, wanted(WORLD, twin.history))


def test_an_observation_alone_lies_beside_the_minari_dataset(tmp_path: Path) -> None:
    from minari import MinariDataset

    codes = [STEP, TERMINATE, BREAK_OFF, BREAK_OFF, STEP, TERMINATE, BREAK_OFF]
    twin = lived(WORLD, bytes(CODES.index(code) for code in codes))
    export(source_of(twin.memory), tmp_path / "memory", "minari", {})
    assert MinariDataset(tmp_path / "memory").total_episodes == 2
    with closing(open_episodes(tmp_path / "memory")) as file:
        assert [one.steps for one in file.held] == [2, 0, 2, 0]
        assert_hands_over(file, wanted(WORLD, twin.history))
    (tmp_path / "memory" / "stepless.hdf5").unlink()
    with closing(open_episodes(tmp_path / "memory")) as file:
        assert Summed(file).sums() != file.header.sums


def test_minari_reads_what_is_meant(tmp_path: Path) -> None:
    from gymnasium import spaces
    from minari import MinariDataset

    memory = lived(WORLD, LIFE).memory
    source = source_of(memory)
    export(source, tmp_path / "memory", "minari", {"run": "row 1/a"})
    dataset = MinariDataset(tmp_path / "memory")
    assert dataset.spec.dataset_id == "engram/row-1-a-v0"
    assert (dataset.total_episodes, dataset.total_steps) == (4, 10)
    assert dataset.action_space == spaces.Discrete(3)
    episodes = list(dataset.iterate_episodes())
    for number, episode in enumerate(episodes):
        own = joined(source, number)
        assert episode.observations["image"].tobytes() == own["obs.image"].tobytes()
        assert episode.observations["state"].tobytes() == own["obs.state"].tobytes()
        assert episode.actions.tolist() == own["action"].tolist()
        assert episode.rewards.tobytes() == own["reward"].tobytes()
        for name in ("terminal", "behaviour", "mark"):
            assert episode.infos[name].tobytes() == own[name].tobytes()
        first = {name: part[0] for name, part in episode.observations.items()}
        assert dataset.observation_space.contains(first)
        assert dataset.action_space.contains(episode.actions[0])
    # a lost life ends nothing; the open episode is truncated, as Minari's own collector does
    assert [x.terminations.tolist() for x in episodes] == [
        [False, False, False, True], [False, False], [False, True], [False, False],
    ]  # fmt: skip
    assert [x.truncations.tolist() for x in episodes] == [
        [False] * 4, [False, True], [False, False], [False, True],
    ]  # fmt: skip
    metadata = list(dataset.storage.get_episode_metadata(range(4)))
    assert [facts["ended"] for facts in metadata] == [
        "terminated",
        "truncated",
        "terminated",
        "open",
    ]
    assert [facts["first_row"] for facts in metadata] == [0, 5, 8, 11]


def noise(shape: tuple[int, ...], count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, *shape)).astype(np.uint8)


@pytest.mark.parametrize("shape", [(40, 40), (40, 40, 3)])
def test_pictures_are_no_jpeg(tmp_path: Path, shape: tuple[int, ...]) -> None:
    from minari import MinariDataset

    env = EnvSpec({"obs": ArraySpec(shape, np.dtype(np.uint8))}, ContinuousActions((0.0,), (9.0,)))
    shared = SharedOptions()
    context = MemoryContext(env, shared, np.random.default_rng(0))
    memory = SequentialMemory(SequentialOptions(memory_limit=20), context)
    writer, frames = memory.writer(), noise(shape, 9)
    writer.start({"obs": frames[:1]})
    for at in range(1, 9):
        told = (np.float32([[0.5]]), np.float64([at]), np.array([at == 8]), np.array([False]))
        writer.append(*told, {"obs": frames[at : at + 1]})
    export(RingEpisodes(memory.ring, env), tmp_path / "memory", "minari", {})
    dataset = MinariDataset(tmp_path / "memory")
    assert not dataset.storage.jpeg_encoding
    assert dataset[0].observations.tobytes() == frames.tobytes()
    assert dataset.action_space.contains(dataset[0].actions[0])
    assert dataset.observation_space.contains(dataset[0].observations[0])


def test_the_environments_own_spaces_are_told(tmp_path: Path) -> None:
    from minari import MinariDataset

    env = make(ToyOptions(game="catch"), 1)
    shared = SharedOptions()
    memory = SequentialMemory(
        SequentialOptions(memory_limit=20),
        MemoryContext(env.spec, shared, np.random.default_rng(0)),
    )
    writer, no = memory.writer(), np.array([False])
    writer.start(env.reset([1]))
    writer.append(np.array([1]), np.array([0.0]), no, no, env.step(np.array([1])).next_obs)
    source = RingEpisodes(memory.ring, env.spec)
    export(source, tmp_path / "memory", "minari", {}, observed=env.observation_space)
    assert MinariDataset(tmp_path / "memory").observation_space == env.observation_space
    env.close()


def test_keys_with_slashes_are_quoted(tmp_path: Path) -> None:
    from gymnasium import spaces

    from core.envs.spaces import observation_specs

    box = spaces.Box(-1, 1, (2,), np.float32)
    observed = spaces.Dict({"a/b": box, "c.d": spaces.Dict({"e f": box})})
    env = EnvSpec(observation_specs(observed), ContinuousActions((0.0,), (9.0,)))
    context = MemoryContext(env, SharedOptions(), np.random.default_rng(0))
    memory = SequentialMemory(SequentialOptions(memory_limit=20), context)
    obs = {name: np.float32([[1, 2]]) for name in env.observations}
    writer, no = memory.writer(), np.array([False])
    writer.start(obs)
    writer.append(np.float32([[0.5]]), np.float64([1]), no, no, obs)
    source = RingEpisodes(memory.ring, env)
    for kind in ("hdf5", "minari"):
        for space in (observed, None):
            path = tmp_path / "memory"
            export(source, path / kind, kind, {}, observed=space, overwrite=True)
            with closing(open_episodes(path / kind)) as file:
                assert file.space == source.space
                assert joined(file, 0)["obs.c.d.e f"].tolist() == [[1, 2], [1, 2]]
