"""The verbs `export` and `import`: a run's memory into a file, and a run begun with one."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from core.checkpoint import Checkpoints
from core.errors import UsageError
from core.exchange.episodes import Held, RingEpisodes
from core.exchange.files import check_free, export, open_episodes, require, verify
from core.exchange.fill import fill
from core.exchange.header import Header
from core.exchange.sums import Summed
from core.memory_log import MemoryLog
from core.row_memory import RingMemory
from core.run_folder import RunFolder, run_folder
from core.train import Parts

from .commands import ExportOptions, Flags, find_run, saved_settings
from .factory import component, resolve_name
from .settings import Settings, find_row, from_flags, resolve

IMPORT_USAGE = "usage: python main.py import FILE ROW [--key value ...]"
HERE = {"device": "cpu", "checkpoint_memory": "false"}
"""What a run that is only read needs of this machine: no accelerator, no room for checkpoints."""


def export_run(words: Sequence[str], flags: Flags) -> int:
    """Writes what a run's memory held at its newest checkpoint."""
    usage = "export RUN --to minari|hdf5 [--out PATH] [--overwrite] [--runs FOLDER]"
    options = from_flags(ExportOptions, flags)
    folder = find_run(words, options.runs, usage)
    require(options.to)
    _check_stopped(folder)
    settings = saved_settings(folder, HERE)
    _check_steps(settings, f"run '{folder.path.name}'")
    path = Path(options.out) if options.out else folder.path / f"memory.{options.to}"
    check_free(path, options.to, options.overwrite)  # before anything is loaded
    parts, step = _built_again(settings, folder)
    with closing(parts.env):
        source = RingEpisodes(_ring_memory(parts).ring, parts.env.spec)
        observed = getattr(parts.env, "observation_space", None)
        about = _about(folder, settings, step)
        sums = export(
            source, path, options.to, about, overwrite=options.overwrite, observed=observed
        )
    print(f"{path}: {_counted(source.held)}, read again and the same; content {sums.content}")
    return 0


def import_file(words: Sequence[str], flags: Flags) -> int:
    """Begins a run whose memory holds what a file holds."""
    if len(words) != 2:
        raise UsageError(IMPORT_USAGE)
    path, row = Path(words[0]), words[1]
    settings = resolve(row, find_row(row), flags)
    _check_steps(settings, f"row '{row}'")
    if not settings.run.checkpoint_memory:
        raise UsageError("checkpoint_memory false would lose what is imported: leave it true")
    with closing(open_episodes(path)) as file:
        source = Summed(file)
        folder, parts, left_out = _begun(settings, source, file.header, path)
    held = RingEpisodes(_ring_memory(parts).ring, parts.env.spec).held
    print(
        f"{folder.path}: {_counted(source.held)} taken from {path}{_said(left_out)}; the memory "
        f"holds {_counted(held)}"
    )
    print(f"it begins with: python main.py resume {folder.path}")
    return 0


def _check_stopped(folder: RunFolder) -> None:
    """Refuses a run that is still going: it lets go of what is being read."""
    path = folder.live / "status.json"
    try:
        status = json.loads(path.read_text())
        begun = psutil.Process(status["pid"]).create_time()
    except (OSError, ValueError, KeyError, psutil.Error):
        return
    # a process that began after the last word of the run has its number by chance
    if status["state"] == "running" and begun <= path.stat().st_mtime:
        raise UsageError(
            f"{folder.path.name} is still running, as process {status['pid']}: stop it first, and "
            "`resume` it afterwards"
        )


def _check_steps(settings: Settings, whose: str) -> None:
    name = settings.run.memory_type
    if not issubclass(resolve_name(component("memory_type", name).target), RingMemory):
        raise UsageError(f"the memory of {whose}, '{name}', keeps no steps of episodes")


def _ring_memory(parts: Parts) -> RingMemory:
    assert isinstance(parts.memory, RingMemory)  # as `_check_steps` saw to
    return parts.memory


def _built_again(settings: Settings, folder: RunFolder) -> tuple[Parts, int]:
    """A run's parts, with the memory of its newest checkpoint, and the step of that."""
    say = partial(print, file=sys.stderr)
    step = int(Checkpoints(folder.checkpoints).load("last", say)["step"])
    lost = UsageError(
        f"{folder.path.name} did not save its memory, so that there is none to export"
    )
    if not folder.replay.is_dir():
        raise lost

    from .assemble import build

    parts = build(settings, lambda: folder.replay)
    try:
        with closing(MemoryLog(_ring_memory(parts), folder.replay)) as log:
            if log.load(say, lambda extra: bool(extra["step"] == step)) is None:
                raise lost
    except BaseException:
        parts.env.close()
        raise
    return parts, step


def _about(folder: RunFolder, settings: Settings, step: int) -> dict[str, Any]:
    """Where a file's episodes come from."""
    run = settings.run
    names = {"row": settings.row, "agent_type": run.agent_type, "env_type": run.env_type}
    return {"run": folder.path.name, "step": step, **names, "game": settings.env.game}


def _filled(
    parts: Parts, settings: Settings, source: Summed, header: Header, path: Path
) -> Mapping[int, Held]:
    """Fills the memory; gives the episodes that were left out."""
    memory = _ring_memory(parts)
    wanted = RingEpisodes(memory.ring, parts.env.spec).space
    if differences := source.space.differences(wanted, "there", "here"):
        raise UsageError(f"'{path}' does not fit row '{settings.row}': {'; '.join(differences)}")
    left_out = fill(memory, source, settings.run.window_length)
    verify(source, header, path)
    memory.check()
    return {number: source.held[number] for number in left_out}


def _begun(
    settings: Settings, source: Summed, header: Header, path: Path
) -> tuple[RunFolder, Parts, Mapping[int, Held]]:
    """A run's folder, from which `resume` goes on; nothing is left of one that fails."""
    from core.runtime.serial import save

    from .assemble import build

    row, run = settings.row, settings.run
    with run_folder(None, Path(run.runs), row, run.seed) as place:
        parts = build(settings, lambda: place().replay)
        with closing(parts.env):
            left_out = _filled(parts, settings, source, header, path)
            folder = place()
            folder.write_config(row, settings.flat())
            save(parts, run, folder, _Lines())
    return folder, parts, left_out


class _Lines:
    """A display of lines alone."""

    def update(self, status: Mapping[str, Any]) -> None:
        """See `Display.update`."""

    def say(self, line: str) -> None:
        """See `Display.say`."""
        print(line)


def _counted(held: Sequence[Held]) -> str:
    return f"{len(held):,} episodes, {sum(one.steps for one in held):,} steps"


def _said(left_out: Mapping[int, Held]) -> str:
    if not left_out:
        return ""
    return (
        f", but for {_counted(list(left_out.values()))} that lost their first rows and would each "
        "have to begin a lane: set --num_envs"
    )
