"""A memory at work in a world: what rules are tried with, and how their findings are counted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import numpy as np

from .rows import MemorySubject
from .subject import Batch, Factory, Subject, padding_of
from .truth import Bad, Judged, Truth
from .world import BLANK, GARBLED, Codes, Episode, Setting, World, decode, parts_of

BATCH: Final = 500
"""Units that are sampled at once."""
PASSES: Final = 16
"""Draws for each step that is held: of 64, one is missed once in 100,000 tries."""


class Count(NamedTuple):
    """What a rule found."""

    wrong: int
    of: int
    what: str
    """What was counted, as in "37 of 2,000 pairs"."""

    first: str = ""
    """The first that was wrong."""


def total(what: str, counts: Sequence[Count]) -> Count:
    """Several findings as one."""
    first = next((count.first for count in counts if count.first), "")
    return Count(sum(c.wrong for c in counts), sum(c.of for c in counts), what, first)


@dataclass(frozen=True)
class Lab:
    """What a rule is given: whose memories, and how many units it may draw."""

    factory: Factory
    draws: int = 2_000
    scale: int = 1
    """How many times larger than usual the memories are."""

    def trial(self, *script: str, **setting: Any) -> "Trial":
        """A memory built for a setting, in a world whose lanes play those episodes.

        A script is episodes by length and end: "5t 3c" is one of five steps that terminates, and
        one of three that is cut off.
        """
        if "capacity" in setting:
            setting["capacity"] *= self.scale
        return Trial(self, [_episodes(words) for words in script], Setting(**setting))


def _episodes(script: str) -> list[Episode]:
    ends = {"t": "terminated", "c": "truncated"}
    return [Episode(int(word[:-1]), ends[word[-1]]) for word in script.split()]  # type: ignore[arg-type]


def build(factory: Factory, setting: Setting) -> Subject:
    """A subject of a factory's."""
    found = factory(setting)
    subject: Subject = found if hasattr(found, "begin") else MemorySubject(found, setting)
    return subject


class Trial:
    """One memory in one world."""

    def __init__(self, lab: Lab, script: list[list[Episode]], setting: Setting) -> None:
        self.lab, self.setting = lab, setting
        self.world = World(setting, script)
        self.subject: Subject = build(lab.factory, setting)
        self.begin()

    def begin(self) -> Self:
        """New episodes in every lane, whatever was open."""
        self.subject.begin(self.world.begin())
        return self

    def play(self, ticks: int) -> Self:
        """Steps of every lane."""
        for _ in range(ticks):
            self.subject.step(self.world.tick())
        return self

    def fill(self, laps: float = 2) -> Self:
        """As many steps as make the ring turn so many times."""
        return self.play(int(laps * self.setting.capacity / self.setting.lanes))

    def batches(self, draws: int | None = None, size: int = BATCH) -> Iterator[Batch]:
        """Batches of that many units in all."""
        left = self.lab.draws if draws is None else draws
        while left > 0:
            yield _arrays(self.subject.sample(min(left, size)))
            left -= size

    def judged(self, draws: int | None = None) -> Judged:
        """That many units, judged."""
        truth = Truth(self.world, padding_of(self.subject))
        found = [truth.judge(batch) for batch in self.batches(draws)]
        names = Judged.__dataclass_fields__
        return Judged(**{n: np.concatenate([getattr(each, n) for each in found]) for n in names})

    def every(self) -> Judged:
        """So many units that each that can be drawn is among them."""
        return self.judged(max(self.lab.draws, PASSES * self.setting.capacity))

    def steps(self) -> list[Codes]:
        """Every step that ever happened, by lane, oldest first."""
        truth = Truth(self.world)
        return [truth.steps(lane) for lane in range(self.setting.lanes)]


def _arrays(batch: Batch) -> Batch:
    """The columns of a batch that rules read, as arrays of their own dtype."""
    return {name: np.asarray(value) for name, value in batch.items()}


def count(what: str, judged: Judged, *wrong: Bad) -> Count:
    """How many units are wrong in one of several ways."""
    bad = np.logical_or.reduce(wrong)
    at = int(np.argmax(bad))
    first = f"{name_of(int(judged.codes[at]))} is wrong by {_ways(judged, at)}" if bad.any() else ""
    return Count(int(bad.sum()), len(bad), what, first)


def _ways(judged: Judged, at: int) -> str:
    ways = ("action", "reward", "discount", "successor", "stack", "next_stack", "foreign")
    found = [way.replace("_", " ") for way in ways if getattr(judged, way)[at]]
    return ", ".join(found) or "never having happened"


def name_of(code: int) -> str:
    """A moment in words."""
    if code in (BLANK, GARBLED):
        return "a unit"
    lane, episode, step = (int(part) for part in parts_of(np.array(code)))
    return f"step {step} of episode {episode} in lane {lane}"


def missing(what: str, wanted: Codes, judged: Judged) -> Count:
    """How many of some steps were not drawn."""
    lost = np.setdiff1d(wanted, judged.codes)
    first = f"{name_of(int(lost[0]))} is never drawn" if len(lost) else ""
    return Count(len(lost), len(wanted), what, first)


def newest_frames(batch: Batch) -> Codes:
    """The steps of a batch, by their newest frames."""
    return decode(batch["obs"])[:, -1]
