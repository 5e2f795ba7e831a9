"""Records real pixel streams, for benchmarks of what a memory takes: bytes and time.

    python -m benchmarks.recordings [GAME ...] [--steps N] [--seed S] [--folder DIR] [--again]

The games of `GAMES` are played through the project's own environments, one lane, by policies that
take no training. A recording is a folder of plain arrays, which is never committed; it holds one
episode after the other, the rows of each in order of time:

    frames.npy      uint8 [N, H, W] or [N, H, W, 3]   obs_i
    action.npy      int64 [N] or float32 [N, A]       action_i; in [-1, 1] where continuous
    reward.npy      float32 [N]                       reward_{i+1}
    terminated.npy  bool [N]                          terminated_{i+1}
    closing.npy     bool [N]                          whether the row is an episode's closing one

An episode of T steps fills T + 1 rows. The last is its closing row: it has the true last
observation and nothing else, its action and reward being 0. The episode that is under way as the
recording ends is cut there, and has its closing row too, as one that a time limit truncates: the
last row of a recording always closes, and N = steps + closing rows. `meta.json` says what was
played: the game, seed, steps, finished episodes, their mean return, the policy and the versions.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.lib.format import open_memmap

from core.envs import atari, gym
from core.envs.base import Env
from core.envs.options import AtariOptions, GymOptions
from core.errors import EngramError, UsageError
from core.names import did_you_mean
from core.types import OBS, Array, DiscreteActions

DEFAULT: Final = Path(__file__).parents[1] / ".bench" / "recordings"
COLUMNS: Final = ("frames", "action", "reward", "terminated", "closing")
META: Final = "meta.json"
PACKAGES: Final = ("gymnasium", "ale-py", "Box2D", "pygame-ce")
RENEWAL: Final = 0.25
"""Chance, each step, that a held action is replaced."""

Policy = Callable[[Array], Array]
"""From the frame `[H, W(, 3)]` to the action, an index or `[A]` numbers in [-1, 1]."""


class Game(NamedTuple):
    """A stream that can be recorded."""

    env: Callable[[], Env]
    policy: Callable[[Env, np.random.Generator], Policy]
    about: str
    """What the policy does, for `meta.json`."""
    steps: int
    """How many env steps are recorded unless the command says so."""


class Held:
    """Draws an action, and keeps it until chance replaces it: a random walk that gets somewhere."""

    def __init__(self, draw: Callable[[], Array], rng: np.random.Generator) -> None:
        self._draw = draw
        self._rng = rng
        self._action = draw()

    def __call__(self, frame: Array) -> Array:
        """The action held, whatever the frame shows."""
        if self._rng.random() < RENEWAL:
            self._action = self._draw()
        return self._action


def held_index(env: Env, rng: np.random.Generator) -> Policy:
    """Held actions of equal chance."""
    assert isinstance(env.spec.actions, DiscreteActions)
    count = env.spec.actions.n
    return Held(lambda: np.array(rng.integers(count)), rng)


def held_driver(env: Env, rng: np.random.Generator) -> Policy:
    """Held actions of CarRacing (steer, gas, brake): it steers at random, and seldom brakes."""

    def draw() -> Array:
        steer, gas = rng.uniform(-0.6, 0.6), rng.uniform(-0.8, 0.2)
        return np.array([steer, gas, -1.0 if rng.random() < 0.9 else -0.6], np.float32)

    return Held(draw, rng)


class Tracker:
    """Plays Breakout from its 84x84 picture: the paddle goes to where the ball will come down.

    Where no ball is seen below the bricks it presses FIRE, which serves one where there is none,
    and does nothing where it is among the bricks. A held offset of the paddle, within its width,
    sends the ball to different places.
    """

    NOOP, FIRE, RIGHT, LEFT = range(4)
    FIELD = (slice(38, 75), slice(5, 79))  # between the bricks, the walls and the paddle
    PADDLE = (slice(76, 77), slice(5, 79))

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._ball: tuple[float, float] | None = None
        self._offset = 0.0

    def __call__(self, frame: Array) -> Array:
        """The action towards where the ball is expected."""
        before, self._ball = self._ball, middle(frame[self.FIELD])
        paddle = middle(frame[self.PADDLE])
        if self._ball is None or paddle is None:
            return np.array(self.FIRE)
        if self._rng.random() < 0.05:
            self._offset = self._rng.uniform(-2.0, 2.0)
        gap = landing(before, self._ball, frame[self.FIELD].shape) + self._offset - paddle[1]
        if abs(gap) < 1.5:
            return np.array(self.NOOP)
        return np.array(self.RIGHT if gap > 0 else self.LEFT)


def middle(part: Array) -> tuple[float, float] | None:
    """Row and column of the middle of what is not black, by brightness; None where all is."""
    total = float(part.sum())
    if total == 0:
        return None
    rows, columns = (np.arange(size) for size in part.shape)
    return float(part.sum(1) @ rows) / total, float(part.sum(0) @ columns) / total


def landing(
    before: tuple[float, float] | None, ball: tuple[float, float], shape: tuple[int, ...]
) -> float:
    """The column where a falling ball leaves a field `[H, W]`; its own where that is not known.

    It flies straight on from one step to the next, and bounces off the side walls.
    """
    row, column = ball
    height, width = shape
    if before is None or row <= before[0]:
        return column
    steps = (height - row) / (row - before[0])
    folded = (column + steps * (column - before[1])) % (2 * width)
    return min(folded, 2 * width - folded)


def held_atari(game: str) -> Game:
    """A game of Atari, by the project's defaults, played at random."""
    return Game(
        lambda: atari.make(AtariOptions(game=game), 1),
        held_index,
        f"random actions, each kept until replaced (chance {RENEWAL} a step)",
        50_000,
    )


