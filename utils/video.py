"""Clips of a test: its first episodes as mp4, drawn as they are played and streamed to an encoder.

gymnasium's own recorder holds all frames of a clip until its episode ends, writes under the final
name, and says that an environment cannot be drawn when the run is over (Gymnasium issues 1377 and
560). Here a frame is gone as soon as it is handed on, a clip gets its name once it is whole, and
what cannot be filmed is refused before the first step.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final

import gymnasium as gym
import psutil

from core.envs.base import Env
from core.envs.lanes import Lanes
from core.errors import RunFailedError, UsageError
from core.types import Array

from .painting import screen
from .worlds import Painter, lanes_of, painter_of

INSTALL: Final = "pip install -r requirements-video.txt"
RATE: Final = 15.0
"""Frames a second where the environment does not say how long a step lasts."""
H264: Final = ("-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-threads", "1")
"""What every browser and player shows."""
MakeEnv = Callable[[int], Env]


def encoder() -> str:
    """The path of ffmpeg. Raises UsageError, with what to install, where there is none."""
    with suppress(ImportError, RuntimeError):
        return str(import_module("imageio_ffmpeg").get_ffmpeg_exe())
    if (path := shutil.which("ffmpeg")) is None:
        raise UsageError(f"--video needs the encoder ffmpeg: {INSTALL}")
    return path


class Clip:
    """One file being written: frames go to ffmpeg, in a process of its own, and are not kept."""

    def __init__(self, exe: str, path: Path, rate: float) -> None:
        self._path, self._exe, self._rate = path, exe, rate
        self._shape: tuple[int, ...] = ()
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self.frames = 0

    def add(self, frame: Array) -> None:
        """Appends a frame, `[H, W, 3]` uint8. Raises RunFailedError where it cannot be written."""
        if self._process is None:
            self._shape, self._process = frame.shape, self._start(*frame.shape[:2])
        if frame.shape != self._shape:
            raise RunFailedError(f"a clip of {self._shape} cannot take a frame of {frame.shape}")
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(frame.data)
        except OSError:
            raise self._failure() from None
        self.frames += 1

    def _start(self, height: int, width: int) -> "subprocess.Popen[bytes]":
        picture = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}")
        source = (*picture, "-r", f"{self._rate:g}", "-i", "-")
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  it is closed as the encoder is let go
        target = (*H264, "-movflags", "+faststart", "-f", "mp4", str(self._path))
        return subprocess.Popen(
            [self._exe, "-loglevel", "error", "-y", *source, *target],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._said,  # a file: nobody reads along
            start_new_session=True,  # Ctrl-C is for us
        )

    def finish(self) -> None:
        """Ends the file. Raises RunFailedError where it is not whole."""
        if self._process is None or self._process.stdin is None:
            return
        with suppress(OSError):  # what it could not take, its exit code tells
            self._process.stdin.close()
        if self._process.wait():
            raise self._failure()
        self._release()

    def discard(self) -> None:
        """Ends it, and leaves no file."""
        if self._process is not None:
            self._process.kill()
            self._release()
        self._path.unlink(missing_ok=True)

    def keep(self, path: Path) -> None:
        """Gives the finished file its name."""
        self._path.replace(path)

    def _failure(self) -> RunFailedError:
        assert self._process is not None and self._said is not None
        self._process.kill()
        self._process.wait()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip().splitlines()
        self.discard()
        return RunFailedError(f"the clip could not be written: {said[-1] if said else 'no reason'}")

    def _release(self) -> None:
        assert self._process is not None and self._said is not None
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        self._process.wait()
        self._said.close()
        self._process = None


@dataclass
class Film:
    """Films the first `clips` episodes of an evaluation into `folder`, `steps` of each at most.

    Episode e is played in lane e mod L, as `evaluate` shares them out; those of the first L begin
    with the seed in their name, later ones go on in their lane. `limit` is where the evaluation
    cuts an episode. What is played is the same as without a film: drawing changes nothing.
    """

    folder: Path
    name: str
    clips: int
    steps: int
    limit: int
    exe: str = field(default_factory=encoder)
    made: dict[int, Path] = field(default_factory=dict)
    """Finished clips by episode."""

    @contextmanager
    def filming(self, make_env: MakeEnv, game: str) -> Iterator[MakeEnv]:
        """Makes environments as `make_env` does, which are filmed within the block.

        Raises UsageError at once where nothing can be filmed.
        """
        self._check(make_env, game)
        opened: list[Filmed] = []

        def make(count: int) -> Env:
            env = make_env(count)
            lanes = _lanes(env, game)
            rate = 1 / env.spec.step_seconds if env.spec.step_seconds else RATE
            for lane, inner in enumerate(lanes.envs[: self.clips]):
                filmed = Filmed(inner, self, range(lane, self.clips, count), rate, game)
                opened.append(filmed)
                lanes.envs[lane] = filmed
            return env

        try:
            yield make
        finally:
            for filmed in opened:
                filmed.discard()

    def clip(self, episode: int, rate: float) -> Clip:
        """A new clip under a name that says it is not whole."""
        return Clip(self.exe, self.folder / f".clip-{os.getpid()}-{episode}.tmp", rate)

    def keep(self, clip: Clip, episode: int, seed: int | None, total: float) -> None:
        """Names a finished clip."""
        name = f"{self.name}-episode-{episode:03d}-seed-{seed}-return{total:+.2f}.mp4"
        clip.keep(self.folder / name)
        self.made[episode] = self.folder / name

    def _check(self, make_env: MakeEnv, game: str) -> None:
        """Films one frame, of which nothing stays. Raises UsageError where it cannot."""
        self.folder.mkdir(exist_ok=True)
        self._sweep()
        clip = self.clip(0, RATE)
        try:
            with closing(make_env(1)) as env:
                world = _lanes(env, game).envs[0]
                obs, _ = world.reset(seed=0)
                clip.add(screen(painter_of(world, game)(obs)))
            clip.finish()
        except UsageError:
            raise
        except Exception as error:  # whatever a stranger's drawing raises
            raise UsageError(f"'{game}' cannot be filmed: {error}") from None
        finally:
            clip.discard()

    def _sweep(self) -> None:
        """Removes what a test that was killed has left."""
        for path in self.folder.glob(".clip-*.tmp"):
            pid = path.name.split("-")[1]
            if not (pid.isdigit() and psutil.pid_exists(int(pid))):
                path.unlink(missing_ok=True)


class Filmed(gym.Wrapper[Any, Any, Any, Any]):
    """A lane of an evaluation, some of whose episodes are filmed."""

    def __init__(
        self, env: gym.Env[Any, Any], film: Film, episodes: range, rate: float, game: str
    ) -> None:
        super().__init__(env)
        self._film, self._rate = film, rate
        self._episodes = iter(episodes)
        self._paint: Painter = painter_of(env, game)
        self._clip: Clip | None = None
        self._episode = 0
        self._seed: int | None = None
        self._total, self._steps = 0.0, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode, and a clip where it is one of those wanted."""
        self.discard()
        obs, infos = self.env.reset(seed=seed, options=options)
        self._seed = self._seed if seed is None else seed
        self._total, self._steps = 0.0, 0
        if (episode := next(self._episodes, None)) is not None:
            self._episode, self._clip = episode, self._film.clip(episode, self._rate)
            self._see(obs)
        return obs, infos

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps, and hands on what there is to see."""
        obs, reward, terminated, truncated, infos = self.env.step(action)
        if self._clip is not None:
            self._total += float(reward)
            self._steps += 1
            if self._clip.frames < self._film.steps + 1:
                self._see(obs)
            if terminated or truncated or self._steps >= self._film.limit:
                self._finish(self._clip)
        return obs, reward, terminated, truncated, infos

    def _see(self, obs: Any) -> None:
        assert self._clip is not None
        self._clip.add(screen(self._paint(obs)))
        if self._clip.frames == self._film.steps + 1:
            self._clip.finish()  # it is as long as it may be, and waits for its return

    def _finish(self, clip: Clip) -> None:
        clip.finish()
        self._film.keep(clip, self._episode, self._seed, self._total)
        self._clip = None

    def discard(self) -> None:
        """Lets go of a clip whose episode did not end."""
        if self._clip is not None:
            self._clip.discard()
            self._clip = None


def _lanes(env: Env, game: str) -> Lanes:
    if (lanes := lanes_of(env)) is None:
        raise UsageError(f"'{game}' cannot be filmed: its lanes are not gymnasium environments")
    return lanes
