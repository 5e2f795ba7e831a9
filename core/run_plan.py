"""What a run will take and hold, known before its first step, and what helps if that is much."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from .errors import UsageError
from .memory import MemoryOptions, Plan
from .sizes import size_of

WHERE: Final = {"heap": "in heap memory", "shared": "in shared memory", "disk": "on disk"}
HOW: Final = {"heap": "", "shared": ", taken at once as shared memory", "disk": ""}
FEW_BATCHES: Final = 20
MEGA: Final = 10**6
SMALLER: Final = {"frame_codec": "lz4"}
MakePlan = Callable[[MemoryOptions, int], Plan]
"""The plan of a memory with those options and so many environments; raises UsageError."""


@dataclass(frozen=True)
class Machine:
    """Bytes: what this process may hold in all, and what it holds beside its memory."""

    usable: int
    by: str
    other: int
    an_env: int
    disk_free: int = 0
    """Bytes free where a run's folder will be."""


@dataclass(frozen=True)
class Holds:
    """What a full memory holds. Episodes are of random play; None where nobody knows."""

    steps: int
    batches: float
    episodes: float | None
    hours: float | None

    def __str__(self) -> str:
        """In words."""
        parts = [f"{self.steps:,} steps"]
        if self.episodes is not None:
            parts.append(f"{self.episodes:,.0f} episodes of random play")
        parts.append(f"{self.batches:,.0f} batches")
        if self.hours is not None:
            parts.append(f"{self.hours:,.1f} hours of play")
        return ", ".join(parts)


@dataclass(frozen=True)
class RunPlan:
    """What a row's run will take and hold, and whether that fits here."""

    row: str
    memory: Plan
    limit: int
    tier: str
    machine: Machine
    max_num_envs: int
    holds: Holds
    key: str
    remedies: tuple[str, ...]
    saved: bool = False
    """Whether checkpoints save the memory."""

    @property
    def disk(self) -> int:
        """Bytes on disk: of the memory itself, and of the log that it is saved in."""
        return on_disk(self.memory, self.saved)

    @property
    def fits(self) -> bool:
        """Whether the most that it may ever take is there."""
        return fits(self.memory, self.machine) and self.disk <= self.machine.disk_free

    @property
    def bytes_per_step(self) -> float:
        """Bytes a step takes once the memory is full, everything counted."""
        return self.memory.bytes_full / max(self.memory.rows_full, 1)

    def as_dict(self) -> dict[str, Any]:
        """As `plan ROW --json` prints it; bytes throughout."""
        return {
            "row": self.row,
            "fits": self.fits,
            "bytes_per_step": self.bytes_per_step,
            "bytes_full": self.memory.bytes_full,
            "bytes_full_low": self.memory.bytes_low,
            "bytes_full_high": self.memory.bytes_high,
            "tiers": {**self.memory.tiers, "disk": self.disk},
            "other_bytes": self.machine.other,
            "usable_bytes": self.machine.usable,
            "max_num_envs": self.max_num_envs,
            "holds": {
                "steps": self.holds.steps,
                "episodes": self.holds.episodes,
                "batches": self.holds.batches,
                "hours": self.holds.hours,
            },
            "key": self.key,
            "remedies": list(self.remedies),
        }

    def lines(self) -> Iterator[str]:
        """As it is told before the first step."""
        yield (
            f"memory when full: {self._size()} {WHERE[self.tier]}, "
            f"{self.bytes_per_step:,.0f} bytes a step, memory_limit {self.limit:,}; "
            f"it will hold {self.holds}"
        )
        yield (
            f"the rest of the run: {size_of(self.machine.other)}, {size_of(self.machine.an_env)} "
            f"an env; {size_of(self.machine.usable)} usable ({self.machine.by}), "
            f"enough for {self.max_num_envs:,} envs"
        )
        if self.disk:
            what = "with its log" if self.tier == "disk" else "saved with checkpoints"
            yield (
                f"{what}: up to {size_of(self.disk)} on disk, "
                f"{size_of(self.machine.disk_free)} free"
            )
        if self.holds.batches < FEW_BATCHES:
            yield (
                f"warning: the memory holds {self.holds.batches:,.1f} batches; with fewer than "
                f"{FEW_BATCHES}, what is learnt from is nearly what has just happened"
            )

    def _size(self) -> str:
        low, full, high = self.memory.bytes_low, self.memory.bytes_full, self.memory.bytes_high
        if low == high:
            return size_of(full)
        return f"about {size_of(full)}, between {size_of(low)} and {size_of(high)},"

    def refusal(self) -> str:
        """Why it does not fit, and what would help."""
        if fits(self.memory, self.machine):
            kept = self.tier == "disk"
            what = f"{self.key} with storage disk takes" if kept else "checkpoint_memory saves"
            smaller = f"--{self.key} to less" if kept else "--checkpoint_memory false"
            return (
                f"{what} up to {size_of(self.disk)} in the run's folder, and "
                f"{size_of(self.machine.disk_free)} are free there; set --runs FOLDER on a larger "
                f"disk, or {smaller}"
            )
        most, rows = self.memory.bytes_high, self.memory.rows_full
        return (
            f"{self.key} takes up to {size_of(most)} when full: "
            f"{rows:,} rows x {most / max(rows, 1):,.0f} bytes{HOW[self.tier]}; beside the "
            f"{size_of(self.machine.other)} of the rest of the run {size_of(self._left)} are "
            f"usable ({self.machine.by}); set {', or '.join(self.remedies)}"
        )

    @property
    def _left(self) -> int:
        return max(self.machine.usable - self.machine.other, 0)


