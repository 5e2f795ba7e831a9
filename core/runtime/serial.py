"""The serial runtime: everything in one process, exact and reproducible."""

from dataclasses import asdict

from ..options import LoopOptions
from ..recorder import Display, Recorder
from ..report import Report
from ..rollout import Rollout
from ..run_folder import RunFolder
from ..train import Parts, train
from .stopping import Stopper


def run(row: str, parts: Parts, options: LoopOptions, folder: RunFolder, display: Display) -> int:
    """Trains, reports and writes `result.json`; gives the exit code.

    Whatever ends the run, the folder says so: `finished`, `interrupted` (exit 128 + signal), or
    `failed`, with the error raised on.
    """
    seeds = parts.seeds
    recorder = Recorder(folder, options, parts.agent, parts.memory, parts.clock, display)
    actor = parts.agent.actor(parts.env.lanes, seeds.generator("explore"))
    first = seeds.integers("env", parts.env.lanes)
    rollout = Rollout(parts.env, actor, parts.memory.writer(), first)
    status, report, error = "failed", Report(), ""
    with Stopper() as stop:
        try:
            train(parts, rollout, options, recorder, stop)
            recorder.save()
            report = Report.of(parts, recorder, options.eval_limit, stop)
            status = "interrupted" if stop() else "finished"
            recorder.say(f"{status} at step {parts.clock.step:,}{report.sentence()}: {folder.path}")
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
            recorder.say(f"the run failed: {raised}")
            raise
        finally:
            infos = {key: asdict(value) for key, value in rollout.episodes.infos.items()}
            outcome = {"row": row, "seed": options.seed, "status": status, "error": error}
            folder.write_result(outcome | recorder.summary() | report.as_dict() | {"infos": infos})
            recorder.status(status, rollout.episodes)
            recorder.close()
            parts.env.close()
    return stop.exit_code
