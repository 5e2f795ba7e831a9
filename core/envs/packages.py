"""Packages that only some environments need: asked for when used, refused with what to install."""

from importlib import import_module
from types import ModuleType

from ..errors import UsageError


def needed(module: str, whose: str, install: str) -> ModuleType:
    """Imports a module that may not be there; raises UsageError with the command to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise missing(error.name or module, whose, install) from None


def missing(module: str, whose: str, install: str) -> UsageError:
    """The error of a module that is not there."""
    return UsageError(f"{whose} needs the package '{module}': {install}")
