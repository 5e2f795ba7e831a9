"""Rules of what is held and how it is drawn: copies, order, seeds, saving, priorities."""

import random
from typing import Any

import numpy as np

from .subject import Batch
from .trial import Count, Lab, Trial, count, missing, name_of, newest_frames, total
from .world import Codes, Tick

MIXED = "5t 3c 7t 2c 11t 4c"
ENDED = "5t 3t 7t 2t 11t 4t"


def every_step(lab: Lab) -> Count:
    """See its rule: before the ring is full all that happened, after it the newer half."""
    before = lab.trial(MIXED, capacity=64).play(36)
    after = lab.trial(MIXED, capacity=64).fill(2.5)
    newer = [steps[-32 * lab.scale :] for steps in after.steps()]
    return total(
        "steps",
        [
            missing("steps", np.concatenate(before.steps()), before.every()),
            missing("steps", np.concatenate(newer), after.every()),
        ],
    )


def once(lab: Lab) -> Count:
    """See its rule: a step that is there twice is drawn twice as often as others."""
    trial = lab.trial(ENDED, capacity=64).play(36)
    steps, each = trial.steps()[0], 400
    codes = trial.judged(each * len(trial.steps()[0])).codes
    drawn = np.array([(codes == step).sum() for step in steps])
    often = steps[drawn > 1.5 * each]  # ten deviations off
    first = f"{name_of(int(often[0]))} is drawn twice as often as others" if len(often) else ""
    return Count(len(often), len(steps), "steps", first)


def oldest_first(lab: Lab) -> Count:
    """See its rule: half of what it was built for at the least, and nothing left out in between."""
    trial = lab.trial(MIXED, capacity=64)
    found = []
    for laps in (1.4, 0.9, 1.3):
        judged = trial.fill(laps).every()
        steps = trial.steps()[0]
        held = np.flatnonzero(np.isin(steps, judged.codes))
        oldest = min(held[0] if len(held) else len(steps), len(steps) - 32 * lab.scale)
        found.append(missing("steps", steps[oldest:], judged))
    return total("steps", found)


def copied_in(lab: Lab) -> Count:
    """See its rule: every array is overwritten as soon as it was handed over."""
    trial = lab.trial(ENDED, capacity=61)
    first = trial.world.begin()
    trial.subject.begin(first)
    first[...] = 77
    for _ in range(2 * trial.setting.capacity):
        tick = trial.world.tick()
        trial.subject.step(tick)
        _spoil(tick)
    judged = trial.judged()
    wrong = (judged.invented, judged.action, judged.reward, judged.foreign)
    return count("units", judged, *wrong)


def _spoil(tick: Tick) -> None:
    for array in tick:
        array[...] = 1


def copied_out(lab: Lab) -> Count:
    """See its rule: every batch is overwritten as soon as it was read."""
    trial = lab.trial(ENDED, capacity=61).fill()
    for batch in trial.batches():
        for array in batch.values():
            if array.flags.writeable:
                array[...] = 77
    judged = trial.judged()
    wrong = (judged.invented, judged.action, judged.reward, judged.foreign)
    return count("units", judged, *wrong)


def stay_bytes(lab: Lab) -> Count:
    """See its rule."""
    trial = lab.trial(ENDED, capacity=61).fill(1)
    batch = next(trial.batches())
    kinds = [batch[name].dtype for name in ("obs", "next_obs")]
    wrong = [kind for kind in kinds if kind != np.uint8]
    return Count(len(wrong), 2, "columns of pixels", f"they are {wrong[0]}" if wrong else "")


def seed(lab: Lab) -> Count:
    """See its rule."""
    one, two = (_drawn(lab.trial(ENDED, capacity=61, seed=5).fill(1.2)) for _ in range(2))
    other = _drawn(lab.trial(ENDED, capacity=61, seed=6).fill(1.2))
    if np.array_equal(one, other):
        return Count(len(one), len(one), "units", "another seed draws the same")
    return _other("units", one, two)


def own_generator(lab: Lab) -> Count:
    """See its rule: in between, somebody else draws from Python's and numpy's global generators."""
    one = _drawn(lab.trial(ENDED, capacity=61, seed=5).fill(1.2))
    trial = lab.trial(ENDED, capacity=61, seed=5).fill(1.2)
    for _ in range(10):
        random.random()
        np.random.random()
    before = _global_state()
    two = _drawn(trial)
    if before != _global_state():
        return Count(len(one), len(one), "units", "they are drawn from a global generator")
    return _other("units", one, two)


