"""The rules as tests: `pytest --engram-memory=module:factory` holds a memory to them.

Installed with the wheel, pytest finds it by itself; out of a checkout, `-p core.conformance.plugin`
loads it. Each rule is an item, so that `-k truncation` and `--maxfail` do what they always do.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from .rules import RULES, Rule, Verdict, check
from .subject import Factory, factory_of


class RuleBroken(AssertionError):  # noqa: N818  it says what happened
    """A memory breaks a rule."""


class RuleItem(pytest.Item):
    """One rule, held against one memory."""

    def __init__(self, *, rule: Rule, factory: Factory, draws: int, **keys: Any) -> None:
        super().__init__(**keys)
        self._rule, self._factory, self._draws = rule, factory, draws

    def runtest(self) -> None:
        """See `pytest.Item.runtest`. Skips what is not offered."""
        verdict: Verdict = check(self._rule, self._factory, self._draws)
        if verdict.outcome == "not offered":
            pytest.skip(f"not offered: {verdict.why}")
        if verdict.outcome == "broken":
            raise RuleBroken(f"{verdict}\n  {self._rule.number} says: {self._rule.line}")

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """See `pytest.Item.repr_failure`: the rule instead of a traceback."""
        if isinstance(excinfo.value, RuleBroken):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, None, str]:
        """See `pytest.Item.reportinfo`."""
        return self.path, None, f"rule {self._rule}"


class Rules(pytest.Collector):
    """All of the rules."""

    def collect(self) -> Iterator[RuleItem]:
        """See `pytest.Collector.collect`."""
        factory = factory_of(self.config.getoption("engram_memory"))
        draws = self.config.getoption("engram_draws")
        for rule in RULES:
            name = f"{rule.number}-{rule.name}"
            yield RuleItem.from_parent(self, name=name, rule=rule, factory=factory, draws=draws)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the two options."""
    group = parser.getgroup("engram", "hold a replay memory to the contract")
    group.addoption(
        "--engram-memory",
        metavar="MODULE:FACTORY",
        help="a function of one `Setting` that builds the memory to test",
    )
    group.addoption(
        "--engram-draws", type=int, default=2_000, metavar="N", help="units a rule draws (2000)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuses a factory that is none before anything is collected."""
    path = config.getoption("engram_memory")
    if path is None:
        return
    try:
        factory_of(path)
    except ValueError as error:
        raise pytest.UsageError(f"--engram-memory: {error}") from None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Adds the rules to what was collected, before anything is chosen by -k or -m."""
    if config.getoption("engram_memory") is not None:
        rules = Rules.from_parent(session, name="engram", nodeid="engram")
        items.extend(rules.collect())
