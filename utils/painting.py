"""Pictures for people, of observations and of stacks of them."""

import math
from typing import Final

import numpy as np

from core.types import Array, image_layout

PLANES: Final = np.array(
    [
        (0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233),
        (213, 94, 0), (240, 228, 66), (255, 255, 255), (150, 150, 150), (120, 94, 240),
    ],
    np.uint8,
)  # fmt: skip
"""A colour for each plane: Okabe and Ito (2008), which colour-blind people tell apart, and more."""
SIDE: Final = 240  # pixels that the shorter side of a screen has at least
PADDED: Final = (224, 123, 26)
"""The border of a frame that stands in a stack because the episode had none before."""
BORDER: Final = (120, 120, 120)


def picture(frame: Array) -> Array:
    """A picture as a person can see it, `[H, W, 3]` uint8, of an observation.

    Grey `[H, W]` and colours `[H, W, 3]` or `[3, H, W]` stay what they are; of other planes each
    has a colour of its own, later ones over earlier ones. Float pictures are of 0 to 1 or to 255.
    """
    if frame.ndim == 3 and image_layout(frame.shape) == "CHW":
        frame = np.moveaxis(frame, 0, -1)
    if frame.ndim == 3 and (frame.shape[2] not in (1, 3) or frame.dtype == np.bool_):
        return _planes(frame)
    grey = _bytes(frame)
    grey = grey[..., None] if grey.ndim == 2 else grey
    return np.ascontiguousarray(np.broadcast_to(grey, (*grey.shape[:2], 3)))


def _bytes(frame: Array) -> Array:
    if frame.dtype == np.uint8:
        return frame
    shown = np.nan_to_num(frame.astype(np.float32))
    scale = 1.0 if shown.max(initial=0.0) > 1 else 255.0
    pixels: Array = np.clip(shown * scale, 0, 255).astype(np.uint8)
    return pixels


def _planes(frame: Array) -> Array:
    painted = np.zeros((*frame.shape[:2], 3), np.uint8)
    for plane in range(frame.shape[2]):
        painted[frame[..., plane] > 0] = PLANES[plane % len(PLANES)]
    return painted


def cells(vector: Array, low: Array, high: Array) -> Array:
    """A row of cells `[1, n, 3]`, from black at a number's least to white at its most."""
    share = (vector.astype(np.float64) - low) / np.maximum(high - low, 1e-9)
    return picture(np.clip(share, 0, 1).reshape(1, -1))


def strip(frames: Array, padding: int, width: int) -> Array:
    """A stack `[W, ...]` side by side, oldest left, each within a border: `[H, n, 3]` uint8.

    The first `padding` of them are dimmed, in a border of their own. Pixels are repeated as far as
    the strip stays within `width`.
    """
    shown = [picture(frame) for frame in frames]
    factor = max(1, (width // len(shown) - 4) // shown[0].shape[1])  # borders take 4 pixels
    parts = []
    for place, frame in enumerate(shown):
        padded = place < padding
        large = _repeated(frame // 2 if padded else frame, factor)
        height, breadth = large.shape[:2]
        bordered = np.empty((height + 4, breadth + 4, 3), np.uint8)
        bordered[...] = PADDED if padded else BORDER
        bordered[2:-2, 2:-2] = large
        parts.append(bordered)
    return np.concatenate(parts, axis=1)


def magnified(frame: Array, side: int) -> Array:
    """Pixels repeated, all alike, until the shorter side has `side` of them at least."""
    return _repeated(frame, max(1, math.ceil(side / min(frame.shape[:2]))))


def _repeated(frame: Array, factor: int) -> Array:
    return frame.repeat(factor, axis=0).repeat(factor, axis=1)


def screen(frame: Array) -> Array:
    """A picture large enough to see, of even sides, as encoders want it."""
    large = magnified(frame, SIDE)
    odd = [(0, side % 2) for side in large.shape[:2]]
    return np.ascontiguousarray(np.pad(large, [*odd, (0, 0)], mode="edge"))
