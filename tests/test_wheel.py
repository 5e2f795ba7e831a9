"""The wheel `engram`: what it holds, and that it works where nothing else of this is installed."""

import json
import re
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.harness import ROOT, environment

sys.path.append(str(ROOT / "packaging"))
import build

LIBRARIES = {"numpy", "pydantic", "psutil", "numba", "lz4", "zstandard", "safetensors"}
STRANGERS = ["torch", "visdom", "gymnasium", "matplotlib", "pytest", "core", "utils", "agents"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # of the set-up tools that are here, so that nothing is fetched
    return build.build(tmp_path_factory.mktemp("wheel"), "--no-build-isolation")


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as file:
        return Parser().parsestr(file.read(f"engram-{build.version()}.dist-info/METADATA").decode())


def test_it_holds_core_and_nothing_else(wheel: Path):
    sources = {str(path.relative_to(ROOT / "core")) for path in (ROOT / "core").rglob("*.py")}
    with zipfile.ZipFile(wheel) as file:
        names = [name for name in file.namelist() if ".dist-info/" not in name]
        assert all(name.startswith("engram/") for name in names)
        held = {name.removeprefix("engram/") for name in names}
        assert held == sources | {"py.typed"}
        for name in sources:
            assert file.read(f"engram/{name}") == (ROOT / "core" / name).read_bytes(), name


def test_it_says_what_it_is(wheel: Path):
    said = metadata_of(wheel)
    assert said["Name"] == "engram"
    assert said["Version"] == build.version() == distribution_version()
    assert said["License-Expression"] == "MIT"
    assert said.get_payload() == (ROOT / "packaging/engram/README.md").read_text()
    plain = {req.name for req in map(Requirement, said.get_all("Requires-Dist")) if not req.marker}
    assert plain == LIBRARIES
    with zipfile.ZipFile(wheel) as file:
        info = f"engram-{build.version()}.dist-info"
        assert file.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
        points = file.read(f"{info}/entry_points.txt").decode()
    assert "[pytest11]\nengram = engram.conformance.plugin" in points


def distribution_version() -> str:
    """The version that the project says, read by another way."""
    return re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)[1]


def test_what_is_pinned_here_is_what_the_wheel_asks_for(wheel: Path):
    for text in metadata_of(wheel).get_all("Requires-Dist"):
        requirement = Requirement(text)
        assert distribution(requirement.name).version in requirement.specifier, text


def needed(names: set[str]) -> set[str]:
    """Those distributions and all that they need, by name."""
    found: set[str] = set()
    while names:
        found |= names
        more = {
            requirement.name
            for name in names
            for requirement in map(Requirement, requires(name) or [])
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        }
        names = more - found
    return found


def borrow(site: Path, names: set[str]) -> None:
    """Links what those distributions have installed here into another site-packages."""
    for name in sorted(names):
        for file in distribution(name).files or []:
            top = Path(file.parts[0])
            link = site / top
            if ".." not in file.parts and top.name != "__pycache__" and not link.exists():
                link.symlink_to(Path(distribution(name).locate_file(top)).resolve())


def make_venv(folder: Path, *options: str) -> Path:
    subprocess.run([sys.executable, "-m", "venv", *options, str(folder)], check=True)
    return folder / "bin" / "python"


def pip(python: Path, *words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python",
         str(python), "install", *words],
        check=True, env=environment(), timeout=600,
    )  # fmt: skip


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a venv that has the wheel, and what it says that it needs out of this one's packages."""
    folder = tmp_path_factory.mktemp("clean")
    python = make_venv(folder, "--without-pip")
    pip(python, "--no-deps", "--no-index", str(wheel))
    borrow(next((folder / "lib").glob("python*/site-packages")), needed(LIBRARIES))
    return python


