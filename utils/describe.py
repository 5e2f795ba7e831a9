"""What an option takes, in words; and flags read as what they take."""

from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import annotated_types as bounds
from pydantic import ByteSize
from pydantic.fields import FieldInfo

KINDS = {
    int: "a whole number",
    float: "a number",
    str: "a name",
    bool: "true or false",
    ByteSize: "a size, as 2GB",
}
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def may_change(field: FieldInfo) -> bool:
    """Whether a run that goes on may have another value of an option."""
    extra = field.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get("changes"))


@dataclass(frozen=True)
class Takes:
    """Kind, range and unit of an option."""

    kind: str
    range: str
    unit: str

    @classmethod
    def of(cls, field: FieldInfo) -> "Takes":
        """Read off a field."""
        extra = field.json_schema_extra
        unit = str(extra.get("unit", "")) if isinstance(extra, dict) else ""
        return cls(_kind(field.annotation), _range(field.metadata), unit)

    def __str__(self) -> str:
        return " ".join(part for part in (self.kind, self.range, self._in_unit()) if part)

    def _in_unit(self) -> str:
        return f"in {self.unit}" if self.unit else ""


def _kind(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(str(choice) for choice in get_args(annotation))
    if get_origin(annotation) is tuple:
        low = (
            1 if Ellipsis in get_args(annotation) else 0
        )  # any number of widths, or so many of pixels
        return f"whole numbers of {low} and up, separated by commas"
    if get_origin(annotation) is dict:
        return "names with numbers, as one:0.5,other:0.5"
    return KINDS.get(annotation, str(annotation))


def _range(metadata: list[Any]) -> str:
    low = high = ""
    for bound in metadata:
        if isinstance(bound, bounds.Ge):
            low = f"{bound.ge:,} and up"
        elif isinstance(bound, bounds.Gt):
            low = f"above {bound.gt:,}"
        elif isinstance(bound, bounds.Le):
            high = f"up to {bound.le:,}"
        elif isinstance(bound, bounds.Lt):
            high = f"below {bound.lt:,}"
    return ", ".join(part for part in (low, high) if part)


def shown(value: Any) -> str:
    """A value as a flag would say it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return ",".join(str(item) for item in value)
    if isinstance(value, dict):
        return ",".join(f"{name}:{shown(number)}" for name, number in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def parse(text: str, field: FieldInfo) -> Any:
    """A flag's text as the option's type; raises ValueError where it is none."""
    kind = field.annotation
    if get_origin(kind) is tuple:
        return tuple(whole(item) for item in text.split(",") if item.strip())
    if get_origin(kind) is dict:
        return {name.strip(): float(number) for name, number in _pairs(text)}
    if kind is bool:
        return truth(text)
    if kind is int:
        return whole(text)
    return float(text.replace("_", "")) if kind is float else text


def _pairs(text: str) -> list[list[str]]:
    """Names and numbers of `name:number,...`; raises ValueError where there is no colon."""
    pairs = [item.split(":") for item in text.split(",") if item.strip()]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(text)
    return pairs


def whole(text: str) -> int:
    """A whole number, written plainly, with underscores, or as 1e6."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise
        return int(number)


def truth(text: str) -> bool:
    """True or false, in the usual words."""
    if text.lower() in TRUE:
        return True
    if text.lower() in FALSE:
        return False
    raise ValueError(text)
