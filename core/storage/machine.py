"""Single instructions for the compiled loops, and their twins in Python where numba is off."""

import sys
from typing import Any

from numba import config

from .layout import SLACK

Bytes = Any

if sys.byteorder != "little":
    raise ImportError("compressed frames need a little-endian machine: set --frame_codec raw")


def _copy16(out: Bytes, to: int, data: Bytes, at: int) -> None:
    """Copies `data[at:at + 16]` to `out[to:to + 16]`, read as a whole before it is written."""
    out[to : to + SLACK] = data[at : at + SLACK].copy()


def _first_byte(word: Any) -> int:
    """The place of the lowest byte that is not 0, of a uint64 that is not 0."""
    number = int(word)
    return ((number & -number).bit_length() - 1) // 8


def _last_byte(word: Any) -> int:
    """The place of the highest byte that is not 0, of a uint64 that is not 0."""
    return (int(word).bit_length() - 1) // 8


def _instructions() -> tuple[Any, Any, Any]:
    """Compiled, or their twins where numba's compiler is off."""
    if getattr(config, "DISABLE_JIT", False):
        return _copy16, _first_byte, _last_byte
    from . import intrinsics

    return intrinsics.copy16, intrinsics.first_byte, intrinsics.last_byte


copy16, first_byte, last_byte = _instructions()
