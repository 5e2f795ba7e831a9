"""A row's plan: what it will take here, found out by a look at its environment."""

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from core.errors import UsageError
from core.limits import usable_memory
from core.memory import MemoryContext, MemoryOptions, Plan
from core.memory_watch import private_bytes
from core.preview import Preview, preview
from core.row_memory import RingMemory
from core.run_plan import SMALLER, Holds, Machine, MakePlan, RunPlan, fits, most_envs, remedies
from core.sizes import size_of
from core.train import Players, eval_lanes
from core.types import Columns, Unit

from .factory import component, resolve_name
from .options import RunOptions
from .settings import Settings

MARGIN: Final = 8_000_000
"""Bytes that what is advised leaves free: the same run takes some more or less each time."""
LEARNING: Final = 3 * 4
"""Bytes that learning adds to a number of the policy: its gradient, and two moments of Adam's."""


def plan_run(
    settings: Settings, players: Players, context: MemoryContext
) -> tuple[RunPlan, MemoryContext]:
    """The plan of a row whose players stand ready; and what its memory is built from."""
    run, options = settings.run, settings.memory
    keeper = resolve_name(component("memory_type", run.memory_type).target)
    seen, an_env = _look(players, keeper.pictures(options, context))
    context = replace(context, forecasts=keeper.forecast(options, context, seen.frames))
    seen = replace(seen, frames={})  # tens of megabytes, which would count as the run's
    machine = _machine(settings, context, an_env)
    make = _planner(keeper, run, context)
    plan = make(options, run.num_envs)
    saved = run.checkpoint_memory and issubclass(keeper, RingMemory)
    found = RunPlan(
        row=settings.row,
        memory=plan,
        limit=options.memory_limit,
        tier=getattr(options, "storage", "heap"),
        machine=machine,
        max_num_envs=most_envs(options, make, machine, run.num_envs),
        holds=_holds(settings, plan, seen, context),
        key="memory_bytes" if getattr(options, "memory_bytes", 0) else "memory_limit",
        remedies=() if fits(plan, machine) else _helps(keeper, settings, context, players, machine),
        saved=saved,
    )
    return found, context


def _planner(keeper: Any, run: RunOptions, context: MemoryContext) -> MakePlan:
    def make(options: MemoryOptions, lanes: int) -> Plan:
        shared = context.shared.model_copy(update={"num_envs": lanes})
        plan: Plan = keeper.plan(options, replace(context, shared=shared))
        _check_reach(run, options, min(plan.rows_full, keeper.most_units(options, shared)))
        return plan

    return make


def _helps(
    keeper: Any, settings: Settings, context: MemoryContext, players: Players, machine: Machine
) -> tuple[str, ...]:
    """What would make it fit; for that, raw pictures are judged as if they were compressed."""
    options, run = settings.memory, settings.run
    if not keeper.pictures(options, context):
        context = replace(context, forecasts=_if_smaller(keeper, options, context, players))
    tighter = replace(machine, other=machine.other + MARGIN)
    return tuple(remedies(options, _planner(keeper, run, context), tighter, run.num_envs))


def _disk_free(runs: Path) -> int:
    """Bytes free where a run's folder will be."""
    there = next(path for path in (runs.absolute(), *runs.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free


def _check_reach(run: RunOptions, options: MemoryOptions, units: int) -> None:
    """Refuses a memory that will never hold what the first update asks for."""
    wanted = max(run.learn_start, run.batch_size)
    if units < wanted:
        raise UsageError(
            f"memory_bytes {size_of(getattr(options, 'memory_bytes', 0))} hold about {units:,} "
            f"units, fewer than learn_start {run.learn_start} or batch_size {run.batch_size}"
        )


def _look(players: Players, pictures: tuple[str, ...]) -> tuple[Preview, int]:
    """A little play in an environment of its own, and the bytes that one takes."""
    before = private_bytes()
    try:
        env = players.make_eval_env(1)
    except Exception:  # a world that can be there only once: the run has it
        return Preview(0, 0, 0, {}), 0
    with closing(env):
        an_env = max(private_bytes() - before, 0)
        return preview(env, players.seeds, pictures), an_env


def _if_smaller(
    keeper: Any, options: MemoryOptions, context: MemoryContext, players: Players
) -> dict[str, float]:
    """What pictures would take that are not compressed yet."""
    smaller = options.model_copy(update=SMALLER)
    pictures = keeper.pictures(smaller, context)
    frames: Columns = _look(players, pictures)[0].frames if pictures else {}
    forecasts: dict[str, float] = keeper.forecast(smaller, context, frames)
    return forecasts


def _machine(settings: Settings, context: MemoryContext, an_env: int) -> Machine:
    """What may be taken, and what is, beside the memory."""
    run = settings.run
    taken = private_bytes()
    left = usable_memory()
    usable, by = left.bytes + taken, left.by
    if run.memory_cap:
        usable, by = int(run.memory_cap), "memory_cap"
    other = taken + LEARNING * context.parameters + eval_lanes(run) * an_env
    if run.runtime == "parallel":  # a collector imports what this process did
        other += run.num_collectors * taken
    return Machine(usable, by, other, an_env, _disk_free(Path(run.runs)))


def _holds(settings: Settings, plan: Plan, seen: Preview, context: MemoryContext) -> Holds:
    run, steps = settings.run, plan.rows_full
    length, a_step = seen.episode_steps, context.env.step_seconds
    a_batch = run.batch_size * (run.trajectory_length if context.unit is Unit.TRAJECTORIES else 1)
    return Holds(
        steps=steps,
        batches=steps / a_batch,
        episodes=steps / (length + 1) if length else None,
        hours=steps * a_step / 3600 if a_step else None,
    )