def _global_state() -> tuple[Any, bytes]:
    state = np.random.get_state(legacy=False)["state"]
    return random.getstate(), state["key"].tobytes() + bytes(str(state["pos"]), "ascii")


def _drawn(trial: Trial) -> Codes:
    # small batches: of as many draws as units, a stratified sampler leaves nothing to the seed
    return np.concatenate([newest_frames(batch) for batch in trial.batches(500, 20)])


def _other(what: str, one: Codes, two: Codes) -> Count:
    wrong = one != two
    first = f"draw {int(np.argmax(wrong))} is another" if wrong.any() else ""
    return Count(int(wrong.sum()), len(wrong), what, first)


def saved(lab: Lab) -> Count:
    """See its rule: what can be drawn from both, at once and after both went on."""
    trial = lab.trial(MIXED, capacity=61, seed=3).fill(1.5)
    again: Any = trial.subject.resumed()  # type: ignore[attr-defined]
    found = []
    for ticks in (0, 9):
        for _ in range(ticks):
            tick = trial.world.tick()
            trial.subject.step(tick)
            again.step(tick)
        here = trial.every()
        trial.subject, original = again, trial.subject
        there = trial.every()
        trial.subject = original
        # where successors were wrong before, that is no fault of saving
        strayed = there.strayed & ~here.strayed.any()
        found += [count("units", there, there.invented, there.reward, strayed)]
        found += [missing("units", np.unique(here.codes), there)]
        found += [missing("units", np.unique(there.codes), here)]
    return total("units", found)


def resumed(lab: Lab) -> Count:
    """See its rule: drawn from both as they are, and again after both went on."""
    trial = lab.trial(MIXED, capacity=61, seed=3).fill(1.5)
    _drawn(trial)
    again: Any = trial.subject.resumed()  # type: ignore[attr-defined]
    found = []
    for ticks in (0, 0, 9):
        for _ in range(ticks):
            tick = trial.world.tick()
            trial.subject.step(tick)
            again.step(tick)
        ours, theirs = (_columns(subject.sample(500)) for subject in (trial.subject, again))
        found.append(_same(ours, theirs))
    return total("units", found)


def _columns(batch: Batch) -> Batch:
    return {name: np.array(array) for name, array in batch.items()}


def _same(one: Batch, two: Batch) -> Count:
    size = len(one["reward"])
    bad = np.zeros(size, np.bool_)
    for name in ("obs", "next_obs", "action", "reward", "discount"):
        bad |= (one[name].reshape(size, -1) != two[name].reshape(size, -1)).any(1)
    first = f"draw {int(np.argmax(bad))} is another" if bad.any() else ""
    return Count(int(bad.sum()), size, "units", first)


def empty(lab: Lab) -> Count:
    """See its rule: before anything, and with an observation from which nothing was done yet."""
    trial = lab.trial(ENDED, capacity=61)
    given = 0
    try:
        given = len(newest_frames(trial.subject.sample(8)))
    except Exception:  # any refusal is one
        given = 0
    return Count(int(given > 0), 1, "samples of nothing", "units were given" if given else "")


def finite(lab: Lab) -> Count:
    """See its rule: what is not a number may be refused or ignored, but draws stay what they were.

    Counted are steps of 36 that can no longer be drawn after it.
    """
    trial = lab.trial(ENDED, capacity=64).play(36)
    subject: Any = trial.subject
    ids = np.asarray(subject.sample(8)["id"])
    for poison in (np.nan, np.inf):
        try:
            subject.feedback(ids, np.full(len(ids), poison))
        except Exception:  # refused, as it should be
            continue
    return missing("steps", trial.steps()[0], trial.every())


def stale(lab: Lab) -> Count:
    """See its rule: counted are draws that went to one step because another's priority was told."""
    trial = lab.trial(ENDED, capacity=64).play(60)
    subject: Any = trial.subject
    for _ in range(3):
        every = np.asarray(subject.sample(512)["id"])
        subject.feedback(every, np.ones(len(every)))
    told = np.asarray(subject.sample(512)["id"])[:1]
    trial.fill(2)
    trial.judged(64)  # what came meanwhile is taken in
    subject.feedback(told, np.full(1, 1e6))
    codes = trial.judged(2_000).codes
    _, drawn = np.unique(codes, return_counts=True)
    most = int(drawn.max())
    return Count(most if most > 1_000 else 0, len(codes), "draws",
                 "one step takes most of them" if most > 1_000 else "")  # fmt: skip
