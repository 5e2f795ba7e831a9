"""A run from its first step to its last.

Serial: everything in one process, exact and reproducible. Parallel: collectors step the
environments, and this process learns.
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from ..blas import limit_threads
from ..errors import UsageError
from ..options import LoopOptions
from ..recorder import Display, Recorder
from ..report import Report
from ..rollout import Collecting, Rollout
from ..run_folder import RunFolder
from ..saving import Past, Saver, open_log, take_up
from ..train import Parts, train
from ..types import Tree

RESUMED: Final = 2
"""The branch of seeds of episodes that begin because a run was taken up."""


def run(
    row: str,
    parts: Parts,
    options: LoopOptions,
    folder: RunFolder,
    display: Display,
    stop: Callable[[], bool],
    checkpoint: Tree | None = None,
) -> None:
    """Trains, reports and writes `result.json`; with a checkpoint, goes on from there.

    Whatever ends the run, the folder says so: `finished`, `interrupted` where `stop` said so, or
    `failed`, with the error raised on.
    """
    limit_threads(options.threads)
    log = open_log(parts.memory, options, folder)
    past = None if checkpoint is None else take_up(parts, checkpoint, log, display.say)
    recorder, rollout = _set_up(parts, options, folder, display, past)
    saver = Saver(parts, rollout, recorder, log)
    status, report, error = "failed", Report(), ""

    between = partial(_between_steps, recorder, rollout, stop)
    try:
        _begin(parts, rollout, recorder, past)
        train(parts, rollout, options, recorder, between, saver)
        rollout.close()
        report = Report.of(parts, recorder, options.eval_limit, between)
        status = "interrupted" if stop() else "finished"
        recorder.say(f"{status} at step {parts.clock.step:,}{report.sentence()}: {folder.path}")
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
        recorder.say(f"the run failed: {raised}")
        raise
    finally:
        rollout.close()
        outcome = {"row": row, "seed": options.seed, "status": status, "error": error}
        _end(outcome, saver, report, folder)


def _between_steps(recorder: Recorder, rollout: Collecting, stop: Callable[[], bool]) -> bool:
    """Asked between any two steps, of evaluations too: shows the status, says when to stop."""
    recorder.status("running", rollout.episodes)
    rollout.check()
    return stop()


def save(parts: Parts, options: LoopOptions, folder: RunFolder, display: Display) -> None:
    """Saves a run before its first step, with what its memory holds: `run` goes on from there."""
    log = open_log(parts.memory, options, folder)
    recorder, rollout = _set_up(parts, options, folder, display, None)
    try:
        Saver(parts, rollout, recorder, log).save()
    finally:
        recorder.close()
        if log is not None:
            log.close()


def _end(outcome: dict[str, Any], saver: Saver, report: Report, folder: RunFolder) -> None:
    """Writes down how a run ended, and closes what it held."""
    recorder, episodes = saver.recorder, saver.rollout.episodes
    infos = {key: asdict(value) for key, value in episodes.infos.items()}
    own = saver.rollout.summary()
    folder.write_result(outcome | recorder.summary() | own | report.as_dict() | {"infos": infos})
    recorder.status(outcome["status"], episodes)
    recorder.close()
    if saver.log is not None:
        saver.log.close()
    saver.parts.env.close()


def _begin(parts: Parts, rollout: Collecting, recorder: Recorder, past: Past | None) -> None:
    """Begins the first episodes, or takes up those that were open."""
    lanes, seeds = parts.env.lanes, parts.seeds
    if past is None:
        rollout.begin(seeds.integers("env", lanes))
        return
    step = parts.clock.step
    exact = rollout.resume(past.rollout, seeds.integers("env", lanes, RESUMED, step))
    recorder.say(f"going on from step {step:,}")
    if not exact:
        recorder.say(
            "the open episodes cannot go on: they end there, truncated, and new ones begin"
        )


def _set_up(
    parts: Parts, options: LoopOptions, folder: RunFolder, display: Display, past: Past | None
) -> tuple[Recorder, Collecting]:
    """What writes the run down, and what collects; says what there is to know before it begins."""
    written = None if past is None else past.recorder
    recorder = Recorder(folder, options, parts.agent, parts.memory, parts.clock, display, written)
    parts.voice.connect(recorder.say)
    for line in filter(None, (parts.env.about, *parts.notes)):
        recorder.say(line)
    try:
        return recorder, _collecting(parts, options, recorder.say)
    except MemoryError as error:  # shared memory is taken at once
        recorder.close()
        raise UsageError(str(error)) from None


def _collecting(parts: Parts, options: LoopOptions, say: Callable[[str], None]) -> Collecting:
    """What steps the environments: this process, or others."""
    if options.runtime == "parallel" and parts.make_player is not None:
        from .collectors import Collectors  # multiprocessing, only where it is wanted

        return Collectors(parts.make_player, parts.agent, parts.memory, parts.seeds, options, say)
    actor = parts.agent.actor(parts.env.lanes, parts.seeds.generator("explore"))
    return Rollout(parts.env, actor, parts.memory.writer())
