"""Files of episodes: what is read is what was written, bit for bit, or it is refused."""

import random
import shutil
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import EngramError, RunFailedError, UsageError
from core.exchange import files, hdf5, minari
from core.exchange.episodes import RingEpisodes, Source
from core.exchange.files import export, open_episodes, verify
from core.exchange.fill import fill
from core.exchange.header import BrokenExportError
from core.exchange.sums import Summed, Sums
from tests.conftest import SOAK, examples
from tests.oracles.test_sequential_oracle import LIVES, worlds
from tests.oracles.worlds import World

from .lives import DATA, assert_hands_over, lived, source_of, units, wanted

pytestmark = DATA
KINDS = ["hdf5", "minari"]
WORLD = World("parts", extras="policy", lanes=2, capacity=60, window=2)
LIFE = bytes(np.random.default_rng(0).integers(0, 256, 400).tolist())
ABOUT = {"run": "row-1", "step": 5}


def names(folder: Path) -> list[str]:
    """What is in a folder, hidden or not."""
    return sorted(path.name for path in folder.iterdir())


def read_sums(path: Path) -> Sums:
    """The sums of a file that verifies."""
    with closing(open_episodes(path)) as file:
        summed = Summed(file)
        verify(summed, file.header, path)
        return summed.sums()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def source() -> RingEpisodes:
    return source_of(lived(WORLD, LIFE).memory)


@examples(25)
@given(worlds(), LIVES, st.sampled_from(KINDS))
def test_memory_to_file_to_memory_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, world: World, life: bytes, kind: str
) -> None:
    twin = lived(world, life)
    path = tmp_path_factory.mktemp("files") / "memory"
    sums = export(source_of(twin.memory), path, kind, ABOUT)
    memory = world.memory()
    with closing(open_episodes(path)) as file:
        assert_hands_over(file, wanted(world, twin.history))
        assert file.header.sums == sums
        assert file.header.about == ABOUT
        fill(memory, Summed(file), world.window)
    assert units(memory) == units(twin.memory)
    again = export(source_of(memory), path, kind, ABOUT, overwrite=True)
    assert again.content == sums.content
    assert names(path.parent) == ["memory"]
    shutil.rmtree(path.parent)


def test_a_whole_file_is_under_its_name_and_nothing_beside_it(
    tmp_path: Path, source: RingEpisodes, kind: str
) -> None:
    path = tmp_path / "deep" / "memory"
    assert export(source, path, kind, {}) == read_sums(path) == Summed(source).sums()
    assert names(path.parent) == ["memory"]


def test_what_is_there_is_overwritten_only_when_told(
    tmp_path: Path, source: RingEpisodes, kind: str
) -> None:
    path = tmp_path / "memory"
    export(source, path, kind, {})
    before = read_sums(path)
    other = source_of(lived(WORLD, LIFE[::-1]).memory)
    with pytest.raises(UsageError, match="is there already: set --out, or --overwrite"):
        export(other, path, kind, {})
    assert read_sums(path) == before
    assert export(other, path, kind, {}, overwrite=True) == read_sums(path) != before
    assert names(tmp_path) == ["memory"]


def test_no_folder_of_somebody_else_is_overwritten(
    tmp_path: Path, source: RingEpisodes, kind: str
) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UsageError, match=f"is no {kind} export, so that it is not overwritten"):
        export(source, tmp_path, kind, {}, overwrite=True)
    with pytest.raises(UsageError, match=f"is no {kind} export, so that it is not overwritten"):
        export(source, tmp_path / "thesis.tex", kind, {}, overwrite=True)
    assert names(tmp_path) == ["thesis.tex"]
    assert (tmp_path / "thesis.tex").read_text() == ""


