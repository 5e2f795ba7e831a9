"""The verbs, each as one function: flags in, parts built, a loop run, an exit code out."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from core.checkpoint import Checkpoints
from core.errors import UsageError
from core.options import Options, option
from core.run_folder import RunFolder, run_folder, write_json
from core.runtime.stopping import Stopper
from core.types import Tree

from .board import BoardOptions
from .board_view import ACTIONS
from .describe import may_change, truth
from .settings import Settings, chosen_classes, find_row, from_flags, resolve

if TYPE_CHECKING:
    from .video import Film

Flags = Mapping[str, str]


class PlayOptions(Options):
    """Flags of `test`."""

    weights: Literal["best", "last"] = option("best", help="which checkpoint to play")
    episodes: int = option(100, ge=1, unit="episodes", help="greedy episodes to play")
    device: str = option("", help="where the networks live, by default where the run had them")
    video: int = option(
        0,
        ge=0,
        le=100,
        unit="clips",
        help="the first so many episodes as mp4 in the run's videos/; --video alone: 3",
    )
    video_steps: int = option(
        3_000, ge=1, unit="env steps", help="a clip shows so many of its episode, at most"
    )
    runs: str = option("runs", help="folder that holds the runs")


class BoardFlags(BoardOptions):
    """Flags of `board`."""

    runs: str = option("runs", help="folder that holds the runs")
    stop: bool = option(False, help="end the visdom server that a run started")


class RunsOptions(Options):
    """The flag of verbs that find a run."""

    runs: str = option("runs", help="folder that holds the runs")


class ExportOptions(Options):
    """Flags of `export`."""

    to: Literal["minari", "hdf5"] = option(help="a Minari dataset, or one plain file")
    out: str = option("", help="where to; else memory.minari or memory.hdf5 in the run's folder")
    overwrite: bool = option(False, help="take the place of an export that is there")
    runs: str = option("runs", help="folder that holds the runs")


VERB_OPTIONS: Final[Mapping[str, type[Options]]] = {
    "test": PlayOptions,
    "board": BoardFlags,
    "export": ExportOptions,
}
"""The flags of the verbs that train nothing."""


def train_row(row: str, flags: Flags) -> int:
    """Trains a row of CONFIGS; gives the run's exit code."""
    settings = resolve(row, find_row(row), flags)
    # from the imports, which may lose an exception that a signal raises, to curves and board
    with Stopper() as stop:
        _train(settings, stop)
    return stop.exit_code


def resume_run(words: Sequence[str], flags: Flags) -> int:
    """Goes on with a run where it was saved; gives its exit code."""
    runs = {key: flags[key] for key in ("runs",) if key in flags}
    folder = find_run(
        words, from_flags(RunsOptions, runs).runs, "resume RUN [--steps N] [--key value]"
    )
    changed = {key: value for key, value in flags.items() if key not in runs}
    settings = saved_settings(folder, changed)
    with Stopper() as stop:
        checkpoint = Checkpoints(folder.checkpoints).load("last", partial(print, file=sys.stderr))
        if checkpoint["step"] >= settings.run.steps and folder.reported(checkpoint["step"]):
            raise UsageError(
                f"{folder.path.name} is at step {checkpoint['step']:,} of {settings.run.steps:,}: "
                "set --steps to go further"
            )
        _train(settings, stop, folder, checkpoint)
    return stop.exit_code


def _train(
    settings: Settings,
    stop: Stopper,
    folder: RunFolder | None = None,
    checkpoint: Tree | None = None,
) -> None:
    from core.runtime.serial import run

    from .assemble import build
    from .curves import draw
    from .terminal import Terminal

    row, seed = settings.row, settings.run.seed
    with run_folder(folder, Path(settings.run.runs), row, seed) as place:
        parts = build(settings, lambda: place().replay)
        stop.check()
        folder = place()

    from .worlds import action_names  # gymnasium, which a refusal does without

    folder.write_config(row, settings.flat())
    write_json(folder.live / ACTIONS, {"names": action_names(parts.env, settings.env.game)})
    terminal = Terminal(sys.stdout, folder.path, settings.board)
    terminal.say(f"{row}: writing {folder.path}")
    try:
        run(row, parts, settings.run, folder, terminal, stop, checkpoint)
    finally:
        try:
            draw(folder.progress, folder.path / "curves.png")
        except Exception as error:  # a picture that fails hides no error of the run
            terminal.say(f"curves.png could not be drawn: {error}")
        terminal.close()


