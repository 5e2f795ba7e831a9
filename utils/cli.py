"""The command line: words and flags apart, and the pages of `--help` and `list`."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from core.errors import UsageError

from .commands import VERB_OPTIONS
from .describe import Takes, may_change, shown
from .factory import TABLES, options_class
from .options import CONFIGS, DEFAULT
from .settings import PARTS, chosen_classes, find_row

SWITCHES: Final = frozenset({"stop", "json", "overwrite"})
"""Flags that take no value."""
BARE: Final[Mapping[str, str]] = {"video": "3"}
"""Flags that may stand without their number, and what they mean then."""

USAGE: Final = """\
python main.py [ROW] [--key value ...]   train a row of CONFIGS in utils/options.py
python main.py ROW --help                the keys of a row, with defaults and ranges

{verbs}

rows: {rows} (default: {default})"""


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Words, and flags by key; `--key value` and `--key=value` are the same.

    Raises UsageError for a flag without a value that is no switch, or given twice.
    """
    words: list[str] = []
    flags: dict[str, str] = {}
    rest = deque(arguments)
    while rest:
        argument = rest.popleft()
        if not argument.startswith("--"):
            words.append(argument)
            continue
        key, equals, value = argument[2:].partition("=")
        if not equals:
            value = _value(key, rest)
            if value.startswith("--"):
                raise UsageError(f"--{key} needs a value")
        if key in flags:
            raise UsageError(f"--{key} is given twice")
        flags[key] = value
    return words, flags


def _value(key: str, rest: deque[str]) -> str:
    """What a flag is given: taken from the rest, unless it needs nothing; `--` where it is not."""
    if key in SWITCHES:
        return "true"
    if key in BARE and not (rest and rest[0].isdigit()):
        return BARE[key]
    return rest.popleft() if rest else "--"


def help_page(arguments: Sequence[str], verbs: Mapping[str, Callable[..., int]]) -> str:
    """The page that `--help` asks for: a row's keys if a row is named, else the overview."""
    words, flags = split_arguments([word for word in arguments if word not in ("--help", "-h")])
    if words and words[0] in VERB_OPTIONS:
        keys = VERB_OPTIONS[words[0]].model_fields.items()
        lines = [_key_line(key, field, flags) for key, field in keys]
        return "\n".join([f"python main.py {words[0]} RUN [--key value ...]", "", *lines])
    rows = [word for word in words if word not in verbs]
    if rows:
        return row_help(rows[-1], flags)  # `import` names a file first
    about = [f"python main.py {name:<26}{(verb.__doc__ or '')}" for name, verb in verbs.items()]
    return USAGE.format(verbs="\n".join(about), rows=", ".join(CONFIGS), default=DEFAULT)


def row_help(row: str, flags: Mapping[str, str]) -> str:
    """Every key of a row, by the component that reads it: value, what it takes, what it does."""
    values = {**find_row(row), **flags}
    lines = [f"python main.py {row} [--key value ...]"]
    for part, model in chosen_classes(values, f"in row '{row}'").items():
        lines += ["", f"{part} {values.get(f'{part}_type', '')}".rstrip()]
        lines += [_key_line(key, field, values) for key, field in model.model_fields.items()]
    return "\n".join(lines)


def _key_line(key: str, field: FieldInfo, values: Mapping[str, Any]) -> str:
    default = "required" if field.default is PydanticUndefined else shown(field.default)
    here = f", here {shown(values[key])}" if key in values else ""
    later = "; may change on resume" if may_change(field) else ""
    about = f"{Takes.of(field)} (default {default}{here}){later}"
    return f"  --{key}  {field.description}\n      {about}"


def listing() -> str:
    """Rows, and the components that a row can name."""
    tables = [TABLES[f"{part}_type"] for part in PARTS]
    width = max(len(name) for table in (CONFIGS, *tables) for name in table) + 2
    lines = ["rows"]
    lines += [f"  {name:<{width}}{_summary(row)}" for name, row in CONFIGS.items()]
    for part, table in zip(PARTS, tables, strict=True):
        lines += ["", f"{part}_type"]
        for name, entry in table.items():
            about = (options_class(entry).__doc__ or "").strip().partition("\n")[0]
            lines.append(f"  {name:<{width}}{about}")
    return "\n".join(lines)


def _summary(row: Mapping[str, Any]) -> str:
    return f"{row.get('agent_type')} on {row.get('game')} from {row.get('memory_type')} memory"
