"""Environments draw into memory; nothing here ever opens a window."""

import os
import sys
from typing import Final

DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY")
DRIVER: Final = "SDL_VIDEODRIVER"


def draw_without_display() -> None:
    """Tells SDL, which draws for pygame, to look for no display where there is none.

    A driver that somebody chose stays. On other systems than Linux there is always a display.
    """
    if sys.platform == "linux" and not any(os.environ.get(name) for name in (*DISPLAYS, DRIVER)):
        os.environ[DRIVER] = "dummy"
