"""The rules of `core.conformance` over all that the factory's table can build.

Every combination lives one life in each run, in which all rules of the edges meet; those that
differ from the plainest in one thing alone are held to every rule. A soak holds all to all.
"""

import numpy as np
import pytest

from core.conformance.rules import RULES, check
from core.conformance.trial import Lab
from core.types import Unit
from tests.contracts.combinations import ALL, KINDS, Combination, choices

PLAINEST = {"frame_codec": "lz4", "storage": "heap", "sampler": "uniform", "prefetch": 0}
DRAWS = 300


def plain_but_for_one(wanted: Combination) -> bool:
    """Whether it differs from the plainest of its kind in one thing at most.

    Codecs and tiers are one ring's, whichever the kind, so that one kind stands for all in those.
    """
    other = [key for key, value in PLAINEST.items() if getattr(wanted, key) != value]
    return not other or (len(other) == 1 and (wanted.kind == "sequential" or "sampler" in other))


FEW = [wanted for wanted in ALL if plain_but_for_one(wanted)]
REST = [wanted for wanted in ALL if not plain_but_for_one(wanted)]


def test_every_kind_codec_tier_and_sampler_of_the_table_is_there():
    assert {wanted.kind for wanted in ALL} == set(KINDS)
    for kind in KINDS:
        mine = [wanted for wanted in ALL if wanted.kind == kind]
        for key in ("frame_codec", "storage", "sampler"):
            assert {getattr(wanted, key) for wanted in mine} == set(choices(kind, key))
        assert {wanted.prefetch for wanted in mine} == {0, 2}
    refused = {(wanted.storage, wanted.prefetch) for wanted in ALL}
    assert ("shared", 2) not in refused, "who reads ahead knows no other process's writes"


@pytest.mark.parametrize("wanted", ALL, ids=str)
def test_a_life_in_which_all_edges_meet(wanted: Combination):
    n_step = 3 if KINDS[wanted.kind].gives is Unit.TRANSITIONS else 1
    lab = Lab(wanted, DRAWS)
    script = ("5t 3c 1t 9c", "2c 7t 1c 4t", "60000t")
    trial = lab.trial(*script, lanes=3, window=3, n_step=n_step, capacity=3 * 27)
    for laps in (0.6, 1.1, 1.3):
        trial.fill(laps).begin()
        judged = trial.play(5).judged()
        for wrong in ("invented", "action", "reward", "discount", "stack", "next_stack"):
            assert not getattr(judged, wrong).any(), wrong
        assert len(np.unique(judged.codes >> 32)) == 3, "each lane is drawn"
        trial.subject.memory.check()
        assert trial.subject.memory.rows <= trial.subject.memory.capacity <= 3 * 27


@pytest.mark.parametrize("wanted", FEW, ids=str)
def test_every_rule_that_is_offered_is_kept(wanted: Combination):
    verdicts = [check(rule, wanted, DRAWS) for rule in RULES]
    asked = [verdict for verdict in verdicts if verdict.rule.needs <= wanted.offers]
    assert len(asked) >= 16
    wrong = [verdict for verdict in asked if verdict.outcome != "kept"]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.soak
@pytest.mark.parametrize("wanted", REST, ids=str)
def test_every_rule_of_every_combination(wanted: Combination):
    verdicts = [check(rule, wanted) for rule in RULES]
    broken = [str(verdict) for verdict in verdicts if verdict.outcome == "broken"]
    assert not broken, "\n".join(broken)


@pytest.mark.soak
@pytest.mark.parametrize("wanted", FEW, ids=str)
def test_every_rule_with_memories_twenty_times_the_size(wanted: Combination):
    for rule in RULES:
        verdict = check(rule, wanted, 20_000, scale=20)
        assert verdict.outcome != "broken", verdict


def test_combinations_are_not_few():
    assert len(ALL) > 60
    assert {wanted.kind for wanted in FEW} == set(KINDS)
