"""No defect of another memory is forgotten: each has a test, or a step that it comes with."""

import tests.reports.test_peers_boundaries
import tests.reports.test_peers_memory  # noqa: F401  # both fill the ledger as they are loaded
from tests.reports.peers import COVERED, DEFECTS, LATER, PARTLY


def test_every_defect_has_a_test_or_a_step_that_it_comes_with() -> None:
    assert len(DEFECTS) == len(set(DEFECTS)) == 49 + 16
    assert COVERED.keys() | LATER.keys() == set(DEFECTS)
    assert not COVERED.keys() & LATER.keys(), "what has a test is no longer for later"
    assert PARTLY.keys() <= COVERED.keys()
    assert all(right and step for right, step in [*LATER.values(), *PARTLY.values()])
