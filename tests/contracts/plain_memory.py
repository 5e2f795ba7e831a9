"""A replay memory of plain lists that keeps every rule, and ways to break one of them each."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from core.conformance.subject import EVERY
from core.conformance.world import Setting, Tick


class Row(NamedTuple):
    """One step as it was told."""

    stack: list[np.ndarray]
    then: list[np.ndarray]
    action: int
    reward: float
    terminal: bool
    over: bool
    number: int


class Plain:
    """The newest steps of each lane; stacks are made as they are told, sums as they are drawn.

    `flaw` names the one thing that it does wrong; see `FLAWS`.
    """

    def __init__(self, setting: Setting, flaw: str = "") -> None:
        self.setting, self.flaw = setting, flaw
        self.room = setting.capacity // setting.lanes
        self.lanes: list[list[Row]] = [[] for _ in range(setting.lanes)]
        self.stacks: list[list[np.ndarray]] = [[] for _ in range(setting.lanes)]
        self.weights: dict[int, float] = {}
        self.told = 0
        self.rng: Any = np.random.default_rng(setting.seed)
        if flaw in ("one seed", "no seed"):
            self.rng = np.random.default_rng(0 if flaw == "one seed" else None)
        if flaw == "global":
            np.random.seed(setting.seed)
            self.rng = np.random

    def begin(self, obs: np.ndarray) -> None:
        for lane, frame in enumerate(obs):
            rows = self.lanes[lane]
            if rows and self.flaw != "joins":
                rows[-1] = rows[-1]._replace(over=True)
            if rows and self.flaw == "joins next":
                rows[-1] = rows[-1]._replace(then=[*rows[-1].then[:-1], frame.copy()])
            self._renew(lane, frame)

    def _renew(self, lane: int, frame: np.ndarray) -> None:
        frame = frame if self.flaw == "aliases" else frame.copy()
        pad = np.zeros_like(frame) if self.flaw == "zeros" else frame
        before = self.stacks[lane][1:] if self.flaw == "crosses" and self.stacks[lane] else None
        self.stacks[lane] = [*(before or [pad] * (self.setting.window - 1)), frame]

    def step(self, tick: Tick) -> None:
        for lane in range(self.setting.lanes):
            before = self.stacks[lane]
            frame = tick.next_obs[lane]
            frame = frame if self.flaw == "aliases" else frame.copy()
            after = [*before[1:], frame]
            over, terminal = bool(tick.over[lane]), bool(tick.terminated[lane])
            if self.flaw == "no timeouts":
                terminal = over
            then = self._then(after, lane, tick, over, terminal)
            told = (int(tick.action[lane]), float(tick.reward[lane]))
            row = Row(before, then, *told, terminal, over, self.told)
            self.told += 1
            self.lanes[lane] += [row] * (2 if self.flaw == "twice" and terminal else 1)
            self._evict(lane)
            self.stacks[lane] = after
            if over:
                self._renew(lane, tick.first[lane])

    def _then(self, after: list, lane: int, tick: Tick, over: bool, terminal: bool) -> list:
        if self.flaw == "reset frame" and over:
            return [*after[:-1], tick.first[lane].copy()]
        if self.flaw == "no last frame" and terminal:
            return [np.zeros_like(frame) for frame in after]
        return after

    def _evict(self, lane: int) -> None:
        rows = self.lanes[lane]
        while len(rows) > self.room:
            gone = len(rows) // 2 if self.flaw == "any order" else 0
            del rows[gone]
        if self.flaw == "head" and len(rows) == self.room:
            # a ring's oldest stack, made of what lies before it: the newest
            rows[0] = rows[0]._replace(stack=[*rows[-1].stack[:-1], rows[0].stack[-1]])

    def sample(self, count: int) -> dict[str, np.ndarray]:
        places = self._places()
        if not places:
            if self.flaw != "out of nothing":
                raise ValueError("nothing to sample")
            shape = (count, self.setting.window, self.setting.side, self.setting.side)
            return {"obs": np.zeros(shape, np.uint8)}
        weights = np.array([self.weights.get(self._key(*place), 1.0) for place in places])
        chosen = self.rng.choice(len(places), count, p=weights / weights.sum())
        units = [self._unit(*places[place]) for place in chosen]
        names = ("obs", "next_obs", "action", "reward", "discount", "id")
        batch = {
            n: np.array(column) for n, column in zip(names, zip(*units, strict=True), strict=True)
        }
        if self.flaw == "views":
            batch["obs"] = batch["obs"][:]
            self._share(places, chosen, batch)
        if self.flaw == "floats":
            batch["obs"] = batch["obs"].astype(np.float32)
        batch["reward"] = batch["reward"].astype(np.float32)
        batch["discount"] = batch["discount"].astype(np.float32)
        return batch

    def _share(self, places: list, chosen: np.ndarray, batch: dict) -> None:
        """What is stored from now on lies in the batch."""
        for at, place in enumerate(chosen.tolist()):
            lane, index = places[place]
            row = self.lanes[lane][index]
            self.lanes[lane][index] = row._replace(stack=list(batch["obs"][at]))

    def _key(self, lane: int, index: int) -> int:
        number = self.lanes[lane][index].number
        return number % self.room if self.flaw == "by slot" else number

    def _places(self) -> list[tuple[int, int]]:
        return [
            (lane, index)
            for lane, rows in enumerate(self.lanes)
            for index in range(len(rows) - (1 if self.flaw == "waits" else 0))
            if not self._left_out(rows, index)
        ]

    def _left_out(self, rows: list[Row], index: int) -> bool:
        """A flaw of sums: steps near an end are dropped."""
        ahead = rows[index : index + self.setting.n_step - 1]
        return self.flaw == "drops starts" and any(row.over for row in ahead)

    def _unit(self, lane: int, index: int) -> tuple:
        rows = self.lanes[lane]
        if self.flaw == "mixes" and len(self.lanes) > 1:
            rows = self.lanes[int(self.rng.integers(len(self.lanes)))]
            rows = rows if index < len(rows) else self.lanes[lane]
        start, total, power = self.lanes[lane][index], 0.0, 1.0
        last = start
        for last in rows[index : index + self.setting.n_step]:
            total += power * last.reward
            power *= self.setting.gamma
            if last.terminal or (last.over and self.flaw != "sums cross"):
                break
        discount = 0.0 if last.terminal and self.flaw != "no terminal" else power
        if self.flaw == "gamma^n" and discount:
            discount = self.setting.gamma**self.setting.n_step
        return start.stack, last.then, start.action, total, discount, self._key(lane, index)

    def feedback(self, ids: np.ndarray, priorities: np.ndarray) -> None:
        if self.flaw == "takes nan":
            priorities = np.nan_to_num(priorities, nan=1e12, posinf=1e12)
        if not np.isfinite(priorities).all():
            raise ValueError("a priority is no number")
        self.weights.update(zip(ids.tolist(), priorities.tolist(), strict=True))

    def resumed(self) -> "Plain":
        other = copy.deepcopy(self)
        if self.flaw == "saves half":
            other.lanes = [rows[len(rows) // 2 :] for rows in other.lanes]
        if self.flaw == "forgets its generator":
            other.rng = np.random.default_rng(0)
        return other


FLAWS: dict[str, set[str]] = {
    "no terminal": {"C2"},
    "no timeouts": {"C3"},
    "reset frame": {"C1", "C3", "C4"},
    "no last frame": {"C4"},
    "waits": {"C5", "C6"},
    "twice": {"C7"},
    "any order": {"C8"},
    "zeros": {"C9", "C10", "C11"},
    "crosses": {"C9", "C11"},
    "head": {"C9", "C10"},
    "sums cross": {"C12"},
    "gamma^n": {"C12", "C14"},
    "drops starts": {"C13"},
    "mixes": {"C15"},
    "joins": {"C17"},
    "joins next": {"C16"},
    "aliases": {"C18"},
    "views": {"C19"},
    "floats": {"C20"},
    "one seed": {"C21"},
    "no seed": {"C21"},
    "global": {"C22"},
    "saves half": {"C23"},
    "forgets its generator": {"C24"},
    "out of nothing": {"C25"},
    "takes nan": {"C26"},
    "by slot": {"C27"},
}
"""What may be wrong, and the rules that have to notice."""


def plain(setting: Setting) -> Plain:
    """A factory of what keeps every rule."""
    return Plain(setting)


def flawed(flaw: str) -> Callable[[Setting], Plain]:
    """A factory of what breaks some."""
    return lambda setting: Plain(setting, flaw)


def timeouts_are_terminals(setting: Setting) -> Plain:
    """A factory of what breaks one rule, and offers no priorities."""
    return Plain(setting, "no timeouts")


timeouts_are_terminals.offers = EVERY.keys() - {"priorities"}
