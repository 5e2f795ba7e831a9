"""Games of the Arcade Learning Environment (Bellemare et al. 2013), by ale-py.

An id of ale-py names a game, and says how many frames a step takes and how sticky actions are. Here
the options alone say that: the emulator runs frame by frame, so that no skip is ever doubled.
"""

from functools import partial
from types import ModuleType
from typing import Any, Final, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ..errors import RunFailedError, UsageError
from ..names import nearest
from ..types import Array
from .gym import ALE, limit, vectorize
from .options import AtariOptions, AtariRamOptions
from .packages import needed
from .preprocess import INSTALL, Emulated, Ram, Screen
from .vector import LOST_LIFE, GymVector

MAX_FRAMES: Final = 108_000  # as ale-py's own ids have it: half an hour
FRAMES_A_SECOND: Final = 60
NOOP: Final = 0
Reset = tuple[Array, dict[str, Any]]
Result = tuple[Array, float, bool, bool, dict[str, Any]]


class Id(NamedTuple):
    """What an id of ale-py says."""

    rom: str
    skip: object
    """Frames a step: a number, or a range (low, high) to draw from, high excluded."""
    sticky: float


class Atari(gym.Env[Any, Any]):
    """Whole games in env steps of `frame_skip` frames; a lost life is told, and ends nothing.

    A game that ends within a step ends the step, and its last screen is then seen unpooled.
    """

    def __init__(self, ale_env: Any, options: AtariRamOptions) -> None:
        self._env = ale_env  # ale-py's AtariEnv, one frame a step
        self._ale = ale_env.ale
        self._options = options
        self.metadata = {"render_fps": FRAMES_A_SECOND / options.frame_skip}
        self._screen = _screen(self._ale, options)
        self._fire = _fire_action(ale_env.get_action_meanings(), options)
        self._lives = 0
        self.action_space = ale_env.action_space
        self.observation_space = spaces.Box(0, 255, self._screen.shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Begins a game: idle frames, then FIRE, as far as the options say so.

        What those may earn belongs to no step, and is not counted, as everywhere.
        """
        self._screen.forget()
        self._env.reset(seed=seed)
        most = self._options.noop_max
        for _ in range(self._env.np_random.integers(1, most + 1) if most else 0):
            if any(self._frame(NOOP)[1:]):
                self._env.reset()
        self._screen.draw()
        if self._fire is not None and any(self._skip(self._fire)[1:]):
            raise RunFailedError(f"'{self._options.game}' is over as soon as FIRE is pressed")
        self._lives = self._ale.lives()
        return self._screen.observation(), {}

    def step(self, action: int) -> Result:
        """`frame_skip` frames of one action; where a life was lost, FIRE may begin the next."""
        reward, terminated, truncated = self._skip(action)
        # a game may stand at 0 lives for some frames before it is over (OpenAI baselines)
        lost = self._options.episodic_life and 0 < self._ale.lives() < self._lives
        if lost and self._fire is not None and not (terminated or truncated):
            more, terminated, truncated = self._skip(self._fire)
            reward += more
        self._lives = self._ale.lives()
        infos = {LOST_LIFE: lost, "lives": self._lives, "frames": self._frames}
        return self._screen.observation(), reward, terminated, truncated, infos

    @property
    def _frames(self) -> int:
        frames: int = self._ale.getEpisodeFrameNumber()
        return frames

    def _frame(self, action: int) -> tuple[float, bool, bool]:
        """One frame: its reward, and whether the game was over, or cut, after it."""
        _, reward, terminated, truncated, _ = self._env.step(action)
        return float(reward), terminated, truncated

    def _skip(self, action: int) -> tuple[float, bool, bool]:
        """The frames of a step: the sum of their rewards, and how the game stands."""
        total, frames = 0.0, self._options.frame_skip
        if frames > self._screen.depth:
            self._screen.forget()  # frames that are not drawn come between those and these
        for left in reversed(range(frames)):
            reward, terminated, truncated = self._frame(action)
            total += reward
            over = terminated or truncated
            if over or left < self._screen.depth:
                self._screen.draw()
            if over:
                break
        return total, terminated, truncated


def make(options: AtariRamOptions, lanes: int) -> GymVector:
    """See `MakeEnv`; what is observed is the screen for `AtariOptions` alone."""
    ale_py = needed("ale_py", "Atari", INSTALL)
    if isinstance(options, AtariOptions):
        needed("cv2", "Atari", INSTALL).setNumThreads(1)
    chosen = read_id(options.game)
    # said before the first emulator is made, or it prints a banner
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    one = partial(_one, needed("ale_py.env", "Atari", INSTALL), chosen, options)
    return vectorize([one] * lanes, options.game, options.about(_notes(options, chosen)))


def _screen(ale: Any, options: AtariRamOptions) -> Screen:
    if isinstance(options, AtariOptions):
        screens = Emulated(ale, options.greyscale)
        return Screen(screens, options.resize, pooled=options.max_pool)
    return Screen(Ram(ale), 0, pooled=False)


def _one(module: ModuleType, chosen: Id, options: AtariRamOptions) -> gym.Env[Any, Any]:
    ale_env = module.AtariEnv(
        chosen.rom,
        obs_type="ram",  # screens are read where they are wanted, not after every frame
        frameskip=1,
        repeat_action_probability=options.sticky_actions,
        full_action_space=options.full_action_space,
        max_num_frames_per_episode=0 if options.time_limit else MAX_FRAMES,
    )
    return limit(Atari(ale_env, options), options.time_limit)


def read_id(game: str) -> Id:
    """What an id says, once ale-py is imported; raises UsageError with the nearest for none.

    'Deterministic' ids are those of the old gym: no longer registered, they mean a skip of 4.
    """
    spec = gym.registry.get(game.replace("Deterministic-v", "-v"))
    if spec is None or spec.entry_point != ALE:
        raise UsageError(f"ALE knows no game '{game}'; {_meant(game)}")
    skip = 4 if "Deterministic-v" in game else spec.kwargs["frameskip"]
    return Id(spec.kwargs["game"], skip, spec.kwargs["repeat_action_probability"])


def _meant(game: str) -> str:
    """The newest id of the game whose name is nearest, whatever stands around the name."""
    ids = {
        name.removeprefix("ALE/").removesuffix("-v5"): name
        for name, spec in gym.registry.items()
        if spec.entry_point == ALE and name.startswith("ALE/")
    }
    stem = game.rpartition("/")[2].partition("-v")[0].removesuffix("-ram")  # as ids once were
    for kind in ("NoFrameskip", "Deterministic"):
        stem = stem.removesuffix(kind)
    close = nearest(stem, ids)
    return f"did you mean '{ids[close]}'?" if close else "its ids are of the kind 'ALE/Pong-v5'"


def _notes(options: AtariRamOptions, chosen: Id) -> dict[str, str]:
    """What an id says of its own, and has no effect."""
    notes = {}
    if chosen.skip != 1:
        notes["frame_skip"] = f"the id's own {chosen.skip} is off"
    if chosen.sticky != options.sticky_actions:
        notes["sticky_actions"] = f"the id's own {chosen.sticky} is off"
    if not options.time_limit:
        notes["time_limit"] = f"ALE's own {MAX_FRAMES:,} frames"
    return notes


def _fire_action(meanings: list[str], options: AtariRamOptions) -> int | None:
    """The action that begins a game, where it is wanted; raises UsageError where there is none."""
    if not options.fire_reset:
        return None
    if "FIRE" not in meanings:
        raise UsageError(f"'{options.game}' has no action FIRE; set --fire_reset false")
    return meanings.index("FIRE")
