"""Options of the empty agent."""

from typing import ClassVar

from core.agent import AgentOptions
from core.types import Unit


class EmptyOptions(AgentOptions):
    """Acts at random and learns nothing: to try an environment, and for the floor of a result."""

    reads: ClassVar[frozenset[Unit]] = frozenset(Unit)
    models: ClassVar[frozenset[str]] = frozenset({"none"})
