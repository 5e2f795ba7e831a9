"""How large a memory usually is, and what that takes here: one line that `plan ROW` prints."""

from collections.abc import Callable
from typing import Final

from core.errors import UsageError
from core.memory import MemoryContext
from core.run_plan import FEW_BATCHES, Holds
from core.sizes import size_of
from core.types import Unit

from .factory import component, resolve_name
from .settings import Settings

ROWS: Final = (100_000, 1_000_000)
EPISODES: Final = (100, 1_000)
NUMBERS: Final = "10,000 to 100,000 are usual where an observation is a few numbers"
PICTURES: Final = "100,000 are usual on small boards, 1,000,000 on game screens"
CONTINUOUS: Final = "1,000,000 are usual with continuous actions"
Takes = Callable[[int], str]
"""The bytes that so many rows of a row's memory take, in words."""


def advice(settings: Settings, context: MemoryContext, holds: Holds) -> str:
    """One line on how large a row's memory should be; empty where there is nothing to say.

    Usual are 1,000,000 transitions of game screens (Mnih et al. 2015) and with continuous actions
    (Fujimoto et al. 2018, Haarnoja et al. 2018), 100,000 of small boards (Young and Tian 2019).
    """
    keeper = resolve_name(component("memory_type", settings.run.memory_type).target)
    free = {"memory_bytes": 0} if hasattr(settings.memory, "memory_bytes") else {}

    def takes(rows: int) -> str:
        options = settings.memory.model_copy(update={"memory_limit": rows, **free})
        return size_of(keeper.plan(options, context).bytes_full)

    try:
        if context.unit is Unit.TRANSITIONS:
            return f"capacity: {of_transitions(context, takes)}"
        if context.unit is Unit.TRAJECTORIES:
            return f"capacity: {of_trajectories(holds, takes)}"
        return of_candidates(settings, takes)
    except UsageError:  # more environments than such sizes have rows for
        return ""


def of_transitions(context: MemoryContext, takes: Takes) -> str:
    """What the sizes take that are usual, and which of them is for such a world."""
    few, many = ROWS
    usual = NUMBERS
    if context.env.actions.kind == "continuous":
        usual = CONTINUOUS
    elif any(spec.is_frame for spec in context.env.observations.values()):
        usual = PICTURES
    return f"{few:,} rows take {takes(few)} and {many:,} take {takes(many)}; {usual}"


def of_trajectories(holds: Holds, takes: Takes) -> str:
    """Some hundred episodes, as far as their length is known, and the fewest batches."""
    least = round(FEW_BATCHES * holds.steps / holds.batches)
    batches = f"{FEW_BATCHES} batches at least: {least:,} rows, {takes(least)}"
    if not holds.episodes:
        return batches
    low, high = (round(count * holds.steps / holds.episodes) for count in EPISODES)
    return (
        f"{EPISODES[0]:,} to {EPISODES[1]:,} episodes of random play are {low:,} to {high:,} rows "
        f"and take {takes(low)} to {takes(high)}; {batches}"
    )


def of_candidates(settings: Settings, takes: Takes) -> str:
    """What the candidates take that the agent learns from at once."""
    population = getattr(settings.agent, "population", 0)
    learnt = population * getattr(settings.agent, "elite_generations", 1)
    if not learnt:
        return ""
    return (
        f"capacity: an update learns from {learnt:,} candidates, which take {takes(learnt)}; "
        "more are kept to look at"
    )