def run(python: Path, code: str, folder: Path, *words: str) -> str:
    """What a script prints, run where no checkout is near."""
    script = folder / "script.py"
    script.write_text(code)
    surroundings = {k: v for k, v in environment().items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [str(python), *(words or [str(script)])], cwd=folder, env=surroundings,
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


README = (ROOT / "packaging/engram/README.md").read_text()
EXAMPLE = re.search(r"```python\n(.*?)```", README, re.S)[1]
LOOK = f"""
import json, sys
from engram.episodes import kernels
from engram.storage import encode_kernels

assert batch["obs"].shape == batch["next_obs"].shape == (32, 4, 84, 84)
steps = batch["id"].astype(int)
# frame 0 is that of the start, and step k shows the number k from frame k + 1 on
assert (batch["next_obs"][:, -1, 0, 0] == steps).all()
assert (batch["obs"][:, -1, 0, 0] == (steps - 1).clip(0)).all()
memory.check()
assert type(memory.writer()).__module__ == "engram.episodes.rows"
hits = [f.stats for m in (kernels, encode_kernels) for f in vars(m).values() if hasattr(f, "stats")]
print(json.dumps({{
    "loaded": [name for name in {STRANGERS} if name in sys.modules],
    "codec": memory.ring.plan.columns[0].chunking.codec,
    "chunks": memory.ring.usage()["heap"],
    "compiled": sum(sum(s.cache_misses.values()) for s in hits),
    "cached": sum(sum(s.cache_hits.values()) for s in hits),
}}))
"""

SHARED = """
import multiprocessing
import numpy as np
from engram.memories.sequential import SequentialMemory
from engram.memory import MemoryContext
from engram.options import SharedOptions
from engram.types import ArraySpec, DiscreteActions, EnvSpec

def collect(writer):
    writer.start({"obs": np.zeros((1, 16, 16), np.uint8)})
    for step in range(50):
        no = np.zeros(1, bool)
        frame = {"obs": np.full((1, 16, 16), step + 1, np.uint8)}
        writer.append(np.zeros(1, int), np.ones(1), no, no, frame)

if __name__ == "__main__":
    env = EnvSpec({"obs": ArraySpec((16, 16), np.dtype(np.uint8))}, DiscreteActions(2))
    context = MemoryContext(env, SharedOptions(), np.random.default_rng(0))
    memory = SequentialMemory(SequentialMemory.Options(memory_limit=99, storage="shared"), context)
    child = multiprocessing.get_context("spawn").Process(
        target=collect, args=(memory.writer(),), daemon=True
    )
    child.start()
    try:
        child.join(60)
        batch = memory.sample(64)
        assert (batch["obs"][:, -1, 0, 0] == batch["id"]).all()
        print(len(memory), child.exitcode, type(memory.writer()).__module__)
    finally:
        child.kill()
        child.join()
"""


def test_its_readme_runs_alone_and_kernels_are_compiled_once(python: Path, tmp_path: Path):
    first = json.loads(run(python, EXAMPLE + LOOK, tmp_path))
    assert first["loaded"] == []
    assert first["codec"] == "lz4"
    assert first["compiled"] > 0 == first["cached"]
    again = json.loads(run(python, EXAMPLE + LOOK, tmp_path))
    assert again["compiled"] == 0 < again["cached"]
    # beside the installed files, by the package's own name
    site = next((python.parents[1] / "lib").glob("python*/site-packages"))
    assert len(list((site / "engram").rglob("__pycache__/*.nbi"))) >= 5


@pytest.mark.soak
def test_a_writer_goes_to_another_process_under_that_name(python: Path, tmp_path: Path):
    assert run(python, SHARED, tmp_path) == "50 0 engram.episodes.rows\n"


LOAD = """
import importlib, json, pkgutil, sys
import engram

lacking = {}
for module in pkgutil.walk_packages(engram.__path__, "engram."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        lacking.setdefault(error.name.partition(".")[0], []).append(module.name)
print(json.dumps(lacking))
"""
MEMORIES = ("memories", "memory", "row_memory", "memory_log", "storage", "episodes", "sampling",
            "parameters", "seeding", "options", "types")  # fmt: skip


def test_what_is_lacking_is_an_extra_and_no_memory_needs_it(
    python: Path, wheel: Path, tmp_path: Path
):
    lacking = json.loads(run(python, LOAD, tmp_path))
    extras = {Requirement(text).name for text in metadata_of(wheel).get_all("Requires-Dist")}
    assert lacking.keys() <= extras - LIBRARIES
    assert lacking["pytest"] == ["engram.conformance.plugin"]
    modules = [module.split(".") for modules in lacking.values() for module in modules]
    assert not [name for _, name, *_ in modules if name in MEMORIES]


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_installed_from_the_index_it_works_and_pytest_finds_its_rules(wheel: Path, tmp_path: Path):
    python = make_venv(tmp_path / "fresh")
    pip(python, f"{wheel}[test]")
    told = json.loads(run(python, EXAMPLE + LOOK.replace("assert memory", ""), tmp_path))
    assert told["loaded"] == []
    source = (ROOT / "tests/contracts/plain_memory.py").read_text()
    stranger = source.replace("core.conformance", "engram.conformance")
    (tmp_path / "stranger.py").write_text(stranger)
    words = ("-m", "pytest", "--engram-memory=stranger:plain", "--engram-draws=300")
    assert " passed" in run(python, "", tmp_path, *words)
