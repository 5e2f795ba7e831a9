"""An emulator of our own making, whose screens say which frames they are made of."""

from typing import Any

import numpy as np
from gymnasium import spaces

from core.envs.atari import Atari
from core.envs.options import AtariOptions

SIDE = 16
RAM = 128
MEANINGS = ["NOOP", "FIRE", "RIGHT", "LEFT"]


class Emulator:
    """ale-py's interface: frame n lights the n-th pixel, and the first, which has no n-th."""

    def __init__(self, lives: dict[int, int], over: dict[int, str]) -> None:
        self.frame = 0
        self.game = 0
        self._changes = lives
        self.over = over
        self._lives = 0
        self.begin()

    def begin(self) -> None:
        self.frame = 0
        self.game += 1
        self._lives = self._changes.get(0, 3)

    def act(self) -> None:
        self.frame += 1
        self._lives = self._changes.get(self.frame, self._lives)

    def getScreenDims(self) -> tuple[int, int]:  # noqa: N802
        return SIDE, SIDE

    def getScreenGrayscale(self, out: np.ndarray) -> None:  # noqa: N802
        out[...] = 0
        out.reshape(-1)[self.frame] = 200

    def getScreenRGB(self, out: np.ndarray) -> None:  # noqa: N802
        out[...] = 0
        out.reshape(-1, 3)[self.frame] = (30, 60, 91)

    def getRAMSize(self) -> int:  # noqa: N802
        return RAM

    def getRAM(self, out: np.ndarray) -> None:  # noqa: N802
        out[...] = np.arange(RAM) + self.frame

    def lives(self) -> int:
        return self._lives

    def getEpisodeFrameNumber(self) -> int:  # noqa: N802
        return self.frame


class Console:
    """ale-py's environment at one frame a step: what it was told, and a reward of 1 a frame.

    `lives` maps frames of a game to the lives left from there on, `over` to how it ends.
    """

    def __init__(
        self,
        lives: dict[int, int] | None = None,
        over: dict[int, str] | None = None,
        meanings: list[str] = MEANINGS,
    ) -> None:
        self.actions: list[int] = []
        self.seeds: list[int | None] = []
        self.ale = Emulator(lives or {}, over or {})
        self.action_space = spaces.Discrete(len(meanings))
        self.np_random = np.random.default_rng(0)
        self._meanings = meanings

    def get_action_meanings(self) -> list[str]:
        return self._meanings

    def reset(self, *, seed: int | None = None) -> Any:
        if seed is not None:
            self.np_random = np.random.default_rng(seed)
        self.seeds.append(seed)
        self.actions.clear()
        self.ale.begin()
        return None, {}

    def step(self, action: int) -> Any:
        self.actions.append(action)
        self.ale.act()
        how = self.ale.over.get(self.ale.frame)
        return None, 1.0, how == "terminated", how == "truncated", {}


def seen(obs: np.ndarray) -> list[int]:
    """The frames that an observation of full size is made of."""
    plane = obs if obs.ndim == 2 else obs[..., 2]
    return np.flatnonzero(plane).tolist()


def plays(console: Console, **options: Any) -> Atari:
    """The game as an agent meets it: screens as they are drawn, unless the options say else."""
    chosen = {"game": "stub", "resize": 0, "sticky_actions": 0.0, **options}
    return Atari(console, AtariOptions(**chosen))
