"""The rules themselves: a memory of plain lists keeps all, and each of its flaws is noticed."""

import subprocess
import sys
from pathlib import Path

import grimp
import numpy as np
import pytest

from core.conformance.rules import RULES, check
from core.conformance.subject import EVERY, NotOffered, factory_of, offers_of
from core.conformance.world import BLANK, GARBLED, codes_of, decode, encode
from tests.contracts.combinations import Combination
from tests.contracts.plain_memory import FLAWS, flawed, plain, timeouts_are_terminals
from tests.harness import ROOT, environment

BY_NUMBER = {rule.number: rule for rule in RULES}
DRAWS = 600
MEMORY = Combination("sequential", "lz4", "heap", "uniform", 0)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_plain_lists_keep_every_rule(rule):
    verdict = check(rule, plain, DRAWS)
    assert verdict.outcome == "kept", verdict
    assert verdict.of > 0


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_is_noticed_by_its_rules(flaw: str):
    for number in FLAWS[flaw]:
        verdict = check(BY_NUMBER[number], flawed(flaw), DRAWS)
        assert verdict.outcome == "broken", verdict
        assert verdict.rule.number in str(verdict)


def test_every_rule_has_a_flaw_that_it_notices():
    assert BY_NUMBER.keys() == {number for numbers in FLAWS.values() for number in numbers}


def test_what_is_not_offered_is_not_asked():
    def lacking(setting):
        raise NotOffered("frames of that size")

    lacking.offers = EVERY.keys() - {"truncation"}
    told = {rule.number: check(rule, lacking) for rule in RULES}
    assert {verdict.outcome for verdict in told.values()} == {"not offered"}
    assert told["C3"].why == EVERY["truncation"]
    assert told["C1"].why == "frames of that size"


def test_what_a_memory_raises_breaks_the_rule_that_was_tried():
    def broken(setting):
        raise RuntimeError("no room\nat all")

    verdict = check(BY_NUMBER["C1"], broken)
    assert (verdict.outcome, verdict.why) == ("broken", "RuntimeError: no room")
    assert str(verdict) == "rule C1 pairs: broken: RuntimeError: no room"


def test_rules_have_numbers_names_and_a_line_each():
    assert [rule.number for rule in RULES] == [f"C{at}" for at in range(1, len(RULES) + 1)]
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.line and rule.of and "\n" not in rule.line for rule in RULES)


def test_frames_name_their_moment_and_nothing_else_does():
    codes = codes_of(np.array([0, 1, 255]), np.array([0, 65_535, 300]), np.array([0, 7, 65_535]))
    frames = encode(codes, 16)
    assert frames.shape == (3, 16, 16)
    assert decode(frames).tolist() == codes.tolist()
    assert decode(np.zeros((2, 16, 16), np.uint8)).tolist() == [BLANK] * 2
    for at in range(256):
        spoilt = frames.copy()
        spoilt.reshape(3, -1)[:, at] ^= 1
        assert decode(spoilt).tolist() == [GARBLED] * 3
    assert decode(frames.astype(np.float32)).tolist() == [GARBLED] * 3


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nowhere:factory", "no memory 'nowhere:factory': No module named 'nowhere'"),
        ("core.conformance.world:nothing", "no memory"),
        ("core.conformance.world", "no memory"),
        ("core.conformance.world:ACTIONS", "is no function"),
        ("tests.contracts.test_conformance:misspelt", "offers 'stack', which is none of"),
    ],
)
def test_a_factory_that_is_none_is_named(path: str, said: str):
    with pytest.raises(ValueError, match=said):
        factory_of(path)


def misspelt(setting):
    return plain(setting)


misspelt.offers = {"stack"}


def pytest_of(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest", "-p", "core.conformance.plugin", "-c", "/dev/null"]
    words = (*words, "--rootdir", str(folder), "-p", "no:cacheprovider", "-p", "no:timeout")
    surroundings = environment() | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [*command, *words], cwd=folder, env=surroundings, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip


def test_the_plugin_names_the_rule_that_is_broken(tmp_path: Path):
    memory = "tests.contracts.plain_memory:timeouts_are_terminals"
    done = pytest_of(tmp_path, f"--engram-memory={memory}", "--engram-draws=300", "-vrsf")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "rule C3 truncation: broken: " in done.stdout
    assert "C3 says: a time limit bootstraps" in done.stdout
    assert "FAILED engram::C3-truncation" in done.stdout
    assert "C1-pairs PASSED" in done.stdout
    assert (
        "not offered: drawing by priority"
        in done.stdout
        + pytest_of(tmp_path, f"--engram-memory={memory}", "-k", "finite", "-rs").stdout
    )
    assert "Traceback" not in done.stdout


def test_the_plugin_chooses_by_name_and_refuses_a_typo(tmp_path: Path):
    one = pytest_of(tmp_path, "--engram-memory=tests.contracts.plain_memory:plain", "-k", "seed")
    assert one.returncode == 0, one.stdout + one.stderr
    assert "1 passed" in one.stdout
    none = pytest_of(tmp_path, "--engram-memory=tests.contracts.plain_memory:plian")
    assert none.returncode == 4
    assert "--engram-memory: no memory 'tests.contracts.plain_memory:plian'" in none.stderr
    idle = pytest_of(tmp_path)
    assert idle.returncode == 5  # nothing was collected


def test_nothing_else_of_core_imports_the_rules():
    graph = grimp.build_graph("core", cache_dir=None)
    rules = graph.find_descendants("core.conformance") | {"core.conformance"}
    importers = {m for rule in rules for m in graph.find_modules_that_directly_import(rule)}
    assert importers <= rules
    assert importers
    imported = {m for rule in rules for m in graph.find_modules_directly_imported_by(rule)}
    assert imported <= rules, "the rules know no memory of ours"


def test_a_factory_offers_everything_unless_it_says_otherwise():
    assert offers_of(plain) == EVERY.keys()
    assert offers_of(timeouts_are_terminals) == EVERY.keys() - {"priorities"}


def test_a_memory_with_our_methods_needs_no_adapter():
    def ours(setting):
        return MEMORY(setting).memory

    ours.offers = EVERY.keys() - {"priorities", "stale", "save", "resume"}
    verdicts = [check(rule, ours, DRAWS) for rule in RULES]
    assert {v.outcome for v in verdicts if v.rule.needs <= ours.offers} == {"kept"}
