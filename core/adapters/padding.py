"""Reading transitions whose stacks were padded with zeros before an episode's first frame.

A memory repeats an episode's first frame, as gymnasium does; VecFrameStack of Stable-Baselines3
and gymnasium's `padding_type="zero"` put zeros. Of that, nothing is stored but a flag a row.
"""

from collections.abc import Sequence
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from ..episodes.transitions import TransitionReader
from ..sampling.uniform import Draw
from ..types import NEXT, Batch

ZEROS: Final = "zero_padded"
"""The extra column that holds the flag."""


class PaddedReader(TransitionReader):
    """Puts zeros where an episode had not begun yet, in the stacks of those steps that say so."""

    @classmethod
    def of(cls, reader: TransitionReader) -> Self:
        """The same of what that reader reads, which keeps the flag among its extras."""
        return cls(*reader._made_of)

    def __reduce__(self) -> Any:
        return PaddedReader, self._made_of  # the books are where the ring is

    def read(
        self, draw: Draw, columns: Sequence[str] | None = None, out: Batch | None = None
    ) -> Batch:
        """See `TransitionReader.read`; the flag is read along only where it is asked for."""
        wanted = self.columns if columns is None else (*columns, ZEROS)
        batch = super().read(draw, wanted, out)
        flagged = np.flatnonzero(batch[ZEROS])
        if len(flagged):
            self._blank(batch, draw, flagged)
        if columns is not None and ZEROS not in columns:
            del batch[ZEROS]
        return batch

    def _blank(self, batch: Batch, draw: Draw, flagged: NDArray[np.int64]) -> None:
        """A row that stands twice in a stack is the episode's first, in place of none."""
        some = Draw(draw.lanes[flagged], draw.rows[flagged], draw.weight[flagged])
        steps = self._steps(some)
        stack, following = steps.stacks[0], steps.following[0]
        if self._single:
            stack, following = stack[:, :-1], stack[:, 1:]
        for prefix, rows in (("", stack), (NEXT, following)):
            # the frame after the last one is none of the stack, and never the same
            padded = np.diff(rows, axis=1, append=-1) == 0
            units, frames = np.nonzero(padded)
            for name in self._observations:
                if prefix + name in batch:
                    batch[prefix + name][flagged[units], frames] = 0
