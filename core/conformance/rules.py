"""The rules, by number, and what a memory is told of each.

What a rule is `of` are rules of the design, which docs/testing.md gives in words; cases are numbers
of the defects of other memories that a rule was made of.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from . import boundaries, holding
from .subject import EVERY, Factory, NotOffered, offers_of
from .trial import Count, Lab

Outcome = Literal["kept", "broken", "not offered"]


class Rule(NamedTuple):
    """One rule."""

    number: str
    name: str
    line: str
    of: str
    """Rules of the design that it makes visible from outside."""

    check: Callable[[Lab], Count]
    needs: frozenset[str] = frozenset()
    cases: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.number} {self.name}"


@dataclass(frozen=True)
class Verdict:
    """What came of a rule."""

    rule: Rule
    outcome: Outcome
    wrong: int = 0
    of: int = 0
    what: str = ""
    why: str = ""

    @property
    def figure(self) -> str:
        """Its numbers, as in "37 of 2,000 pairs"; why, where there are none."""
        return f"{self.wrong:,} of {self.of:,} {self.what}" if self.of else self.why

    def __str__(self) -> str:
        head = f"rule {self.rule}: {self.outcome}"
        if self.outcome == "not offered":
            return f"{head}: {self.why}"
        return f"{head}: {self.figure}" + (f"; first: {self.why}" if self.of and self.why else "")


def _rule(number: int, name: str, line: str, of: str, check: Callable[[Lab], Count],
          needs: str = "", cases: str = "") -> Rule:  # fmt: skip
    wanted = frozenset(needs.split())
    assert wanted <= EVERY.keys()
    return Rule(f"C{number}", name, line, of, check, wanted, tuple(cases.split()))


RULES: Final = (
    _rule(1, "pairs", "what is sampled is one step that happened: observation, action, reward "
          "and, where its value counts, successor", "M2 M4", boundaries.pairs, "", "25 29 30 37"),
    _rule(2, "terminal", "the discount is 0 after a terminal and nowhere else", "M3",
          boundaries.terminal),
    _rule(3, "truncation", "a time limit bootstraps, at full discount, from the true last "
          "observation", "M3", boundaries.truncation, "truncation", "24 25 d"),
    _rule(4, "last-frame", "the successor of a terminal step is the true last observation, "
          "though no value needs it", "I1", boundaries.last_frame, "", "30"),
    _rule(5, "newest", "a step can be drawn once it is done, and leads to what came of it", "M4",
          boundaries.newest, "all", "29 46 d"),
    _rule(6, "every-step", "every step that is held can be drawn, an episode's first and last "
          "included", "M4", holding.every_step, "all", "38 c"),
    _rule(7, "once", "no step is there twice", "M4", holding.once, "uniform", "38"),
    _rule(8, "oldest-first", "what is held are the newest steps, without a gap", "M6",
          holding.oldest_first, "all", "44"),
    _rule(9, "stacks", "a stack is what the policy saw, at an episode's start and after its end "
          "too", "M2 M4", boundaries.stacks, "stacks", "27 30 j"),
    _rule(10, "head", "no stack reaches across the write head of a ring that one episode fills "
          "over and over", "M4", boundaries.head, "stacks", "28 30 37"),
    _rule(11, "short", "episodes of one step come with stacks and ends of their own", "M2 M4",
          boundaries.short, "stacks"),
    _rule(12, "n-step", "n rewards are summed up to the first end, and the discount is gamma^m of "
          "the m that were", "M4", boundaries.n_step, "n_step", "33 35 f"),
    _rule(13, "n-step-starts", "no step is left out for being less than n from its episode's end",
          "M4", boundaries.n_step_starts, "n_step all", "f g h"),
    _rule(14, "n-step-stacks", "sums of n rewards and stacks go together", "M2 M4",
          boundaries.n_step_stacks, "n_step stacks", "34"),
    _rule(15, "lanes", "what happened in one lane is never mixed with another's", "M4",
          boundaries.lanes, "lanes"),
    _rule(16, "interrupted", "where an episode is begun anew in its middle, nothing joins the two",
          "I1", boundaries.interrupted, "interrupt", "26"),
    _rule(17, "n-step-interrupted", "the same of sums of rewards and of stacks", "I1",
          boundaries.n_step_interrupted, "interrupt n_step"),
    _rule(18, "copied-in", "what a caller does to its arrays afterwards changes nothing", "I2",
          holding.copied_in, "", "39"),
    _rule(19, "copied-out", "what a caller does to a batch changes nothing that is held", "M5",
          holding.copied_out, "", "31 34"),
    _rule(20, "bytes", "pixels come back as the bytes they were", "M8", holding.stay_bytes, "",
          "7 o"),
    _rule(21, "seed", "the same seed gives the same batches, another gives others", "M12",
          holding.seed, "seed", "d"),
    _rule(22, "own-generator", "draws follow a generator of its own, and touch no global one",
          "M12", holding.own_generator, "seed", "d"),
    _rule(23, "saved", "saved and loaded, it holds the same steps and takes more", "M10",
          holding.saved, "save all", "11"),
    _rule(24, "resumed", "saved and loaded, it draws from there on what it would have drawn",
          "M12", holding.resumed, "save resume", "48"),
    _rule(25, "nothing-held", "of nothing, nothing is given, but an error", "M4", holding.empty),
    _rule(26, "finite", "a priority that is no number is refused, and draws go on", "M11",
          holding.finite, "priorities", "45 d e"),
    _rule(27, "stale", "a priority told for a step that is gone reaches no other", "M11",
          holding.stale, "priorities stale", "44"),
)  # fmt: skip


def check(rule: Rule, factory: Factory, draws: int = 2_000, scale: int = 1) -> Verdict:
    """Holds a factory's memories to a rule.

    Whatever else a memory raises breaks the rule that was tried.
    """
    lacking = sorted(rule.needs - offers_of(factory))
    if lacking:
        return Verdict(rule, "not offered", why=EVERY[lacking[0]])
    try:
        found = rule.check(Lab(factory, draws, scale))
    except NotOffered as reason:
        return Verdict(rule, "not offered", why=str(reason))
    except Exception as error:  # whatever a stranger's memory may raise
        why = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
        return Verdict(rule, "broken", why=why)
    outcome: Outcome = "broken" if found.wrong else "kept"
    return Verdict(rule, outcome, found.wrong, found.of, found.what, found.first)
