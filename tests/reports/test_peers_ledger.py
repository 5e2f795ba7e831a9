"""No defect of another memory is forgotten: it has a test, or the part is not there."""

import pytest

import tests.reports.test_peers_boundaries
import tests.reports.test_peers_memory  # noqa: F401  # both fill the ledger as they are loaded
from core.conformance.rules import RULES
from tests.harness import ROOT
from tests.reports.peers import COVERED, DEFECTS, ELSEWHERE, LATER


def test_every_defect_has_a_test_or_lacks_the_part_that_could_have_it() -> None:
    assert len(DEFECTS) == len(set(DEFECTS)) == 49 + 16
    tested = COVERED.keys() | ELSEWHERE.keys()
    assert tested | LATER.keys() == set(DEFECTS)
    assert not tested & LATER.keys(), "what has a test is no longer for later"
    assert all(right and part for right, part in LATER.values())


@pytest.mark.parametrize("defect", ELSEWHERE)
def test_the_test_that_is_named_is_there(defect: str) -> None:
    path, _, name = ELSEWHERE[defect].partition("::")
    assert f"\ndef {name}(" in (ROOT / "tests" / path).read_text()


def test_rules_for_strangers_are_made_of_these_defects() -> None:
    cases = {case for rule in RULES for case in rule.cases}
    assert cases <= set(DEFECTS)
    edges = {str(number) for number in range(24, 40)} - {"32", "36"}
    assert cases >= edges, "32 is an environment's, 36 is of hindsight replay"
