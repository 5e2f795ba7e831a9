"""The serial runtime: everything in one process, exact and reproducible."""

from collections.abc import Callable
from dataclasses import asdict

from ..options import LoopOptions
from ..recorder import Display, Recorder
from ..report import Report
from ..rollout import Rollout
from ..run_folder import RunFolder
from ..train import Parts, train


def run(
    row: str,
    parts: Parts,
    options: LoopOptions,
    folder: RunFolder,
    display: Display,
    stop: Callable[[], bool],
) -> None:
    """Trains, reports and writes `result.json`.

    Whatever ends the run, the folder says so: `finished`, `interrupted` where `stop` said so, or
    `failed`, with the error raised on.
    """
    recorder, rollout = _set_up(parts, options, folder, display)
    status, report, error = "failed", Report(), ""

    def between_steps() -> bool:
        """Asked between any two steps, of evaluations too: shows the status, says when to stop."""
        recorder.status("running", rollout.episodes)
        return stop()

    try:
        rollout.begin(parts.seeds.integers("env", parts.env.lanes))
        train(parts, rollout, options, recorder, between_steps)
        recorder.save()
        report = Report.of(parts, recorder, options.eval_limit, between_steps)
        status = "interrupted" if stop() else "finished"
        recorder.say(f"{status} at step {parts.clock.step:,}{report.sentence()}: {folder.path}")
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
        recorder.say(f"the run failed: {raised}")
        raise
    finally:
        outcome = {"row": row, "seed": options.seed, "status": status, "error": error}
        infos = {key: asdict(value) for key, value in rollout.episodes.infos.items()}
        folder.write_result(outcome | recorder.summary() | report.as_dict() | {"infos": infos})
        recorder.status(status, rollout.episodes)
        recorder.close()
        parts.env.close()


def _set_up(
    parts: Parts, options: LoopOptions, folder: RunFolder, display: Display
) -> tuple[Recorder, Rollout]:
    """What writes the run down, and what collects; says what there is to know before it begins."""
    recorder = Recorder(folder, options, parts.agent, parts.memory, parts.clock, display)
    parts.voice.connect(recorder.say)
    actor = parts.agent.actor(parts.env.lanes, parts.seeds.generator("explore"))
    rollout = Rollout(parts.env, actor, parts.memory.writer())
    for line in filter(None, (parts.env.about, *parts.notes)):
        recorder.say(line)
    return recorder, rollout
