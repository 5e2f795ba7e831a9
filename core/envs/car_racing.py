"""gymnasium's CarRacing, bit for bit, drawn in a fraction of the time.

A frame of gymnasium's takes some 7 ms, of which the car takes 0.1: all of the track and of the lawn
is turned and shifted corner by corner in Python, to find that most of it lies outside the picture.
Here numpy finds that out, and what is left is drawn by gymnasium itself. The frames that
`core.envs.frames` says nobody will see are not drawn at all.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import gymnasium as _  # first: where nothing is installed, it is what is missing  # noqa: F401
import numpy as np
import pygame
from gymnasium.envs.box2d.car_racing import (
    GRASS_DIM,
    PLAYFIELD,
    SCALE,
    STATE_H,
    STATE_W,
    WINDOW_H,
    WINDOW_W,
    ZOOM,
    CarRacing,
)
from pygame.math import Vector2

from ..types import Array

EDGE: Final = 2  # pixels around a polygon that smoothing may touch, at most
FIELD: Final = [
    (PLAYFIELD, PLAYFIELD),
    (PLAYFIELD, -PLAYFIELD),
    (-PLAYFIELD, -PLAYFIELD),
    (-PLAYFIELD, PLAYFIELD),
]
LAWN: Final = [
    [
        (GRASS_DIM * x + GRASS_DIM, GRASS_DIM * y + 0),
        (GRASS_DIM * x + 0, GRASS_DIM * y + 0),
        (GRASS_DIM * x + 0, GRASS_DIM * y + GRASS_DIM),
        (GRASS_DIM * x + GRASS_DIM, GRASS_DIM * y + GRASS_DIM),
    ]
    for x in range(-20, 20, 2)
    for y in range(-20, 20, 2)
]
DASHBOARD: Final = WINDOW_H - 5 * WINDOW_H // 40
"""Rows above the indicators, which cover everything below."""


class QuickCarRacing(CarRacing):
    """Observes what CarRacing observes; see `core.envs.frames.Drawn`."""

    drawing = True
    car: Any  # as gymnasium's are, which says that they may be None
    surf: Any
    state: Array

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        pygame.font.init()
        self._font = pygame.font.Font(pygame.font.get_default_font(), 42)
        self._canvas = pygame.Surface((WINDOW_W, WINDOW_H))
        self._upright = pygame.Surface((WINDOW_W, WINDOW_H))
        self._picture = pygame.Surface((STATE_W, STATE_H))
        self._lawn = _corners(LAWN)
        self._track = _corners([])
        self._undrawn = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """See `gymnasium.Env.reset`."""
        self._track = _corners([])
        return super().reset(seed=seed, options=options)

    def draw(self) -> Array:
        """See `Drawn.draw`: the score in the corner is that of the middle of the step."""
        self.state = self._observe(self._undrawn)
        return self.state

    def _render(self, mode: str) -> Any:
        if mode != "state_pixels":
            return super()._render(mode)
        if self.drawing:
            return self._observe(self.reward)
        self._undrawn = self.reward
        return None

    def _observe(self, score: float) -> Array:
        """The steps of `CarRacing._render`, in surfaces that stay."""
        angle = -self.car.hull.angle
        zoom = 0.1 * SCALE * max(1 - self.t, 0) + ZOOM * SCALE * min(self.t, 1)
        at = self.car.hull.position
        turned = Vector2((-at[0] * zoom, -at[1] * zoom)).rotate_rad(angle)
        shift = (WINDOW_W / 2 + turned[0], WINDOW_H / 4 + turned[1])
        self.surf = self._canvas
        self._render_road(zoom, shift, angle)
        self.car.draw(self.surf, zoom, shift, angle, False)
        self.surf = self._upright
        pixels = pygame.surfarray.pixels2d(self._upright)
        pixels[:, :DASHBOARD] = pygame.surfarray.pixels2d(self._canvas)[:, : -DASHBOARD - 1 : -1]
        del pixels  # until then the surface is locked
        show_indicators: Any = self._render_indicators
        show_indicators(WINDOW_W, WINDOW_H)
        text = self._font.render(f"{score:04.0f}", True, (255, 255, 255), (0, 0, 0))
        place = text.get_rect()
        place.center = (60, WINDOW_H - WINDOW_H * 2.5 / 40.0)
        self.surf.blit(text, place)
        pygame.transform.smoothscale(self.surf, (STATE_W, STATE_H), self._picture)
        return np.transpose(pygame.surfarray.array3d(self._picture), (1, 0, 2))

    def _render_road(self, zoom: float, translation: Any, angle: float) -> None:
        paint: Any = self._draw_colored_polygon
        where = (zoom, translation, angle)
        if not self._track.size:
            self._track = _corners([corners for corners, _ in self.road_poly])
        reach = (math.hypot(WINDOW_W / 2, WINDOW_H * 3 / 4) + EDGE) / zoom
        if max(map(abs, self.car.hull.position)) + reach < PLAYFIELD:  # the field is all around
            self.surf.fill(self.bg_color)
        else:
            self.surf.fill(0)
            paint(self.surf, FIELD, self.bg_color, *where, clip=False)
        for index in _inside(self._lawn, *where):
            paint(self.surf, LAWN[index], self.grass_color, *where)
        for index in _inside(self._track, *where):
            corners, colour = self.road_poly[index]
            paint(self.surf, corners, [int(c) for c in colour], *where)


def _corners(polygons: Sequence[Any]) -> Array:
    """Quadrangles as `[2, 4, N]`: all x, all y."""
    return np.ascontiguousarray(np.reshape(polygons, (-1, 4, 2)).transpose(2, 1, 0), np.float64)


def _inside(corners: Array, zoom: float, translation: Any, angle: float) -> list[int]:
    """Which quadrangles may touch the picture."""
    sine, cosine = math.sin(angle) * zoom, math.cos(angle) * zoom
    x, y = corners
    across = cosine * x - sine * y + translation[0]
    up = sine * x + cosine * y + translation[1]
    beside = (across.max(axis=0) < -EDGE) | (across.min(axis=0) > WINDOW_W + EDGE)
    beside |= (up.max(axis=0) < -EDGE) | (up.min(axis=0) > WINDOW_H + EDGE)
    found: list[int] = np.flatnonzero(~beside).tolist()
    return found