GAMES: Final = {
    "pong": held_atari("ALE/Pong-v5"),
    "seaquest": held_atari("ALE/Seaquest-v5"),
    "space_invaders": held_atari("ALE/SpaceInvaders-v5"),
    "breakout": Game(
        lambda: atari.make(AtariOptions(game="ALE/Breakout-v5"), 1),
        lambda env, rng: Tracker(rng),
        "a scripted player that follows the ball",
        50_000,
    ),
    "breakout_random": held_atari("ALE/Breakout-v5"),
    "carracing": Game(
        lambda: gym.make(GymOptions(game="CarRacing-v3"), 1),
        held_driver,
        f"random steering and gas, each kept until replaced (chance {RENEWAL} a step)",
        20_000,
    ),
}


class Rows:
    """A recording under way: its columns, so many rows at most; frames go to the disk at once."""

    def __init__(self, env: Env, folder: Path, most: int) -> None:
        obs, action = env.spec.observations[OBS], env.spec.actions.spec
        self._part = folder / "part.npy"
        self._count = 0
        self._columns: dict[str, Array] = {
            # rows that are never written take no room on the disk
            "frames": open_memmap(self._part, "w+", obs.dtype, (most, *obs.shape)),
            "action": np.zeros((most, *action.shape), action.dtype),
            "reward": np.zeros(most, np.float32),
            "terminated": np.zeros(most, np.bool_),
            "closing": np.zeros(most, np.bool_),
        }

    def add(self, **values: Any) -> None:
        """Appends a row; columns that are not named stay 0."""
        for name, value in values.items():
            self._columns[name][self._count] = value
        self._count += 1

    def settle(self, reward: float, terminated: bool) -> None:
        """What the action of the newest row led to."""
        self._columns["reward"][self._count - 1] = reward
        self._columns["terminated"][self._count - 1] = terminated

    def save(self, folder: Path) -> int:
        """Writes the columns, as long as they have become; gives their rows."""
        for name, column in self._columns.items():
            np.save(folder / f"{name}.npy", column[: self._count])
        self._part.unlink()
        return self._count


def play(env: Env, policy: Policy, rows: Rows, steps: int, seed: int) -> list[float]:
    """Plays so many steps in lane 0, into the rows; gives the returns of the finished episodes."""
    returns, total = [], 0.0
    frame = env.reset([seed])[OBS][0]
    for left in reversed(range(steps)):
        action = policy(frame)
        rows.add(frames=frame, action=action)  # before the step: the env uses its arrays again
        step = env.step(action[None])
        rows.settle(step.reward[0], step.terminated[0])
        total += float(step.reward[0])
        if step.ended[0] or not left:
            rows.add(frames=step.next_obs[OBS][0], closing=True)
        if step.ended[0]:
            returns.append(total)
            total = 0.0
        frame = step.obs[OBS][0]
    return returns


