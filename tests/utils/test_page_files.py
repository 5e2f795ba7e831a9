"""The files of visdom's page: where they come from, and that they are put in place whole."""

import io
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from utils import board_page
from utils.board_page import BoardError, page_ready, prepare


class Sources:
    """A visdom package without its files, and the two places they come from."""

    def __init__(self, static: Path) -> None:
        self.static = static
        self.download = self.npm = True  # what works
        self.asked: list[str] = []
        self.missing = ""  # a file that the source lacks

    def run(self, command: list[str], folder: Path, seconds: float) -> bool:
        source = "npm" if "pack" in command else "download"
        self.asked.append(source)
        if not getattr(self, source):
            return False
        (self._pack(folder) if source == "npm" else self._download(Path(command[-1])))
        return True

    def _download(self, folder: Path) -> None:
        for name in board_page._page_files():
            path = folder / "static" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("" if name == self.missing else "downloaded")

    def _pack(self, folder: Path) -> None:
        for package, files in board_page._packages().items():
            with tarfile.open(folder / f"{package.replace('@', '-')}.tgz", "w:gz") as tar:
                for member in files:
                    if files[member] != self.missing:
                        info = tarfile.TarInfo(f"package/{member}")
                        info.size = 6
                        tar.addfile(info, io.BytesIO(b"packed"))

    def content(self) -> set[str]:
        return {path.read_text() for path in self.static.rglob("*.*s")}


@pytest.fixture(params=["0.2.4", "0.3.0"])
def sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Sources:
    static = tmp_path / "visdom" / "static"
    static.mkdir(parents=True)
    (static.parent / "VERSION").write_text(f"{request.param}\n")
    sources = Sources(static)
    monkeypatch.setattr(board_page, "_static_folder", lambda: static)
    monkeypatch.setattr(board_page, "_ran", sources.run)
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    return sources


def test_files_that_are_there_are_not_fetched(sources: Sources):
    assert prepare() is None
    sources.asked.clear()
    assert page_ready()
    assert prepare() is None
    assert sources.asked == []


def test_visdoms_own_download_comes_first(sources: Sources):
    assert not page_ready()
    assert prepare() is None
    assert sources.asked == ["download"]
    assert page_ready()
    assert sources.content() == {"downloaded"}


def test_npm_comes_second(sources: Sources):
    sources.download = False
    assert prepare() is None
    assert sources.asked == ["download", "npm"]
    assert page_ready()
    assert sources.content() == {"packed"}


def test_without_either_one_line_names_npm(sources: Sources):
    sources.download = sources.npm = False
    line = prepare()
    assert line is not None
    assert "npm" in line
    assert "\n" not in line
    assert not page_ready()


def test_without_npm_the_line_is_the_same(sources: Sources, monkeypatch: pytest.MonkeyPatch):
    sources.download = False
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "Install npm" in (prepare() or "")
    assert sources.asked == ["download"]


@pytest.mark.parametrize("source", ["download", "npm"])
def test_a_source_that_lacks_a_file_changes_nothing(sources: Sources, source: str):
    sources.missing = "js/plotly-plotly.min.js"
    setattr(sources, "npm" if source == "download" else "download", False)
    assert prepare() is not None
    assert not page_ready()
    assert list(sources.static.rglob("*")) == []


def test_files_of_another_version_are_replaced(sources: Sources):
    prepare()
    (sources.static / "version.built").write_text("0.1.8")
    assert not page_ready()
    assert prepare() is None
    assert page_ready()


def test_a_folder_that_cannot_be_written_is_one_line(sources: Sources):
    (sources.static / "js").write_text("not a folder")
    line = prepare()
    assert line is not None
    assert "are not in place" in line
    assert not page_ready()


def test_a_visdom_that_is_not_installed_names_the_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert board_page.INSTALL in (prepare() or "")
    with pytest.raises(BoardError, match="pip install"):
        page_ready()


def test_a_download_that_hangs_is_ended(tmp_path: Path):
    began = time.monotonic()
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert not board_page._ran(command, tmp_path, 0.3)
    assert time.monotonic() - began < 5
    assert not board_page._ran(["/nowhere/npm"], tmp_path, 5)
    assert not board_page._ran([sys.executable, "-c", "raise SystemExit(3)"], tmp_path, 5)


def test_the_command_ends_well_and_says_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "utils.board_server", "--prepare"],
        capture_output=True,
        text=True,
        timeout=115,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
