"""Errors that a person sees as one line; anything else that escapes is a bug."""


class EngramError(Exception):
    """One clear line for the person at the terminal; `exit_code` is what the process ends with."""

    exit_code = 1


class UsageError(EngramError):
    """The input is wrong, a key, a value, a name or a pair of them; nothing was built."""

    exit_code = 2


class RunFailedError(EngramError):
    """The run cannot go on (a non-finite tensor, a broken environment); what was saved stays."""


class CorruptMemoryError(EngramError):
    """`Memory.check` found an invariant broken; the message names which and where."""