def plan_row(words: Sequence[str], flags: Flags) -> int:
    """Says what a row would take and hold; exit code 2 where that does not fit."""
    if len(words) != 1:
        raise UsageError("usage: python main.py plan ROW [--json] [--key value ...]")
    keys = {key: value for key, value in flags.items() if key != "json"}
    settings = resolve(words[0], find_row(words[0]), keys)

    from .advice import advice
    from .assemble import prepare
    from .planning import plan_run

    players, context = prepare(settings)
    with closing(players.env):
        plan, context = plan_run(settings, players, context)
    advised = advice(settings, context, plan.holds)
    if truth(flags.get("json", "false")):
        print(json.dumps(plan.as_dict() | {"advice": advised}))
    else:
        print("\n".join([*plan.lines(), *filter(None, [advised])]))
    if not plan.fits:
        print(f"engram: {plan.refusal()}", file=sys.stderr)
    return 0 if plan.fits else UsageError.exit_code


def test_run(words: Sequence[str], flags: Flags) -> int:
    """Plays a run's best weights, or with `--weights last` its newest, on fresh episodes."""
    options = from_flags(PlayOptions, flags)
    folder = find_run(words, options.runs, "test RUN [--weights best|last] [--episodes N]")
    settings = saved_settings(folder, {"device": options.device} if options.device else None)
    tell = partial(print, file=sys.stderr)
    checkpoint = Checkpoints(folder.checkpoints).load(options.weights, tell)

    from core.report import play

    from .assemble import prepare

    film = _film(options, folder, settings, checkpoint["step"]) if options.video else None
    players, _ = prepare(settings)
    with closing(players.env), ExitStack() as stack:
        if film is not None:
            filming = film.filming(players.make_eval_env, settings.env.game)
            players = replace(players, make_eval_env=stack.enter_context(filming))
        limit = settings.run.eval_limit
        score = play(players, checkpoint["weights"], options.episodes, limit, lambda: False)
    if score is not None:
        print(
            f"{folder.path.name}: {options.weights} weights, step {checkpoint['step']}: return "
            f"{score.mean:.2f} +- {score.std:.2f} over {len(score.returns)} episodes"
        )
    for _, path in sorted(film.made.items()) if film is not None else ():
        print(path)
    return 0


def _film(options: PlayOptions, folder: RunFolder, settings: Settings, step: int) -> "Film":
    from .video import Film

    return Film(
        folder.path / "videos",
        f"{options.weights}-step-{step}",
        min(options.video, options.episodes),
        options.video_steps,
        settings.run.eval_limit,
    )


def board(words: Sequence[str], flags: Flags) -> int:
    """Posts a run again, or ends the server that a run started."""
    from .board import post, stop_server

    options = from_flags(BoardFlags, flags)
    if options.stop:
        return stop_server(options)
    return post(find_run(words, options.runs, "board RUN, or board --stop").path, options)


def find_run(words: Sequence[str], runs: str, usage: str) -> RunFolder:
    """The run that the words name, and nothing beside it; raises UsageError for anything else."""
    if len(words) != 1:
        raise UsageError(f"usage: python main.py {usage}")
    return RunFolder.find(Path(runs), words[0])


def saved_settings(folder: RunFolder, flags: Flags | None = None) -> Settings:
    """The row of a run, with every key as it was then but for flags of keys that may change."""
    config = folder.config()
    options = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in config["options"].items()
    }
    models = chosen_classes(config["options"], f"in {folder.path.name}").values()
    changeable = [k for m in models for k, field in m.model_fields.items() if may_change(field)]
    for key in flags or {}:
        if key in options and key not in changeable:
            raise UsageError(
                f"'{key}' of a run that goes on cannot change; what can: {', '.join(changeable)}"
            )
    return resolve(config["row"], options, flags or {})
