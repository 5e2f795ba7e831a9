"""Every memory of steps that the table can build: kind, codec, tier, sampler, prefetch."""

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, get_args

import numpy as np
from pydantic import ValidationError

from core.conformance.rows import MemorySubject
from core.conformance.subject import EVERY, Batch
from core.conformance.world import ACTIONS, Setting, Tick
from core.memory import Memory, MemoryContext
from core.options import SharedOptions
from core.types import ArraySpec, DiscreteActions, EnvSpec, Unit
from utils.factory import MEMORIES, resolve_name

STEPS: Final = (Unit.TRANSITIONS, Unit.TRAJECTORIES)
KINDS: Final = {
    name: kind
    for name, entry in MEMORIES.items()
    if (kind := resolve_name(entry.target)).gives in STEPS
}
AXES: Final = ("frame_codec", "storage", "sampler")
KEYS_OF: Final[dict[str, dict[str, Any]]] = {
    "mixture": {"mixture": {"uniform": 0.5, "balanced": 0.25, "recent": 0.25}},
    "recent": {"recent_rows": 10},
}
"""What a sampler is told beside its name."""


class Combination(NamedTuple):
    """One memory of them all."""

    kind: str
    frame_codec: str
    storage: str
    sampler: str
    prefetch: int

    def __str__(self) -> str:
        return "-".join(map(str, self))

    @property
    def keys(self) -> dict[str, Any]:
        """Keys of its options."""
        own = {key: getattr(self, key) for key in (*AXES, "prefetch") if key in fields(self.kind)}
        return {**own, **KEYS_OF.get(self.sampler, {}), "chunk_frames": 4, "disk_tmpfs": True}

    @property
    def offers(self) -> frozenset[str]:
        """See `core.conformance.subject.Factory`."""
        lacks = set()
        if KINDS[self.kind].gives is Unit.TRAJECTORIES:
            lacks |= {"n_step", "uniform", "priorities"}
        if self.sampler != "prioritized":
            lacks |= {"priorities", "stale"}
        if self.sampler != "uniform":
            lacks |= {"uniform"}
        if self.sampler == "recent":
            lacks |= {"all"}
        if self.storage == "disk":
            lacks |= {"save", "resume"}  # its log saves it: tests/core/test_tiers.py
        return frozenset(EVERY) - lacks

    def __call__(self, setting: Setting) -> MemorySubject:
        """Builds it."""
        build = Build(self, setting)
        return (ReadAhead if self.prefetch else MemorySubject)(build(), setting, build)


class ReadAhead(MemorySubject):
    """Drops what was read ahead where something was written since.

    The batches that a memory read ahead were drawn before that, which is what it promises; rules
    look at what it holds now.
    """

    written = False

    def step(self, tick: Tick) -> None:
        """See `Subject.step`."""
        super().step(tick)
        self.written = True

    def sample(self, count: int) -> Batch:
        """See `Subject.sample`."""
        if self.written:
            self.memory.sample(count + 1, columns=["id"])
            self.written = False
        return super().sample(count)

    def resumed(self) -> Self:
        """See `Subject`."""
        other = super().resumed()
        other.written = self.written
        return other


class Build:
    """Builds a memory in a folder that goes with it."""

    def __init__(self, wanted: Combination, setting: Setting) -> None:
        self._wanted, self._setting = wanted, setting

    def _folder(self) -> Path | None:
        if self._wanted.storage != "disk":
            return None
        folder = Path(tempfile.mkdtemp(prefix="contract-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder

    def __call__(self) -> Memory:
        setting, kind = self._setting, KINDS[self._wanted.kind]
        shared = SharedOptions(
            num_envs=setting.lanes,
            window_length=setting.window,
            n_step=setting.n_step,
            gamma=setting.gamma,
            trajectory_length=4,
        )
        frame = ArraySpec((setting.side, setting.side), np.dtype(np.uint8))
        context = MemoryContext(
            EnvSpec({"obs": frame}, DiscreteActions(ACTIONS)),
            shared,
            np.random.default_rng(setting.seed),
            folder=self._folder(),
        )
        options = kind.Options(memory_limit=setting.capacity, **self._wanted.keys)
        return kind(options, context)


def fields(kind: str) -> dict[str, Any]:
    """Fields of a kind's options."""
    return KINDS[kind].Options.model_fields


def choices(kind: str, key: str) -> tuple[str, ...]:
    """What a key of a kind may be."""
    return get_args(fields(kind)[key].annotation) if key in fields(kind) else ("",)


def combinations() -> Iterator[Combination]:
    """All that a kind's options accept."""
    for kind in KINDS:
        for codec in choices(kind, "frame_codec"):
            for storage in choices(kind, "storage"):
                for sampler in choices(kind, "sampler"):
                    for prefetch in (0, 2):
                        wanted = Combination(kind, codec, storage, sampler, prefetch)
                        if accepted(wanted):
                            yield wanted


def accepted(wanted: Combination) -> bool:
    """Whether its options can be."""
    try:
        KINDS[wanted.kind].Options(memory_limit=64, **wanted.keys)
    except ValidationError:
        return False
    return True


ALL: Final = list(combinations())