def fits(plan: Plan, machine: Machine, more_envs: int = 0) -> bool:
    """Whether a memory and the rest of the run fit, with so many more environments."""
    taken = plan.bytes_high - plan.tiers.get("disk", 0)
    return taken + machine.other + more_envs * machine.an_env <= machine.usable


def on_disk(plan: Plan, saved: bool) -> int:
    """Bytes on disk of a memory, with the log that it is saved in."""
    return plan.tiers.get("disk", 0) + (plan.bytes_saved if saved else 0)


def most_envs(options: MemoryOptions, make: MakePlan, machine: Machine, lanes: int) -> int:
    """The most environments with which the run fits; 0 where it does with none."""

    def fit(count: int) -> bool:
        plan = _planned(make, options, count)
        return plan is not None and fits(plan, machine, count - lanes)

    return largest(fit, options.memory_limit)


def largest(fit: Callable[[int], bool], most: int) -> int:
    """The largest number up to `most` that fits, by halving; 0 for none."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fit(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _planned(make: MakePlan, options: MemoryOptions, lanes: int) -> Plan | None:
    try:
        return make(options, lanes)
    except UsageError:
        return None


def remedies(options: MemoryOptions, make: MakePlan, machine: Machine, lanes: int) -> Iterator[str]:
    """Flags with which the run would fit, each with what it would take."""
    keys = type(options).model_fields
    yield from _fewer_rows(options, make, machine, lanes, "")
    if getattr(options, "frame_codec", "") == "raw":
        smaller = options.model_copy(update=SMALLER)
        plan = _planned(make, smaller, lanes)
        if plan is not None and plan.bytes_full < make(options, lanes).bytes_full:
            flags = "".join(f"--{key} {value}" for key, value in SMALLER.items())
            if fits(plan, machine):
                yield f"{flags} (about {size_of(plan.bytes_full)})"
            else:
                yield from _fewer_rows(smaller, make, machine, lanes, f"{flags} ")
    left = (machine.usable - machine.other) // MEGA * MEGA
    if "memory_bytes" in keys and left > 0:
        bounded = options.model_copy(update={"memory_bytes": left})
        plan = _planned(make, bounded, lanes)
        if plan is not None and fits(plan, machine):
            yield f"--memory_bytes {left // MEGA}MB (the oldest of {plan.rows_full:,} rows go)"
    if getattr(options, "storage", "disk") != "disk":
        plan = _planned(make, options.model_copy(update={"storage": "disk"}), lanes)
        if plan is not None and fits(plan, machine) and on_disk(plan, True) <= machine.disk_free:
            yield f"--storage disk ({size_of(on_disk(plan, True))} of it)"
    yield f"--memory_cap SIZE where there is more memory than that ({machine.by})"


def _fewer_rows(
    options: MemoryOptions, make: MakePlan, machine: Machine, lanes: int, flags: str
) -> Iterator[str]:
    def plan_of(limit: int) -> Plan | None:
        return _planned(make, options.model_copy(update={"memory_limit": limit}), lanes)

    def fit(limit: int) -> bool:
        plan = plan_of(limit)
        return plan is None or fits(plan, machine)  # of too few rows there is no plan: try more

    most = largest(fit, options.memory_limit)
    plan = plan_of(most)
    if plan is not None:
        yield f"{flags}--memory_limit {most} ({size_of(plan.bytes_full)})"
