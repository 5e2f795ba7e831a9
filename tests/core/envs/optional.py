"""Marks of tests that need a package which training the default row does not."""

import os
from importlib.util import find_spec

import pytest


def needs(*modules: str, unless: str = "ENGRAM_REQUIRE_ALE") -> pytest.MarkDecorator:
    """Skips where a module is missing; with that variable set to 1 such a test runs, and fails."""
    absent = [module for module in modules if find_spec(module) is None]
    skipped = bool(absent) and os.environ.get(unless) != "1"
    return pytest.mark.skipif(skipped, reason=f"not installed: {', '.join(absent)}")


BOX2D = [
    needs("Box2D", "pygame", unless="ENGRAM_REQUIRE_BOX2D"),
    # SWIG's types are made in C, which dies of a warning that is made an error
    pytest.mark.filterwarnings(
        "ignore:builtin type .* has no __module__ attribute:DeprecationWarning"
    ),
]
"""Marks of a module that uses Box2D."""