def test_a_file_in_the_way_of_a_folder_is_one_line(
    tmp_path: Path, source: RingEpisodes, kind: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file' cannot hold a file: "):
        export(source, tmp_path / "file" / "memory", kind, {})


class Interrupted:
    """A source that fails within an episode."""

    def __init__(self, source: Source, error: BaseException) -> None:
        self.space, self.held, self._source, self._error = source.space, source.held, source, error

    def pieces(self, number: int):
        if number == len(self.held) // 2:
            raise self._error
        return self._source.pieces(number)


@pytest.mark.parametrize(
    ("error", "raised"),
    [(KeyboardInterrupt(), KeyboardInterrupt), (OSError(28, "No space left"), RunFailedError)],
)
def test_an_export_that_fails_leaves_what_was_there(
    tmp_path: Path, source: RingEpisodes, kind: str, error: BaseException, raised: type
) -> None:
    path = tmp_path / "memory"
    with pytest.raises(raised):
        export(Interrupted(source, error), path, kind, {})
    assert names(tmp_path) == []
    export(source, path, kind, {})
    with pytest.raises(raised):
        export(Interrupted(source, error), path, kind, {}, overwrite=True)
    assert names(tmp_path) == ["memory"]
    assert read_sums(path) == Summed(source).sums()


@pytest.mark.parametrize("name", ["obs.image", "reward", "mark"])
def test_an_export_that_reads_otherwise_is_refused(
    tmp_path: Path, source: RingEpisodes, kind: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    reader = {"hdf5": hdf5.HDF5Episodes, "minari": minari.MinariEpisodes}[kind]
    pieces = reader.pieces

    def spoilt(self, number: int):
        for piece in pieces(self, number):
            if number == 3 and len(piece[name]):
                piece[name].view(np.uint8).reshape(-1)[0] ^= 1
            yield piece

    monkeypatch.setattr(reader, "pieces", spoilt)
    with pytest.raises(RunFailedError, match="what was read again is something else"):
        export(source, tmp_path / "memory", kind, {})
    assert names(tmp_path) == []


def main_file(path: Path, kind: str) -> Path:
    return path if kind == "hdf5" else path / "main_data.hdf5"


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_file_is_the_same_or_refused(
    tmp_path: Path, source: RingEpisodes, kind: str, damage: str
) -> None:
    path = tmp_path / "memory"
    sums = export(source, path, kind, {})
    whole = main_file(path, kind).read_bytes()
    rng = random.Random(kind + damage)
    refused = 0
    for _ in range(1_000 if SOAK else 40):
        at = rng.randrange(len(whole))
        flipped = whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
        main_file(path, kind).write_bytes(whole[:at] if damage == "cut" else flipped)
        try:
            assert read_sums(path) == sums  # a bit that nothing depends on
        except EngramError as error:
            assert str(error).startswith(f"'{path}") and "\n" not in str(error)
            refused += 1
    assert refused >= (40 if damage == "cut" else 1)


def test_a_changed_pixel_is_named_as_damage(
    tmp_path: Path, source: RingEpisodes, kind: str
) -> None:
    import h5py

    path = tmp_path / "memory"
    export(source, path, kind, {})
    place = "observations/obs.image" if kind == "hdf5" else "episode_1/observations/image"
    with h5py.File(main_file(path, kind), "a") as file:
        file[place][1, 3, 4] ^= 1
    with pytest.raises(BrokenExportError, match="memory' is damaged: its sums are not those"):
        read_sums(path)


def test_a_changed_lane_is_damage_too(tmp_path: Path, source: RingEpisodes, kind: str) -> None:
    import h5py

    path = tmp_path / "memory"
    export(source, path, kind, {})
    with h5py.File(main_file(path, kind), "a") as file:
        if kind == "hdf5":
            file["episodes/lane"][0] += 7
        else:
            file["episode_0"].attrs["lane"] += 7
    with pytest.raises(BrokenExportError):
        read_sums(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x89HDF\r\n\x1a", b"a,b\n1,2\n"])
def test_a_file_of_something_else_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"data.csv' is no export of episodes"):
        open_episodes(path)


def test_hdf5_and_minari_of_somebody_else_are_named(tmp_path: Path) -> None:
    import h5py
    from gymnasium import spaces
    from minari.dataset.minari_storage import MinariStorage

    with h5py.File(tmp_path / "theirs.h5", "w") as file:
        file["x"] = 1
    MinariStorage.new(tmp_path / "theirs", spaces.Discrete(2), spaces.Discrete(2))
    (tmp_path / "empty").mkdir()
    for name in ("theirs.h5", "theirs", "empty"):
        with pytest.raises(UsageError, match=f"{name}' is no export of episodes"):
            open_episodes(tmp_path / name)
    with pytest.raises(UsageError, match=r"no file '.*nowhere'"):
        open_episodes(tmp_path / "nowhere")


def test_a_format_of_the_future_is_refused(
    tmp_path: Path, source: RingEpisodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory"
    export(source, path, "hdf5", {})
    monkeypatch.setattr("core.exchange.header.FORMAT", 2)
    with pytest.raises(UsageError, match="memory' has format 1, not 2"):
        open_episodes(path)


@pytest.mark.parametrize(
    ("kind", "module"), [("hdf5", "h5py"), ("minari", "h5py"), ("minari", "minari")]
)
def test_a_missing_package_is_one_line_with_what_installs_it(
    tmp_path: Path, source: RingEpisodes, monkeypatch: pytest.MonkeyPatch, kind: str, module: str
) -> None:
    export(source, tmp_path / "memory", kind, {})
    monkeypatch.setitem(sys.modules, module, None)
    line = f"an export needs the package '{module}': pip install -r requirements-data.txt"
    for use in (
        lambda: files.require(kind),
        lambda: export(source, tmp_path / "other", kind, {}),
        lambda: open_episodes(tmp_path / "memory"),
    ):
        with pytest.raises(UsageError) as refused:
            use()
        assert str(refused.value) == line
    assert names(tmp_path) == ["memory"]


def test_a_minari_that_only_knows_jpeg_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from minari.dataset.minari_storage import MinariStorage

    def old(data_path, observation_space=None, action_space=None, data_format="hdf5"):
        raise AssertionError

    monkeypatch.setattr(MinariStorage, "new", old)
    with pytest.raises(UsageError, match="cannot keep pictures as they are: pip install"):
        files.require("minari")