def record(name: str, game: Game, folder: Path, steps: int, seed: int) -> dict[str, Any]:
    """Plays a game and leaves its recording in `folder/name`; gives what `meta.json` says.

    An older recording is replaced once the new one is whole.
    """
    part = folder / f"{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    env = game.env()
    try:
        part.mkdir(parents=True)
        rows = Rows(env, part, 2 * steps)  # where every step is an episode
        # a generator of the seed alone would give the numbers that the env's own gives
        policy = game.policy(env, np.random.default_rng([seed, 1]))
        returns = play(env, policy, rows, steps, seed)
    finally:
        env.close()
    meta = {
        "game": name,
        "seed": seed,
        "steps": steps,
        "rows": rows.save(part),
        "episodes": len(returns),
        "mean_return": float(np.mean(returns)) if returns else None,
        "policy": game.about,
        "versions": versions(),
    }
    (part / META).write_text(json.dumps(meta, indent=1) + "\n")
    shutil.rmtree(folder / name, ignore_errors=True)
    part.rename(folder / name)
    return meta


def versions() -> dict[str, str]:
    """Of the packages that games come from, as far as they are installed."""
    installed = {dist.name: dist.version for dist in distributions()}
    return {name: installed[name] for name in PACKAGES if name in installed}


@dataclass(frozen=True)
class Recording:
    """The columns of a recording, read from the disk as they are used; see the module."""

    frames: Array
    action: Array
    reward: Array
    terminated: Array
    closing: Array
    meta: dict[str, Any]

    @classmethod
    def load(cls, game: str, folder: Path = DEFAULT) -> "Recording":
        """Opens a recording; raises UsageError with the command that makes it if it is missing."""
        meta = read_meta(game, folder)
        if meta is None:
            known(game)
            where = "" if folder == DEFAULT else f" --folder {folder}"
            raise UsageError(
                f"there is no recording of {game}; "
                f"make one with: python -m benchmarks.recordings {game}{where}"
            )
        columns = {name: np.load(folder / game / f"{name}.npy", mmap_mode="r") for name in COLUMNS}
        return cls(**columns, meta=meta)


def read_meta(game: str, folder: Path) -> dict[str, Any] | None:
    """What was recorded of a game, if anything was."""
    path = folder / game / META
    return json.loads(path.read_text()) if path.exists() else None


def known(game: str) -> str:
    """The name of a game of the table; raises UsageError with the nearest for another."""
    if game not in GAMES:
        raise UsageError(f"no game '{game}' can be recorded{did_you_mean(game, GAMES)}")
    return game


def suffices(meta: dict[str, Any], steps: int, seed: int) -> bool:
    """Whether a recording does for what is asked for: of that seed, and no shorter."""
    return bool(meta["steps"] >= steps and meta["seed"] == seed)


def line(meta: dict[str, Any], how: str) -> str:
    """A recording in a line."""
    mean = "none" if meta["mean_return"] is None else f"{meta['mean_return']:.1f}"
    return (
        f"{meta['game']:<16}{meta['steps']:>8,} steps{meta['episodes']:>6,} episodes, "
        f"mean return {mean:>6}, seed {meta['seed']}; {how}"
    )


def make_one(game: str, options: argparse.Namespace) -> str:
    """Records a game unless it stands there already; says what there is now."""
    steps = options.steps or GAMES[game].steps
    meta = read_meta(game, options.folder)
    if meta is not None and not options.again and suffices(meta, steps, options.seed):
        return line(meta, "kept")
    begun = time.perf_counter()
    meta = record(game, GAMES[game], options.folder, steps, options.seed)
    return line(meta, f"{time.perf_counter() - begun:.0f} s")


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What the command asks for."""
    parser = argparse.ArgumentParser(description="records pixel streams for benchmarks of memory")
    parser.add_argument("games", nargs="*", metavar="GAME", help=", ".join(GAMES))
    parser.add_argument("--steps", type=int, help="env steps a game (its own number)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=DEFAULT)
    parser.add_argument("--again", action="store_true", help="record what stands there already")
    options = parser.parse_args(argv)
    if options.steps is not None and options.steps < 1:
        parser.error("--steps has to be 1 or more")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Records what was asked for, a line a game."""
    options = arguments(argv)
    try:
        for game in [known(game) for game in options.games] or GAMES:
            print(make_one(game, options), flush=True)
    except EngramError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
