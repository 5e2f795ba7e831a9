"""Engram: `python main.py ROW [--key value ...]` trains a row of `utils/options.py`."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from core.errors import EngramError, UsageError

Flags = Mapping[str, str]
INTERRUPTED: Final = 130


def train(words: Sequence[str], flags: Flags) -> int:
    """Trains a row; without one, the default."""
    from utils.commands import train_row
    from utils.options import DEFAULT

    row, *more = words or [DEFAULT]
    if more:
        raise UsageError(f"one row at a time: '{row}', and then '{more[0]}'")
    return train_row(row, flags)


def plan(words: Sequence[str], flags: Flags) -> int:
    """Says what a row would take and hold here; `--json` as one object."""
    from utils.commands import plan_row

    return plan_row(words, flags)


def resume(words: Sequence[str], flags: Flags) -> int:
    """Goes on with a run where it was last saved; `--steps` goes further."""
    from utils.commands import resume_run

    return resume_run(words, flags)


def test(words: Sequence[str], flags: Flags) -> int:
    """Plays a run's best weights on fresh episodes."""
    from utils.commands import test_run

    return test_run(words, flags)


def export(words: Sequence[str], flags: Flags) -> int:
    """Writes a run's memory to a file: `--to minari`, or `--to hdf5`."""
    from utils.exchange import export_run

    return export_run(words, flags)


def import_file(words: Sequence[str], flags: Flags) -> int:
    """Begins a run of a row with the episodes of such a file: FILE ROW."""
    from utils.exchange import import_file

    return import_file(words, flags)


def board(words: Sequence[str], flags: Flags) -> int:
    """Posts a run's curves again; `--stop` ends the server that a run started."""
    from utils.commands import board

    return board(words, flags)


def show_list(words: Sequence[str], flags: Flags) -> int:
    """Shows rows and components."""
    from utils.cli import listing

    if words or flags:
        raise UsageError("usage: python main.py list")
    print(listing())
    return 0


VERBS: Final[Mapping[str, Callable[[Sequence[str], Flags], int]]] = {
    "train": train,
    "plan": plan,
    "resume": resume,
    "test": test,
    "board": board,
    "export": export,
    "import": import_file,
    "list": show_list,
}


def main(arguments: Sequence[str]) -> int:
    """Runs one command line; gives the exit code."""
    from core.names import did_you_mean
    from utils.cli import help_page, split_arguments
    from utils.options import CONFIGS

    if "--help" in arguments or "-h" in arguments:
        print(help_page(arguments, VERBS))
        return 0
    words, flags = split_arguments(arguments)
    if named_like_verbs := sorted(set(CONFIGS) & set(VERBS)):
        raise UsageError(f"row '{named_like_verbs[0]}' in CONFIGS is named like a verb; rename it")
    if words and words[0] in VERBS:
        return VERBS[words[0]](words[1:], flags)
    if words and words[0] not in CONFIGS:
        raise UsageError(f"no row or verb '{words[0]}'{did_you_mean(words[0], [*CONFIGS, *VERBS])}")
    return train(words, flags)


def run(arguments: Sequence[str]) -> int:
    """As `main`, with what went wrong as one line."""
    try:
        code = main(arguments)
        sys.stdout.flush()
        return code
    except EngramError as error:
        print(f"engram: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # whoever read along has gone; nothing is left to say to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UsageError.exit_code
    except KeyboardInterrupt:  # a run takes the signal itself; this was before it, or another verb
        print("engram: interrupted", file=sys.stderr)
        return INTERRUPTED
    except SyntaxError as error:
        print(f"engram: {error.filename}, line {error.lineno}: {error.msg}", file=sys.stderr)
        return UsageError.exit_code


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
