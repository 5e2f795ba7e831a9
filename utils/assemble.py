"""Putting a row together: what cannot work is refused, then the parts are built."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from core.agent import Actor, Agent, AgentContext
from core.envs.base import Env
from core.errors import UsageError
from core.memory import Memory, MemoryContext
from core.schedules import Clock
from core.seeding import SeedTree
from core.train import Parts, Players
from core.types import EnvSpec, Unit
from core.voice import Voice

from .factory import AGENTS, MEMORIES, Component, component, options_class, resolve_name
from .options import RunOptions
from .planning import plan_run
from .settings import Settings


def check(settings: Settings) -> None:
    """Refuses, before anything is built, what cannot work together."""
    run, agent, keeper = settings.run, settings.agent, _keeper(settings)
    if keeper.given(agent.reads) is None:
        fitting = _names(MEMORIES, lambda entry: resolve_name(entry.target).given(agent.reads))
        gives = _units((keeper.gives, *keeper.also))
        raise UsageError(
            f"agent '{run.agent_type}' reads {_units(agent.reads)}, and memory "
            f"'{run.memory_type}' gives {gives}; fitting memories: {fitting}"
        )
    if agent.models and ":" not in run.model_type and run.model_type not in agent.models:
        raise UsageError(
            f"agent '{run.agent_type}' cannot use model '{run.model_type}'"
            f"; it takes {', '.join(sorted(agent.models))}"
        )
    agent.check(run, keeper.most_units(settings.memory, run))
    agent.check_memory(settings.memory)
    if run.runtime == "parallel" and getattr(settings.memory, "storage", "") != "shared":
        raise UsageError(
            "runtime parallel needs a memory that processes share: set --storage shared"
        )
    _check_reach(run, keeper.most_units(settings.memory, run))


def _check_reach(run: RunOptions, most: int) -> None:
    """Refuses batches and starts of learning that the memory or the run cannot reach."""
    for key in ("batch_size", "learn_start"):
        wanted = getattr(run, key)
        if wanted > most:
            raise UsageError(
                f"{key} {wanted} is never reached: with this memory_limit and num_envs "
                f"{run.num_envs} the memory holds at most {most} units"
            )
        if wanted > run.steps:
            raise UsageError(f"{key} {wanted} is never reached within steps {run.steps}")


def check_actions(settings: Settings, spec: EnvSpec) -> None:
    """Refuses an agent that cannot act in this environment, naming those that can."""
    if spec.actions.kind in settings.agent.actions:
        return
    kind = spec.actions.kind
    fitting = _names(AGENTS, lambda entry: kind in options_class(entry).actions)
    takes = " or ".join(sorted(settings.agent.actions))
    raise UsageError(
        f"agent '{settings.run.agent_type}' takes {takes} actions, and game "
        f"'{settings.env.game}' has {spec.actions} ({kind}); fitting agents: {fitting}"
    )


def make_env(settings: Settings, lanes: int) -> Env:
    """The row's environment with that many lanes."""
    make = resolve_name(component("env_type", settings.run.env_type).target)
    env: Env = make(settings.env, lanes)
    return env


def make_agent(settings: Settings, context: AgentContext) -> Agent:
    """The row's agent and its network; the same seed makes the same weights."""
    run = settings.run
    prepare_torch(run, context.seeds)
    network = resolve_name(component("model_type", run.model_type).target)
    model = network(settings.model, context.env, run.window_length)
    learner = resolve_name(component("agent_type", run.agent_type).target)
    agent: Agent = learner(settings.agent, context, model)
    return agent


def make_player(settings: Settings, lanes: int, branch: tuple[int, ...]) -> tuple[Env, Actor]:
    """See `MakePlayer`: what a process of a row's run plays with."""
    env, seeds = make_env(settings, lanes), SeedTree(settings.run.seed)
    agent = make_agent(settings, AgentContext(env.spec, settings.run, seeds, Clock()))
    return env, agent.actor(lanes, seeds.generator("explore", *branch), weights=agent.weights())


def prepare(settings: Settings) -> tuple[Players, MemoryContext]:
    """Builds a checked row but for its memory, and what that is built from. Raises UsageError."""
    check(settings)
    run, seeds, clock = settings.run, SeedTree(settings.run.seed), Clock()
    env = make_env(settings, run.num_envs)
    check_actions(settings, env.spec)
    voice = Voice()
    agent = make_agent(settings, AgentContext(env.spec, run, seeds, clock, voice))
    players = Players(
        env=env,
        make_eval_env=partial(make_env, settings),
        agent=agent,
        seeds=seeds,
        clock=clock,
        voice=voice,
    )
    rng = seeds.generator("sampler")
    context = MemoryContext(env.spec, run, rng, agent.extras(), agent.parameters)
    unit = _keeper(settings).given(settings.agent.reads)
    return players, replace(context, progress=lambda: clock.step / run.steps, unit=unit)


def build(settings: Settings, place: Callable[[], Path] | None = None) -> Parts:
    """Builds a checked row. Raises UsageError, also where this machine cannot hold it.

    `place` gives the folder of a memory that lies on disk, once it is known to fit.
    """
    players, context = prepare(settings)
    try:
        plan, context = plan_run(settings, players, context)
        if not plan.fits:
            raise UsageError(plan.refusal())
        if place is not None and getattr(settings.memory, "storage", "") == "disk":
            context = replace(context, folder=place())
        memory = _keeper(settings)(settings.memory, context)
    except (UsageError, MemoryError) as error:
        players.env.close()
        raise UsageError(str(error)) from None
    notes, player = tuple(plan.lines()), partial(make_player, settings)
    return Parts(**vars(players), memory=memory, notes=notes, make_player=player)


def prepare_torch(run: RunOptions, seeds: SeedTree) -> None:
    """Sets threads and the seed that networks are initialised from; checks the device."""
    import torch

    torch.set_num_threads(run.threads)
    torch.manual_seed(seeds.integers("init", 1)[0])
    try:
        torch.zeros(1, device=run.device).item()  # `meta` makes tensors, and no numbers
    except (RuntimeError, AssertionError):
        raise UsageError(f"device '{run.device}' is not there; set --device cpu") from None


def _keeper(settings: Settings) -> type[Memory]:
    found: type[Memory] = resolve_name(component("memory_type", settings.run.memory_type).target)
    return found


def _names(table: Mapping[str, Component], fits: Callable[[Component], object]) -> str:
    return ", ".join(name for name, entry in table.items() if fits(entry)) or "none"


def _units(units: Collection[Unit]) -> str:
    return " or ".join(sorted(unit.value for unit in units))
