"""A stranger's components, named in a row as 'tests.utils.thirdparty:Class'."""

from typing import ClassVar

from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryOptions
from core.options import option
from core.types import Unit


class RememberingOptions(SequentialOptions):
    """Options of a stranger's memory."""

    colour: str = option("blue", help="what it is painted with")


class Remembering(SequentialMemory):
    """A stranger's memory, which is one of ours and counts its samples."""

    Options: ClassVar[type[MemoryOptions]] = RememberingOptions
    sampled: ClassVar[int] = 0

    def sample(self, batch_size, **more):
        Remembering.sampled += 1
        return super().sample(batch_size, **more)


class Trajectories(SequentialMemory):
    """A memory that gives what DQN does not read."""

    gives: ClassVar[Unit] = Unit.TRAJECTORIES


class NoOptions:
    """Names no options."""
