"""From the pictures of an environment to one observation: cropped, grey, pooled, shrunk.

The preprocessing of Mnih et al. (2015), "Methods": the brighter of two frames, since sprites are
drawn in every other one, their luminance, and 84x84 of it. As in Machado et al. (2018) and every
implementation since, frames are made grey first and pooled then.

gymnasium's own wrappers weigh colours otherwise than ALE does, and pool what an episode that ends
within a step left of the one before; so Atari and any other picture share what is here.
"""

from typing import Any, Final, Protocol

import numpy as np

from ..types import Array, Tree
from .options import Crop, Grey
from .packages import needed

INSTALL: Final = "pip install -r requirements-atari.txt"
INSTALL_CV2: Final = "pip install opencv-python-headless"


def ready() -> None:
    """Raises UsageError where OpenCV is missing; else it keeps to this thread from here on."""
    _cv2().setNumThreads(1)


def mean_grey(frame: Array) -> Array:
    """The mean of red, green and blue: `[H, W, 3]` uint8 to `[H, W]` uint8, rounded."""
    grey: Array = _cv2().transform(frame, np.full((1, 3), 1 / 3, np.float32))
    return grey


def luma(frame: Array) -> Array:
    """Brightness by ITU-R BT.601, as ALE has it: `[H, W, 3]` uint8 to `[H, W]` uint8, rounded."""
    cv2 = _cv2()
    grey: Array = cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY)
    return grey


def shrunk(frame: Array, side: int) -> Array:
    """A square of `side` pixels, each the mean of the area it covers: `[side, side(, C)]` uint8."""
    cv2 = _cv2()
    square: Array = cv2.resize(frame, (side, side), interpolation=cv2.INTER_AREA)
    return square.reshape(side, side, *frame.shape[2:])  # a single channel is lost on the way


class Source(Protocol):
    """What shows pictures, one after the other, or bytes in a row."""

    shape: tuple[int, ...]

    def draw(self, place: Array) -> None:
        """Puts the newest into `place`, `shape` of uint8."""


class Emulated:
    """The screens of ale-py's `ALEInterface`: `[H, W]` for grey, `[H, W, 3]` in RGB for 'off'."""

    def __init__(self, ale: Any, grey: Grey) -> None:
        self._ale = ale
        self._grey = grey
        height, width = ale.getScreenDims()
        self._colour = np.zeros((height, width, 3), np.uint8)
        self.shape: tuple[int, ...] = (height, width, 3) if grey == "off" else (height, width)

    def draw(self, place: Array) -> None:
        """See `Source.draw`."""
        if self._grey == "luma":
            self._ale.getScreenGrayscale(place)
        elif self._grey == "mean":
            self._ale.getScreenRGB(self._colour)
            place[...] = mean_grey(self._colour)
        else:
            self._ale.getScreenRGB(place)


class Ram:
    """The console's memory, by ale-py's `ALEInterface`: `[128]`."""

    def __init__(self, ale: Any) -> None:
        self._ale = ale
        self.shape: tuple[int, ...] = (ale.getRAMSize(),)

    def draw(self, place: Array) -> None:
        """See `Source.draw`."""
        self._ale.getRAM(place)


class Observed:
    """What an environment observes, `[H, W(, C)]` uint8 in `newest`: cropped, then made grey."""

    newest: Array

    def __init__(self, shape: tuple[int, ...], grey: Grey, crop: Crop) -> None:
        top, bottom, left, right = crop
        height, width = shape[:2]
        self._part = np.s_[top : height - bottom, left : width - right]
        self._grey = {"luma": luma, "mean": mean_grey, "off": None}[grey]
        sides = (height - top - bottom, width - left - right)
        self.shape = sides if self._grey else (*sides, *shape[2:])

    def draw(self, place: Array) -> None:
        """See `Source.draw`."""
        part = self.newest[self._part]
        place[...] = self._grey(part) if self._grey else part


class Screen:
    """What is seen of a source: its newest picture, or the brighter of the newest two.

    `side` 0 leaves pictures as large as they are drawn.
    """

    def __init__(self, source: Source, side: int, *, pooled: bool) -> None:
        self._source = source
        self._side = side
        self._drawn = np.zeros((1 + pooled, *source.shape), np.uint8)
        self._count = 0
        self.shape = (side, side, *source.shape[2:]) if side else source.shape

    @property
    def depth(self) -> int:
        """Pictures that an observation is made of, at most."""
        return len(self._drawn)

    def forget(self) -> None:
        """Lets go of all pictures: what is drawn next stands alone."""
        self._count = 0

    def draw(self) -> None:
        """Takes the source's picture as it is now."""
        self._source.draw(self._drawn[self._count % self.depth])
        self._count += 1

    def snapshot(self) -> Tree:
        """What it holds, copied."""
        return {"drawn": self._drawn.copy(), "count": self._count}

    def restore(self, snapshot: Tree) -> None:
        """Goes on from there."""
        self._drawn[...] = snapshot["drawn"]
        self._count = snapshot["count"]

    def observation(self) -> Array:
        """What is seen now, a fresh array of shape `shape`."""
        frame: Array = self._drawn[: self._count].max(axis=0)
        return shrunk(frame, self._side) if self._side else frame


def _cv2() -> Any:
    return needed("cv2", "preprocessing", INSTALL_CV2)
