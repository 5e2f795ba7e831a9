"""Saving a run as it goes, and taking it up again where it was saved.

A checkpoint holds everything but the rows of the memory, which are in a log of their own: what is
new is committed first, under the checkpoint's step, and the checkpoint written then. Whatever is
killed in between, the newest checkpoint finds its commit, since the log keeps two.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from .checkpoint import RUN
from .errors import CorruptMemoryError, UsageError
from .memory import Memory
from .memory_log import MemoryLog
from .options import LoopOptions
from .recorder import Recorder
from .rollout import Collecting
from .row_memory import RingMemory
from .run_folder import RunFolder
from .train import Parts
from .types import Tree


def open_log(memory: Memory, options: LoopOptions, folder: RunFolder) -> MemoryLog | None:
    """The log of a memory over a ring; other memories are small, and part of the checkpoint."""
    if not options.checkpoint_memory or not isinstance(memory, RingMemory):
        return None
    return MemoryLog(memory, folder.replay)


@dataclass(frozen=True)
class Saver:
    """Writes checkpoints of a run."""

    parts: Parts
    rollout: Collecting
    recorder: Recorder
    log: MemoryLog | None

    def save_due(self) -> bool:
        """See `Saves.save_due`: by the clock on the wall, and by what is new in the memory."""
        return self.recorder.save_due() or (self.log is not None and self.log.due)

    def save(self) -> None:
        """Saves everything that the run goes on from, and adds up how long that takes."""
        begun = time.perf_counter()
        with self.rollout.still():
            state: dict[str, Any] = {"rollout": self.rollout.state()}
            if self.log is not None:
                self.log.commit({"step": self.parts.clock.step})
            elif not isinstance(self.parts.memory, RingMemory):
                state["memory"] = self.parts.memory.state()
        self.recorder.save(state)
        self.recorder.save_seconds += time.perf_counter() - begun


class Past(NamedTuple):
    """What a run goes on from, beside its agent, clock and memory."""

    rollout: Tree
    recorder: Tree


def take_up(
    parts: Parts, checkpoint: Tree, log: MemoryLog | None, say: Callable[[str], None]
) -> Past:
    """Puts agent, clock and memory back to where they were saved; gives the rest.

    Raises UsageError for a checkpoint that no run can go on from. A memory that was not saved, or
    cannot be read, is said loudly and filled anew before anything is learnt.
    """
    if RUN not in checkpoint:
        raise UsageError("that checkpoint holds weights alone, and no run to go on from")
    past: Tree = checkpoint[RUN]
    rollout = dict(past["rollout"])
    parts.clock.step = checkpoint["step"]
    parts.agent.load(checkpoint)
    if "memory" in past:
        parts.memory.load(past["memory"])
    elif not _filled(log, parts.clock.step, say):
        rollout.pop("env", None)  # a memory that begins within an episode would pad its stacks
        say("the memory was not saved: it is filled anew, and nothing is learnt until it is ready")
    return Past(rollout, past["recorder"])


def _filled(log: MemoryLog | None, step: int, say: Callable[[str], None]) -> bool:
    """Whether the memory was filled with what was committed at that step."""
    if log is None:
        return False
    try:
        if log.load(say, lambda extra: extra["step"] == step) is not None:
            return True
    except CorruptMemoryError as error:
        say(str(error))
    log.clear()
    return False
