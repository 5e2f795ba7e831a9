"""From a row and flags to checked options: every wrong word is named, with what was meant."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from core.agent import AgentOptions
from core.envs.options import EnvOptions
from core.errors import UsageError
from core.memory import MemoryOptions
from core.names import did_you_mean, nearest
from core.options import Options
from models.options import ModelOptions

from .board import BoardOptions
from .describe import Takes, parse
from .factory import TABLES, component, options_class
from .options import CONFIGS, RunOptions

FLAGS: Final = "on the command line"
OptionsT = TypeVar("OptionsT", bound=Options)
BASES: Final[Mapping[str, type[Options]]] = {
    "agent": AgentOptions,
    "env": EnvOptions,
    "model": ModelOptions,
    "memory": MemoryOptions,
}
PARTS: Final = tuple(BASES)


@dataclass(frozen=True)
class Settings:
    """A row, resolved: the options of the run and of the four components it names."""

    row: str
    run: RunOptions
    agent: AgentOptions
    env: EnvOptions
    model: ModelOptions
    memory: MemoryOptions
    board: BoardOptions

    def flat(self) -> dict[str, Any]:
        """Every key with its value, defaults included."""
        keys: dict[str, Any] = {}
        for part in (self.run, self.agent, self.env, self.model, self.memory, self.board):
            keys |= part.model_dump()
        return keys


def find_row(name: str) -> dict[str, Any]:
    """A row of CONFIGS; raises UsageError with the nearest for a name that is none."""
    if name not in CONFIGS:
        raise UsageError(f"no row '{name}' in CONFIGS{did_you_mean(name, CONFIGS)}")
    return CONFIGS[name]


def chosen_classes(keys: Mapping[str, Any], where: str) -> dict[str, type[Options]]:
    """The options models of a row by part; raises UsageError where a component is none."""
    classes: dict[str, type[Options]] = {"run": RunOptions, "board": BoardOptions}
    for part in PARTS:
        key = f"{part}_type"
        if key not in keys:
            strange = [name for name in keys if not _is_read(name)]
            if typo := nearest(key, strange):
                raise _unknown_key(typo, [key], where)
            raise UsageError(f"'{key}' is missing {where}{did_you_mean('', TABLES[key])}")
        if not isinstance(keys[key], str):
            raise UsageError(f"'{key}' {where} is {keys[key]!r}, not a name")
        classes[part] = options_class(component(key, keys[key]))
        if not issubclass(classes[part], BASES[part]):
            raise UsageError(f"{key} '{keys[key]}' {where} is no {part}: its Options say so")
    return classes


def resolve(row: str, config: Mapping[str, Any], flags: Mapping[str, str]) -> Settings:
    """Checks a row and its flags key by key, and builds its options.

    Raises UsageError, one line, for the first key that does not exist, value that is not allowed,
    or required key that is missing.
    """
    where = f"in row '{row}'"
    classes = chosen_classes({**config, **flags}, where)
    for keys, place in ((config, where), (flags, FLAGS)):
        for key in keys:
            _check_known(key, classes, {**config, **flags}, place)
    parsed = {key: _parse_flag(key, text, classes) for key, text in flags.items()}
    values = {**config, **parsed}
    built = {
        part: _build(model, values, lambda key: FLAGS if key in flags else where)
        for part, model in classes.items()
    }
    return Settings(row, **built)  # type: ignore[arg-type]


def from_flags(model: type[OptionsT], flags: Mapping[str, str]) -> OptionsT:
    """Options given by flags alone, checked as those of a row."""
    for key in flags:
        if key not in model.model_fields:
            raise _unknown_key(key, model.model_fields, FLAGS)
    values = {key: _parse_flag(key, text, {"": model}) for key, text in flags.items()}
    return _build(model, values, lambda key: FLAGS)


def _check_known(
    key: str, classes: Mapping[str, type[Options]], values: Mapping[str, Any], where: str
) -> None:
    known = {name for model in classes.values() for name in model.model_fields}
    if key in known:
        return
    for part, name in _readers(key):
        chosen = values[f"{part}_type"]
        raise UsageError(f"'{key}' {where} is read by {part} {name}; {chosen} does not use it")
    raise _unknown_key(key, known, where)


def _unknown_key(key: str, known: Iterable[str], where: str) -> UsageError:
    close = nearest(key, known)
    hint = f"did you mean '{close}'?" if close else "`--help` lists the row's keys"
    return UsageError(f"unknown key '{key}' {where}; {hint}")


def _readers(key: str) -> Iterator[tuple[str, str]]:
    """Components, of all tables, that read a key."""
    for part in PARTS:
        for name, entry in TABLES[f"{part}_type"].items():
            if key in options_class(entry).model_fields:
                yield part, name


def _is_read(key: str) -> bool:
    """Whether the run or any component reads a key."""
    run = {*RunOptions.model_fields, *BoardOptions.model_fields}
    return key in run or any(_readers(key))


def _parse_flag(key: str, text: str, classes: Mapping[str, type[Options]]) -> Any:
    model = next(model for model in classes.values() if key in model.model_fields)
    field = model.model_fields[key]
    try:
        return parse(text, field)
    except ValueError:
        raise UsageError(_refusal(key, text, Takes.of(field), FLAGS)) from None


def _build(
    model: type[OptionsT], values: Mapping[str, Any], place: Callable[[str], str]
) -> OptionsT:
    own = {key: values[key] for key in model.model_fields if key in values}
    try:
        return model(**own)
    except ValidationError as errors:
        error = errors.errors()[0]
        why = str(error["ctx"]["error"]) if error["type"] == "value_error" else ""
        if not error["loc"]:  # each key is allowed, but not beside the others
            raise UsageError(f"keys {place('')} do not fit together: it takes {why}") from None
        key = str(error["loc"][0])
        if error["type"] == "missing":
            required = Takes.of(model.model_fields[key])
            raise UsageError(f"'{key}' is missing {place('')}: it takes {required}") from None
        takes = why or str(Takes.of(model.model_fields[key]))
        raise UsageError(_refusal(key, values.get(key), takes, place(key))) from None


def _refusal(key: str, value: Any, takes: object, where: str) -> str:
    return f"{key} = {value!r} {where} is not allowed: it takes {takes}"
