"""The files of visdom's page, which its package lacks: scripts, styles, fonts.

Visdom downloads them from several hosts when its server starts, and fails where one of them is out
of reach. Here they are fetched once, in a process that can be ended, or out of npm packages.
"""

import contextlib
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

DOWNLOAD_SECONDS: Final = 20.0
NPM_SECONDS: Final = 90.0
LOCK_SECONDS: Final = 30.0
ROOT: Final = Path(__file__).resolve().parents[1]
WITHOUT_TORCH: Final = (
    "import sys; from utils.board_page import NoTorch; sys.meta_path.insert(0, NoTorch); "
    "sys.path.remove(''); "
)
"""What `python -c`, run in `ROOT`, does before it imports visdom."""

INSTALL: Final = (
    'pip install "setuptools>=77.0.3,<81" wheel && '
    "pip install --no-build-isolation -r requirements-board.txt"
)


Packages = Mapping[str, Mapping[str, str]]
"""npm package -> its files that the page loads -> where they lie under visdom's static folder."""

MATHJAX_2: Final = (
    "MathJax.js",
    "config/Safe.js",
    "config/TeX-AMS-MML_HTMLorMML.js",
    "extensions/Safe.js",
    "jax/output/SVG/config.js",
    "jax/output/SVG/jax.js",
    "jax/output/SVG/fonts/TeX/fontdata.js",
    "jax/output/SVG/fonts/TeX/Size1/Regular/Main.js",
)
FONTS: Final = tuple(
    f"fonts/glyphicons-halflings-regular.{x}" for x in ("eot", "ttf", "woff", "woff2")
)

PAGE: Packages = {
    "jquery@3.1.1": {"dist/jquery.min.js": "js/jquery.min.js"},
    "bootstrap@3.3.7": {
        "dist/js/bootstrap.min.js": "js/bootstrap.min.js",
        "dist/css/bootstrap.min.css": "css/bootstrap.min.css",
        **{f"dist/{font}": font for font in FONTS},
    },
    "react@16.2.0": {"umd/react.production.min.js": "js/react-react.min.js"},
    "react-dom@16.2.0": {"umd/react-dom.production.min.js": "js/react-dom.min.js"},
    "react-modal@3.1.10": {"dist/react-modal.min.js": "js/react-modal.min.js"},
    "plotly.js-dist-min@2.11.1": {"plotly.min.js": "js/plotly-plotly.min.js"},
    "sjcl@1.0.7": {"sjcl.js": "js/sjcl.js"},
    "layout-bin-packer@1.4.0": {"dist/layout-bin-packer.js": "js/layout_bin_packer.js"},
    "d3@3.5.17": {"d3.min.js": "js/d3.v3.min.js"},
    "d3-selection-multi@1.0.1": {"build/d3-selection-multi.js": "js/d3-selection-multi.v1.js"},
    "save-svg-as-png@1.4.17": {"lib/saveSvgAsPng.js": "js/saveSvgAsPng.js"},
}
PAGE_0_2: Packages = {
    "react-resizable@1.4.6": {"css/styles.css": "css/react-resizable-styles.css"},
    "react-grid-layout@0.16.3": {"css/styles.css": "css/react-grid-layout-styles.css"},
    "mathjax@2.7.5": {name: f"js/mathjax/2.7.5/{name}" for name in MATHJAX_2},
}
PAGE_0_3: Packages = {
    "react-resizable@3.1.3": {"css/styles.css": "css/react-resizable-styles.css"},
    "react-grid-layout@2.2.3": {"css/styles.css": "css/react-grid-layout-styles.css"},
    "mathjax@3.2.2": {"es5/tex-mml-svg.js": "js/mathjax/3.2.2/es5/tex-mml-svg.js"},
}


class NoTorch:
    """Put first in `sys.meta_path`: there is no torch to import.

    Visdom imports it if it can, a second and 200 MB for nothing. A None in `sys.modules` would do
    for visdom, but breaks scipy.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Find nothing, as an importer does that leaves it to the others; refuse torch."""
        if name == "torch":
            raise ModuleNotFoundError(name)


