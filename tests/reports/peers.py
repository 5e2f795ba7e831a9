"""The defects of other replay memories, and which test shows that ours lacks each of them.

Numbers are those that users reported, owner/repo#n by each test; letters were found while reading
the peers' sources. A test says by `@peers(24)` which it is about; `ELSEWHERE` names tests that
stand with the part they are about. `LATER` holds those whose part is not there.
"""

from collections.abc import Callable
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., object])
DEFECTS = [*map(str, range(1, 50)), *"abcdefghijklmnop"]
COVERED: dict[str, list[str]] = {}
"""Names of the tests of each defect, as far as their modules are loaded."""

ELSEWHERE = {
    "11": "core/test_memory_log.py::test_what_was_committed_comes_back",
    "12": "reports/test_mem_tiers.py::test_mem_10_all_processes_read_one_ring",
    "13": "core/test_tiers.py::test_usage_is_what_was_reserved",
    "14": "reports/test_mem_tiers.py::test_a_memory_three_times_the_cap_trains_within_the_cap",
    "18": "reports/test_res_size.py::test_res_05_saving_takes_little_memory",
    "19": "reports/test_res_size.py::test_res_06_a_log_reaches_beyond_4_gib",
    "20": "reports/test_mem_tiers.py::test_mem_12_what_the_disk_does_not_give_after_all_is_refused",
    "21": "reports/test_res_resume.py::test_res_03_a_crash_keeps_the_memory_of_the_checkpoint",
    "40": "core/sampling/test_tree.py"
    "::test_what_weighs_nothing_is_never_found_whatever_rounding_does",
    "41": "core/sampling/test_prioritized.py::test_new_units_get_the_greatest_there_is",
    "42": "core/memories/test_hybrid.py"
    "::test_windows_by_priority_stay_within_an_episode_in_a_full_ring_too",
    "43": "core/sampling/test_prioritized.py::test_what_is_legal_can_be_drawn_and_nothing_else",
    "44": "core/sampling/test_prioritized.py"
    "::test_rows_that_came_unseen_have_nothing_of_those_before_them_in_their_slots",
    "45": "core/sampling/test_prioritized.py::test_what_is_no_finite_error_is_refused_whole",
    "46": "core/sampling/test_prioritized.py::test_what_is_legal_can_be_drawn_and_nothing_else",
    "47": "core/sampling/test_prioritized.py::test_new_units_get_the_greatest_there_is",
    "48": "core/test_log_priorities.py::test_they_come_back",
    "49": "reports/test_res_resume.py::test_res_01_killed_half_way_it_goes_on_as_in_one_go",
    "a": "core/test_tiers.py::test_usage_is_what_was_reserved",
    "d": "core/sampling/test_prioritized.py::test_what_is_no_finite_error_is_refused_whole",
    "e": "core/sampling/test_prioritized.py::test_what_is_no_finite_error_is_refused_whole",
    "g": "core/sampling/test_prioritized.py::test_weighted_means_are_those_of_all_alike",
    "h": "core/test_log_priorities.py::test_they_come_back",
    "k": "core/test_memory_log.py::test_what_the_memory_let_go_is_let_go",
    "l": "core/test_memory_log.py::test_a_damaged_segment_is_named_and_the_commit_before_taken",
    "o": "core/exchange/test_files.py::test_memory_to_file_to_memory_is_the_same",
}
"""Tests, below `tests/`, of defects that the part they are about brought with it."""

LATER = {
    "22": ("a data set larger than RAM is read in chunks", "offline data"),
    "36": ("hindsight goals at the ring's seam and an episode's end", "hindsight replay"),
}
"""What is right, and the part that could have the defect and is not there."""


def peers(*defects: int | str) -> Callable[[Test], Test]:
    """Says of which defects a test is; its name has to begin with them."""
    names = [str(defect) for defect in defects]
    kind = "3b_" if names[0].isalpha() else ""

    def note(test: Test) -> Test:
        begins = f"test_{kind}{'_'.join(name.zfill(2) if not kind else name for name in names)}_"
        assert test.__name__.startswith(begins), f"{test.__name__} begins with {begins}"
        for name in names:
            COVERED.setdefault(name, []).append(test.__name__)
        return test

    return note
