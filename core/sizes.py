"""Numbers of bytes, in words."""

import math
from typing import Final

UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")


def size_of(count: float) -> str:
    """Bytes in decimal units: 3.1 MB."""
    power = min(int(math.log10(count) // 3), len(UNITS) - 1) if count >= 1 else 0
    return f"{count / 1000**power:.{1 if power else 0}f} {UNITS[power]}"
