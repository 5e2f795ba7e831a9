"""Rules at the edges: of episodes, stacks, sums of rewards, lanes and the ring."""

import numpy as np

from .subject import offers_of
from .trial import Count, Lab, Trial, count, missing, total
from .truth import Truth
from .world import Codes, codes_of

MIXED = "5t 3c 7t 2c 11t 4c"
"""Episodes that end either way, of lengths that come by every slot of a ring."""
ENDED = "5t 3t 7t 2t 11t 4t"
FILLED = {"capacity": 61}


def pairs(lab: Lab) -> Count:
    """See its rule: once before the ring is full, and after it turned."""
    found = []
    for laps in (0.7, 2.3):
        judged = lab.trial(MIXED, **FILLED).fill(laps).judged()
        wrong = (judged.invented, judged.action, judged.reward, judged.strayed)
        found.append(count("pairs", judged, *wrong))
    return total("pairs", found)


def wrapped(lab: Lab, window: int) -> Count:
    """Units of a ring of 1,000 steps, filled three times, wrong in anything that learning uses.

    Not a rule, but the figure that a comparison gives beside them.
    """
    judged = lab.trial(MIXED, window=window, capacity=1_000).fill(3).judged()
    told = _told(judged.discount, lab, judged.crossed)
    wrong = (judged.action, judged.reward, judged.stack, told, judged.strayed)
    return count("units", judged, judged.invented, *wrong)


def terminal(lab: Lab) -> Count:
    """See its rule."""
    judged = lab.trial(ENDED, **FILLED).fill().judged()
    return count("discounts", judged, judged.discount)


def truncation(lab: Lab) -> Count:
    """See its rule: counted are the steps that a time limit cut."""
    judged = lab.trial(MIXED, **FILLED).fill().judged(3 * lab.draws)
    cut = judged.crossed
    found = count("steps cut by a time limit", judged, cut & (judged.discount | judged.successor))
    return found._replace(of=int(cut.sum()))


def last_frame(lab: Lab) -> Count:
    """See its rule: counted are the terminal steps."""
    judged = lab.trial(ENDED, **FILLED).fill().judged(3 * lab.draws)
    found = count("terminal steps", judged, judged.terminal & judged.successor)
    return found._replace(of=int(judged.terminal.sum()))


def newest(lab: Lab) -> Count:
    """See its rule: looked at after each of the steps around a ring's turn."""
    trial = lab.trial("5t 9t", capacity=24)
    found = []
    for _ in range(2 * trial.setting.capacity // 5):
        trial.play(5)
        step = trial.steps()[0][-1:]
        judged = trial.judged(25 * trial.setting.capacity)
        lost = missing("newest steps", step, judged)
        mine = judged.codes == step[0]
        wrong = mine & (judged.reward | judged.discount | judged.strayed)
        strayed = count("newest steps", judged, wrong)
        bad = lost.wrong or strayed.wrong > 0
        found.append(Count(int(bad), 1, "newest steps", lost.first or strayed.first))
    return total("newest steps", found)


def stacks(lab: Lab) -> Count:
    """See its rule."""
    judged = lab.trial(MIXED, window=4, **FILLED).fill().judged()
    return count("units", judged, judged.invented, judged.stack, judged.strayed)


def head(lab: Lab) -> Count:
    """See its rule: looked at on several slots of the ring."""
    trial = lab.trial("60000t", window=4, capacity=37)
    found = []
    for laps in (1.0, 0.3, 0.9, 1.7):
        judged = trial.fill(laps).judged(lab.draws // 4)
        found.append(count("units", judged, judged.invented, judged.stack, judged.strayed))
    return total("units", found)


def short(lab: Lab) -> Count:
    """See its rule."""
    judged = lab.trial("1t 1c 2t 1t", window=3, **FILLED).fill().judged()
    wrong = (judged.invented, judged.stack, judged.reward, judged.strayed)
    return count("units", judged, *wrong, _told(judged.discount, lab, judged.crossed))


def _told(wrong: np.ndarray, lab: Lab, crossed: np.ndarray) -> np.ndarray:
    """Wrong discounts, without those at time limits where these cannot be told apart."""
    return wrong if "truncation" in offers_of(lab.factory) else wrong & ~crossed


def n_step(lab: Lab) -> Count:
    """See its rule."""
    trial = lab.trial(MIXED, n_step=3, **FILLED).fill()
    return _sums(lab, trial)


def n_step_stacks(lab: Lab) -> Count:
    """See its rule."""
    return _sums(lab, lab.trial(MIXED, n_step=3, window=4, **FILLED).fill())


def _sums(lab: Lab, trial: Trial) -> Count:
    judged = trial.judged()
    wrong = (judged.invented, judged.stack, judged.reward, judged.strayed)
    return count("units", judged, *wrong, _told(judged.discount, lab, judged.crossed))


def n_step_starts(lab: Lab) -> Count:
    """See its rule: asked of episodes, long and shorter than n, after which n steps more came."""
    trial = lab.trial("5t 3c 2t 9c 1t 2c", n_step=3, capacity=64).play(26)
    steps = np.concatenate(trial.steps())
    near = steps[Truth(trial.world).ends_within(steps, 3)]
    return missing("steps less than n from an end", near, trial.every())


def lanes(lab: Lab) -> Count:
    """See its rule: three lanes whose episodes are of other lengths, looked at as they turn."""
    script = ("5t 3c", "2c 9t", "60000t")
    trial = lab.trial(*script, lanes=3, window=_most(lab), capacity=3 * 23)
    found = []
    for laps in (0.6, 1.1, 1.9):
        judged = trial.fill(laps).judged(lab.draws // 3)
        wrong = (judged.invented, judged.action, judged.reward, judged.foreign)
        found.append(count("units", judged, *wrong))
    return total("units", found)


def _most(lab: Lab) -> int:
    return 3 if "stacks" in offers_of(lab.factory) else 1


def interrupted(lab: Lab) -> Count:
    """See its rule: counted are the steps next to a break."""
    return _broken_off(lab, n_step=1, window=1)


def n_step_interrupted(lab: Lab) -> Count:
    """See its rule."""
    return _broken_off(lab, n_step=3, window=_most(lab))


def _broken_off(lab: Lab, n_step: int, window: int) -> Count:
    trial = lab.trial("60000t", n_step=n_step, window=window, capacity=64)
    ends: list[Codes] = []
    for steps in (5, 7, 4, 9):
        trial.play(steps)
        ends.append(codes_of(np.zeros(n_step, int), np.full(n_step, len(ends)),
                             steps - 1 - np.arange(n_step)))  # fmt: skip
        trial.begin()
    judged = trial.play(5).every()
    near = np.isin(judged.codes, np.concatenate(ends))
    wrong = judged.reward | judged.discount | judged.stack | judged.next_stack
    found = count("steps before a break", judged, near & wrong)
    return found._replace(of=int(near.sum()))
