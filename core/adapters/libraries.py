"""The libraries of others, loaded only where they are used."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from ..errors import UsageError

NAME: Final = "EngramReplayBuffer"
"""What a class of ours is called in a library's place."""


def library(module: str, install: str = "") -> Any:
    """That module. Raises UsageError, with the command that installs it, where it is not there.

    `install` is what brings it, by default the package of its own name.
    """
    top = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if top != (error.name or "").partition(".")[0]:
            raise  # the library is there, and something that it needs is not
        package = install or top.replace("_", "-")
        raise UsageError(f"{top} is not installed: pip install {package}") from None


def on_demand(own: type, base: str) -> Callable[[str], type]:
    """A module's `__getattr__`: the class `NAME`, made where it is first asked for.

    It has the methods of `own`, of that module, and derives from a library's class, `base`, as
    'module:Name'; pickle finds it in the module. Raises UsageError where the library is not there.
    """
    module = own.__module__

    def answer(asked: str) -> type:
        if asked != NAME:
            raise AttributeError(f"module '{module}' has no attribute '{asked}'")
        place, _, theirs = base.partition(":")
        bases = own, getattr(library(place), theirs)
        kind = type(NAME, bases, {"__module__": module, "__doc__": own.__doc__})
        setattr(sys.modules[module], NAME, kind)
        return kind

    return answer
