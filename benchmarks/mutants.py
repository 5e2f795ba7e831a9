"""Breaks the code at random, and counts what the tests notice.

    python -m benchmarks.mutants --count 50 --seed 0 FILE ... -- TEST ...

Operators and their places come from cosmic-ray; the sample, from a generator with that seed. Each
mutant is tried in a copy of the tree. A survivor is printed with its difference: it is either
equivalent, or asks for a test.
"""

import argparse
import difflib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import cosmic_ray.plugins
from cosmic_ray.ast import get_ast
from cosmic_ray.mutating import mutate_code

ROOT = Path(__file__).parents[1]
SKIPPED = frozenset(
    {
        "core/RemoveDecorator",  # without its decorators nothing imports at all
        "core/VariableInserter",  # these two want names to work on
        "core/VariableReplacer",
    }
)
ANNOTATION = "_BitOr_"  # nearly all of them are `X | None`, which any import notices
WRAPS = "ignore:overflow encountered:RuntimeWarning"
"""Whole numbers that wrap, as compiled loops mean them to, warn where no compiler is on."""
LEFT_OUT = frozenset({".git", ".venv", ".bench", "runs", ".hypothesis", "__pycache__"})


class Mutant(NamedTuple):
    """One operator at one place of a file."""

    file: Path
    operator: str
    occurrence: int


def all_mutants(files: Sequence[Path]) -> list[Mutant]:
    """Every mutant of the files, in a fixed order."""
    found = []
    for file in files:
        tree = get_ast(file.read_text())
        for name in sorted(cosmic_ray.plugins.operator_names()):
            if name not in SKIPPED and ANNOTATION not in name:
                operator = cosmic_ray.plugins.get_operator(name)()
                places = sum(1 for node in walk(tree) for _ in operator.mutation_positions(node))
                found += [Mutant(file, name, number) for number in range(places)]
    return found


def walk(node):  # noqa: ANN001, ANN201  parso's nodes have no types
    """A node and all below it."""
    yield node
    for child in getattr(node, "children", ()):
        yield from walk(child)


def mutated(mutant: Mutant) -> str | None:
    """The file's text, mutated; None where the operator has nothing to do there."""
    operator = cosmic_ray.plugins.get_operator(mutant.operator)()
    return mutate_code(mutant.file.read_text(), operator, mutant.occurrence)


def survives(copy: Path, mutant: Mutant, text: str, tests: Sequence[str], seconds: float) -> bool:
    """Whether the tests pass on the mutant; one that hangs is noticed."""
    target = copy / mutant.file.relative_to(ROOT)
    original = target.read_text()
    target.write_text(text)
    try:
        return passes(copy, tests, seconds)
    finally:
        target.write_text(original)


def passes(copy: Path, tests: Sequence[str], seconds: float) -> bool:
    """Whether the tests pass on a copy of the tree, in time."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-W", WRAPS]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*command, *tests],
            check=False,
            cwd=copy,
            env=environment,
            capture_output=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def difference(mutant: Mutant, text: str) -> str:
    """What the mutant changes, as a diff without context."""
    before, after = mutant.file.read_text().splitlines(), text.splitlines()
    lines = difflib.unified_diff(before, after, lineterm="", n=0)
    return "\n".join(line for line in lines if not line.startswith(("---", "+++")))


def main() -> int:
    """Tries a sample of mutants and prints what survives."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=300.0)
    options = parser.parse_args()
    files = [(ROOT / file).resolve() for file in options.files]
    mutants = all_mutants(files)
    random.Random(options.seed).shuffle(mutants)
    tried = killed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(ROOT, copy, ignore=lambda _, names: LEFT_OUT & set(names))
        if not passes(copy, options.tests, options.seconds):
            parser.error("the tests fail, or take too long, before anything is broken")
        for mutant in mutants:
            text = mutated(mutant)
            if text is None or text == mutant.file.read_text():
                continue
            tried += 1
            if survives(copy, mutant, text, options.tests, options.seconds):
                print(f"survived: {mutant.file.relative_to(ROOT)}: {mutant.operator}")
                print(difference(mutant, text), flush=True)
            else:
                killed += 1
            if tried == options.count:
                break
    print(f"{killed} of {tried} killed ({killed / max(tried, 1):.0%}), of {len(mutants)} there are")
    return 0


if __name__ == "__main__":
    sys.exit(main())
