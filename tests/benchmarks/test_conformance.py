"""The comparison with peers: its tables, and one that is installed held to a few rules."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks.conformance import MODES, hold, rules, tables
from benchmarks.peers.run import HERE, installed, python_of
from core.conformance.rules import RULES
from tests.harness import ROOT

KEPT = {"outcome": "kept", "figure": "0 of 9 pairs", "first": ""}
BROKEN = {"outcome": "broken", "figure": "3 of 9 pairs", "first": "step 1 is wrong"}
CRASHED = {"outcome": "broken", "figure": "ValueError: no", "first": "ValueError: no"}
LACKING = {"outcome": "not offered", "figure": "seeds", "first": "seeds"}
FOUND = {
    "peer": "sb3",
    "mode": "default",
    "version": "2.9.2",
    "how": "ReplayBuffer",
    "verdicts": {"C1": KEPT, "C2": BROKEN, "C3": CRASHED, "C21": LACKING},
    "frames": {"wrong": 1_234, "of": 20_000, "first": ""},
    "stacks": None,
}


def test_tables_hold_what_was_found():
    missing = {"peer": "cpprb", "mode": "default", "error": "it is not installed"}
    lines = tables([FOUND, missing]).splitlines()
    assert lines[2:] == [
        "| sb3 2.9.2 | ReplayBuffer | 1,234 of 20,000 | not offered | 1 | 2 | 1 |",
        "",
        "| memory | rule it breaks | how often | the first |",
        "|---|---|---|---|",
        "| sb3 default | C2 terminal | 3 of 9 pairs | step 1 is wrong |",
        "| sb3 default | C3 truncation | ValueError: no |  |",
        "",
        "cpprb default: it is not installed",
    ]
    assert len(rules().splitlines()) == 2 + len(RULES)


def test_every_mode_has_its_script_that_knows_it():
    for peer, modes in MODES.items():
        text = (HERE / f"conform_{peer}.py").read_text()
        assert all(f'"{mode}": ' in text for mode in modes), peer


def test_who_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("benchmarks.conformance.installed", lambda peer: False)
    assert hold("cpprb", "default", 10)["error"] == "it is not installed: make bench-setup"


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES["engram"])
def test_ours_breaks_no_rule_and_gives_no_wrong_pair(mode: str):
    found = hold("engram", mode, 20_000)
    assert "error" not in found, found
    assert not [v for v in found["verdicts"].values() if v["outcome"] == "broken"]
    for name in ("frames", "stacks"):
        assert found[name]["wrong"] == 0 < found[name]["of"] == 20_000


NAMED = """
import sys
sys.path.insert(0, {here!r})
sys.argv[1:] = []
import core.conformance.rules
print(sorted(name for name in sys.modules if name.startswith("core.")))
"""


def test_rules_need_numpy_alone_so_that_any_peer_s_venv_can_hold_them():
    code = NAMED.format(here=str(HERE))
    python = str(python_of("cpprb")) if installed("cpprb") else sys.executable
    done = subprocess.run(
        [python, "-c", code], cwd=ROOT, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    loaded = json.loads(done.stdout.replace("'", '"'))
    assert loaded
    assert all(name.startswith("core.conformance") for name in loaded)