class BoardError(Exception):
    """There is no board, and this one line says why."""


def installed() -> bool:
    """Whether visdom can be imported, found out without importing it."""
    return importlib.util.find_spec("visdom") is not None


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process at a time is in here for this file or folder, which has to be there.

    The lock goes with its process, however that ends. Raises BoardError after `LOCK_SECONDS`.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        _lock(handle, path)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, path: Path) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise BoardError(f"another process has held {path} for too long") from None
            time.sleep(0.05)


def prepare() -> str | None:
    """See to it that visdom's page has its files; returns None, or one line on why it has not.

    They are already there; else visdom's own download gets them; else npm does.
    """
    if not installed():
        return f"visdom is not installed: {INSTALL}"
    if page_ready():
        return None
    try:
        with locked(_static_folder()), tempfile.TemporaryDirectory(prefix="engram-page-") as folder:
            if page_ready() or _download(Path(folder)) or _pack(Path(folder)):
                return None
    except (OSError, BoardError) as error:
        return f"the files of visdom's page are not in place: {error}"
    return (
        "the board's page will be blank: its files could not be downloaded. Install npm and run "
        "`python -m utils.board_server --prepare`"
    )


def page_ready() -> bool:
    """Whether every file that visdom's page loads is in its package."""
    static = _static_folder()
    built = static / "version.built"
    return (
        built.is_file()
        and built.read_text(encoding="utf-8").strip() == _version()
        and all((static / name).is_file() for name in _page_files())
    )


def _static_folder() -> Path:
    spec = importlib.util.find_spec("visdom")
    if spec is None or spec.origin is None:
        raise BoardError(f"visdom is not installed: {INSTALL}")
    return Path(spec.origin).parent / "static"


def _version() -> str:
    return (_static_folder().parent / "VERSION").read_text(encoding="utf-8").strip()


def _packages() -> Packages:
    return {**PAGE, **(PAGE_0_2 if _version().startswith("0.2.") else PAGE_0_3)}


def _page_files() -> list[str]:
    return [name for files in _packages().values() for name in files.values()]


def _download(folder: Path) -> bool:
    """Visdom's own download, in a process that can be ended; it hangs on some networks."""
    code = f"{WITHOUT_TORCH}from visdom.server.build import download_scripts as get"
    command = [sys.executable, "-c", f"{code}; get(install_dir=sys.argv[1])", str(folder)]
    if not _ran(command, ROOT, DOWNLOAD_SECONDS):
        return False
    return _install({name: folder / "static" / name for name in _page_files()})


def _pack(folder: Path) -> bool:
    """The same files out of npm packages, which many closed networks do let through."""
    npm = shutil.which("npm")
    command = [npm or "", "pack", "--silent", "--pack-destination", str(folder), *_packages()]
    if npm is None or not _ran(command, folder, NPM_SECONDS):
        return False
    found = {}
    for package, files in _packages().items():
        with tarfile.open(folder / f"{package.replace('@', '-')}.tgz") as tar:
            for member, name in files.items():
                found[name] = folder / "out" / name
                found[name].parent.mkdir(parents=True, exist_ok=True)
                with contextlib.suppress(KeyError):
                    data = tar.extractfile(f"package/{member}")
                    found[name].write_bytes(data.read() if data else b"")
    return _install(found)


def _ran(command: list[str], folder: Path, seconds: float) -> bool:
    try:
        done = subprocess.run(
            command,
            check=False,
            cwd=folder,
            timeout=seconds,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _install(found: Mapping[str, Path]) -> bool:
    """Put the files into visdom's package, all or none; what marks them complete comes last."""
    if not all(path.is_file() and path.stat().st_size for path in found.values()):
        return False
    static = _static_folder()
    for name, path in found.items():
        (static / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, static / name)
    (static / "version.built").write_text(_version(), encoding="utf-8")
    return True
