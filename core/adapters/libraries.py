"""The libraries of others, loaded only where they are used."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..errors import UsageError


def library(module: str, install: str) -> Any:
    """That module. Raises UsageError, with the command that installs it, where it is not there."""
    top = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if top != (error.name or "").partition(".")[0]:
            raise  # the library is there, and something that it needs is not
        raise UsageError(f"{top} is not installed: pip install {install}") from None


def on_demand(module: str, name: str, own: type, base: Callable[[], type]) -> Callable[[str], type]:
    """A module's `__getattr__`: the class `name`, made where it is first asked for.

    It has our methods and derives from a library's class; pickle finds it in the module. Raises
    UsageError where the library is not there.
    """

    def answer(asked: str) -> type:
        if asked != name:
            raise AttributeError(f"module '{module}' has no attribute '{asked}'")
        kind = type(name, (own, base()), {"__module__": module, "__doc__": own.__doc__})
        setattr(sys.modules[module], name, kind)
        return kind

    return answer
