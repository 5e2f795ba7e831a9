"""Builds the wheel `engram`: what core/ holds, under that name.

    python packaging/build.py [--to dist]

The parts are put together in a folder of their own, since a package in a stranger's site-packages
should not be called core; all imports within it are relative, so that it works under any name.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
NAME: Final = "engram"


def version() -> str:
    """The one version there is."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def stage(folder: Path) -> None:
    """Puts together what a wheel is built of."""
    parts = ROOT / "packaging" / NAME
    shutil.copytree(parts, folder, dirs_exist_ok=True)
    shutil.copy(ROOT / "LICENSE", folder)
    (folder / "VERSION").write_text(version() + "\n")
    shutil.copytree(ROOT / "core", folder / NAME, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / NAME / "py.typed").touch()


def build(to: Path, *options: str) -> Path:
    """Builds the wheel into a folder, and gives its path; `options` are pip's."""
    with tempfile.TemporaryDirectory() as staged:
        stage(Path(staged))
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *options]
        subprocess.run([*command, "--wheel-dir", str(to), staged], check=True)
    return to / f"{NAME}-{version()}-py3-none-any.whl"


def main() -> None:
    """Builds it and says where it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=ROOT / "dist", help="folder for the wheel")
    sys.stdout.write(f"{build(parser.parse_args().to)}\n")


if __name__ == "__main__":
    main()
