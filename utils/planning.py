"""A row's plan: what it will take here, found out by a look at its environment."""

from contextlib import closing
from dataclasses import replace
from typing import Any, Final

from core.errors import UsageError
from core.limits import usable_memory
from core.memory import MemoryContext, MemoryOptions, Plan
from core.memory_watch import private_bytes
from core.preview import Preview, preview
from core.run_plan import SMALLER, Holds, Machine, RunPlan, fits, most_envs, remedies
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
    pictures = keeper.pictures(options, context)
    seen, an_env = _look(players, pictures)
    context = replace(context, forecasts=keeper.forecast(options, context, seen.frames))
    machine = _machine(settings, context, an_env)

    def make(options: MemoryOptions, lanes: int) -> Plan:
        shared = context.shared.model_copy(update={"num_envs": lanes})
        plan: Plan = keeper.plan(options, replace(context, shared=shared))
        _check_reach(run, options, plan)
        return plan

    plan = make(options, run.num_envs)
    helps: tuple[str, ...] = ()
    if not fits(plan, machine):
        if not pictures:
            context = replace(context, forecasts=_if_smaller(keeper, options, context, players))
        tighter = replace(machine, other=machine.other + MARGIN)
        helps = tuple(remedies(options, make, tighter, run.num_envs))
    bounded = getattr(options, "memory_bytes", 0)
    found = RunPlan(
        row=settings.row,
        memory=plan,
        limit=options.memory_limit,
        tier="heap",
        machine=machine,
        max_num_envs=most_envs(options, make, machine, run.num_envs),
        holds=_holds(settings, plan, seen, context, keeper.gives),
        key="memory_bytes" if bounded else "memory_limit",
        remedies=helps,
    )
    return found, context


def _check_reach(run: RunOptions, options: MemoryOptions, plan: Plan) -> None:
    """Refuses a memory that will never hold what the first update asks for."""
    wanted = max(run.learn_start, run.batch_size)
    if plan.rows_full < wanted:
        raise UsageError(
            f"memory_bytes {size_of(getattr(options, 'memory_bytes', 0))} hold about "
            f"{plan.rows_full:,} rows, and learn_start {run.learn_start} and batch_size "
            f"{run.batch_size} are never reached"
        )


def _look(players: Players, pictures: tuple[str, ...]) -> tuple[Preview, int]:
    """A little play in an environment of its own, and the bytes that one takes."""
    before = private_bytes()
    with closing(players.make_eval_env(1)) as env:
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
    return Machine(usable, by, other, an_env)


def _holds(
    settings: Settings, plan: Plan, seen: Preview, context: MemoryContext, gives: Unit
) -> Holds:
    run, steps = settings.run, plan.rows_full
    length, a_step = seen.episode_steps, context.env.step_seconds
    a_batch = run.batch_size * (run.trajectory_length if gives is Unit.TRAJECTORIES else 1)
    return Holds(
        steps=steps,
        batches=steps / a_batch,
        episodes=steps / (length + 1) if length else None,
        hours=steps * a_step / 3600 if a_step else None,
    )
