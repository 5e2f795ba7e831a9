"""The house rules that a tool can check: sizes, layers, who imports what, no machine's paths."""

import ast
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from tests.harness import ROOT, environment, python

PACKAGES = ("core", "models", "agents", "utils")
SOURCES = [ROOT / "main.py", *(p for name in PACKAGES for p in sorted((ROOT / name).rglob("*.py")))]
FUNCTION_LINES, FILE_LINES, MEMORY_LINES, DQN_LINES = 40, 400, 150, 250


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines())


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph(*PACKAGES, include_external_packages=True, cache_dir=None)


def long_functions(tree: ast.AST) -> list[str]:
    """Functions of more lines than a function may have, from `def` to the last."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    functions = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return [f.name for f in functions if (f.end_lineno or 0) - f.lineno + 1 > FUNCTION_LINES]


def cycles_of(imports: dict[str, set[str]]) -> list[str]:
    """A cycle of a graph, as the names along it; nothing where there is none."""
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for imported in sorted(imports[name]):
            if found := walk(imported, [*path, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(imports) if (found := walk(name, []))), [])


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_functions_and_files_are_short(path: Path):
    assert not long_functions(ast.parse(path.read_text()))
    assert lines_of(path) <= FILE_LINES


def test_a_memory_and_dqn_are_short():
    for path in (ROOT / "core" / "memories").glob("*.py"):
        assert lines_of(path) <= MEMORY_LINES, path.name
    assert lines_of(ROOT / "agents" / "dqn.py") <= DQN_LINES


def test_the_size_of_core_is_known(record_property, capsys: pytest.CaptureFixture[str]):
    total = sum(lines_of(path) for path in SOURCES if path.is_relative_to(ROOT / "core"))
    record_property("core_lines", total)
    with capsys.disabled():
        print(f"\nlines in core: {total}")
    assert total > 1_000, "the glob missed core"


def test_long_functions_and_cycles_would_be_found():
    body = "\n".join(f"    x = {number}" for number in range(40))
    assert long_functions(ast.parse(f"def f():\n{body}")) == ["f"]
    assert long_functions(
        ast.parse(f"class C:\n    async def f(self):\n{body}".replace("\n    x", "\n        x"))
    ) == ["f"]
    assert cycles_of({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c", "b"]
    assert cycles_of({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_module_imports_itself_by_way_of_others(graph):
    ours = {name for name in graph.modules if name.partition(".")[0] in PACKAGES}
    assert len(ours) > 50
    imports = {name: graph.find_modules_directly_imported_by(name) & ours for name in ours}
    assert cycles_of(imports) == []


def test_the_contracts_of_the_layers_hold():
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_only_the_board_imports_visdom(graph):
    importers = graph.find_modules_that_directly_import("visdom")
    assert importers == {"utils.board"}


def test_core_loads_neither_torch_nor_visdom_nor_matplotlib_nor_us():
    modules = [
        name_of(path).removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for path in SOURCES
        if path.is_relative_to(ROOT / "core")
    ]
    foreign = ("torch", "visdom", "matplotlib", "models", "agents", "utils")
    found = python(
        "import importlib, sys\n"
        f"for name in {modules}:\n"
        "    importlib.import_module(name)\n"
        f"print([name for name in {foreign} if name in sys.modules])\n"
    )
    assert found == "[]\n"


TRACKED = (".py", ".toml", ".txt", ".md", ".cfg", ".yml", ".yaml", "Makefile", "run")
LEFT_OUT = {".git", ".venv", ".bench", "docs", "runs", ".hypothesis", ".mypy_cache", ".ruff_cache"}


def test_no_file_names_the_paths_of_the_machine_it_was_written_on():
    # put together here, so that this file does not name them either
    paths = [f"/{first}/{second}" for first, second in (("work", "main"), ("work", "shared"))]
    files = [
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and path.name.endswith(TRACKED)
        and not LEFT_OUT & set(path.relative_to(ROOT).parts)
    ]
    assert len(files) > 100
    found = [
        name_of(path) for path in files if any(p in path.read_text(errors="replace") for p in paths)
    ]
    assert found == []


def test_no_page_was_left_half_written():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        assert "@@" not in page.read_text(), f"{page.name} has a place that was never filled in"
