"""Lanes told by words: `s` start, `.` step, `t` terminal step, `c` cut step, `l` lost life."""

import numpy as np

from core.episodes.rows import Evict, RowWriter, plan_rows
from core.storage.plan import plan_store
from core.storage.ring import RingBuffer
from core.types import ArraySpec, DiscreteActions, EnvSpec

F32 = np.dtype(np.float32)
ENV = EnvSpec({"obs": ArraySpec((), F32)}, DiscreteActions(10_000))
EXTRAS = {"mark": ArraySpec((), F32)}


class Story:
    """A ring whose rows tell their number: observation r, action r, reward r + 1, mark r / 2."""

    def __init__(self, rows: int, lanes: int = 1, evict: Evict | None = None) -> None:
        plans = plan_rows(ENV, EXTRAS, "auto", "exact")
        self.ring = RingBuffer(plan_store(plans, lanes, rows * lanes))
        self.writer = RowWriter(self.ring, ENV, np.arange(lanes), evict)

    def tell(self, story: str, lane: int = 0) -> "Story":
        """What happens to a lane, a word an event."""
        at = np.array([lane])
        for word in story:
            row = int(self.ring.heads[lane])
            obs = {"obs": np.array([row], F32)}
            if word == "s":
                self.writer.start(obs, at)
                continue
            self.writer.append(
                np.array([row - 1]),
                np.array([float(row)]),
                np.array([word == "t"]),
                np.array([word == "c"]),
                obs,
                {"mark": np.array([(row - 1) / 2], F32)},
                lost_life=np.array([word == "l"]),
                lanes=at,
            )
        return self

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Tail and head of each lane."""
        return list(zip(self.ring.tails.tolist(), self.ring.heads.tolist(), strict=True))
