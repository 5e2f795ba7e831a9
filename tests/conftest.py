"""What every test shares: how hard the property tests try."""

import os

import pytest
from hypothesis import HealthCheck, settings

# derandomized, so that a red build is red for everyone; `soak` looks further and afresh each time
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("soak", settings.get_profile("ci"), derandomize=False)
SOAK = os.environ.get("ENGRAM_HYPOTHESIS") == "soak"
settings.load_profile("soak" if SOAK else "ci")


def examples(count: int) -> settings:
    """Settings of a property test that tries `count` examples, twenty times as many in a soak."""
    return settings(max_examples=count * (20 if SOAK else 1))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A soak takes its time."""
    if SOAK:
        for item in items:
            item.add_marker(pytest.mark.timeout(3_600))
