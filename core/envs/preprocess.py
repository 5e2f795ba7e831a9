"""From an emulator's screens to one observation: grey, pooled, shrunk.

The preprocessing of Mnih et al. (2015), "Methods": the brighter of two frames, since sprites are
drawn in every other one, their luminance, and 84x84 of it. As in Machado et al. (2018) and every
implementation since, frames are made grey first and pooled then.
"""

from typing import Any, Literal

import numpy as np

from ..types import Array
from .packages import needed

INSTALL = "pip install -r requirements-atari.txt"
Grey = Literal["luma", "mean", "off"]


def mean_grey(frame: Array) -> Array:
    """The mean of red, green and blue: `[H, W, 3]` uint8 to `[H, W]` uint8, rounded."""
    cv2 = needed("cv2", "preprocessing", INSTALL)
    grey: Array = cv2.transform(frame, np.full((1, 3), 1 / 3, np.float32))
    return grey


def shrunk(frame: Array, side: int) -> Array:
    """A square of `side` pixels, each the mean of the area it covers: `[side, side(, 3)]` uint8."""
    cv2 = needed("cv2", "preprocessing", INSTALL)
    square: Array = cv2.resize(frame, (side, side), interpolation=cv2.INTER_AREA)
    return square


class Screen:
    """What is seen of an emulator: its newest screen, or the brighter of the newest two.

    `ale` is ale-py's `ALEInterface`. Screens are `[H, W]` uint8 for grey 'luma' and 'mean',
    `[H, W, 3]` in RGB for 'off'; `side` 0 leaves them as large as they are drawn.
    """

    def __init__(self, ale: Any, grey: Grey, side: int, *, pooled: bool) -> None:
        self._ale = ale
        self._grey = grey
        self._side = side
        height, width = ale.getScreenDims()
        colour = np.zeros((height, width, 3), np.uint8)
        one = colour if grey == "off" else colour[..., 0]
        self._colour = colour
        self._drawn = np.zeros((1 + pooled, *one.shape), np.uint8)
        self._count = 0
        self.shape = one.shape if not side else (side, side, *one.shape[2:])

    @property
    def depth(self) -> int:
        """Screens that an observation is made of, at most."""
        return len(self._drawn)

    def forget(self) -> None:
        """Lets go of all screens: what is drawn next stands alone."""
        self._count = 0

    def draw(self) -> None:
        """Takes the emulator's screen as it is now."""
        place = self._drawn[self._count % self.depth]
        if self._grey == "luma":
            self._ale.getScreenGrayscale(place)
        elif self._grey == "mean":
            self._ale.getScreenRGB(self._colour)
            place[...] = mean_grey(self._colour)
        else:
            self._ale.getScreenRGB(place)
        self._count += 1

    def observation(self) -> Array:
        """What is seen now, a fresh array of shape `shape`."""
        frame: Array = self._drawn[: self._count].max(axis=0)
        return shrunk(frame, self._side) if self._side else frame
