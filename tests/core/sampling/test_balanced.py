"""Balanced draws: which stratum a step is in, how often it comes, and what its weight says."""

import copy
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import CorruptMemoryError
from core.sampling.balanced import Balance, Balanced
from core.sampling.uniform import all_starts
from tests.conftest import examples
from tests.oracles import test_episodic_oracle as episodic
from tests.oracles.episodic_history import EpisodicTwin
from tests.oracles.test_sequential_oracle import LIVES, SHORT, small_blocks, tight_worlds, worlds
from tests.oracles.worlds import STEP, TERMINATE, World

from .sampled import Rounded, RoundedTwin, SampledWorld, memory_of, play

SHARES = (0.5, 0.2, 0.3)


class RoundedEpisodicTwin(Rounded, EpisodicTwin):
    pass


def sign_of(unit, by: str) -> int:
    """0, 1, 2 for positive, zero, negative: of the reward, or of the return so far."""
    rewards = [happened.reward for happened in unit.episode.steps]
    value = rewards[unit.at] if by == "reward" else sum(rewards)
    return 1 - int(np.sign(value))


class Watched:
    """A twin with a balanced sampler over its memory, compared after each tick."""

    def __init__(self, twin, by: str) -> None:
        memory, reach = twin.memory, twin.world.window - 1
        self.twin, self.by = twin, by
        self.sampler = Balanced(memory._ring, memory._view, reach, Balance(by, SHARES))
        self.rng = np.random.default_rng(3)

    def look(self) -> None:
        memory, units = self.twin.memory, self.twin.history.units()
        if not units:
            with pytest.raises(ValueError, match="nothing that can be sampled"):
                self.sampler.draw(memory.starts, 3, self.rng)
            return
        size = int(self.rng.integers(1, 12))
        draw = self.sampler.draw(memory.starts, size, self.rng)
        strata = np.array([sign_of(unit, self.by) for unit in units])
        counts = np.bincount(strata, minlength=3)
        shares = np.where(counts > 0, SHARES, 0)
        shares /= shares.sum()
        chances = shares[strata] / counts[strata]
        np.testing.assert_allclose(self.sampler.chances(*all_starts(memory.starts)), chances)
        place = {(unit.lane, unit.row): at for at, unit in enumerate(units)}
        drawn = [place[unit] for unit in zip(draw.lanes.tolist(), draw.rows.tolist(), strict=True)]
        weights = 1 / (len(units) * chances[drawn])
        np.testing.assert_allclose(draw.weight, weights, rtol=1e-6)
        came = np.bincount(strata[drawn], minlength=3)
        assert (np.abs(came - size * shares) < 1 + 1e-9).all()
        self.sampler.check()


def watch(twin, by: str, life: bytes) -> None:
    watched = Watched(twin, by)

    def look() -> None:
        if twin.world.room is not None:
            twin.history.floor = twin.memory._ring.tails.tolist()
        watched.look()

    twin.after_each = look
    twin.live(life)


BY = st.sampled_from(["reward", "return"])


@examples(25)
@given(worlds(), LIVES, BY)
def test_every_step_is_drawn_by_its_stratum(world: World, life: bytes, by: str) -> None:
    watch(RoundedTwin(world), by, life)


@examples(20)
@given(tight_worlds(), SHORT, BY)
def test_also_where_the_tail_moves_by_chunks(world: World, life: bytes, by: str) -> None:
    with small_blocks():
        watch(RoundedTwin(world), by, life)


@examples(15)
@given(episodic.worlds(), LIVES, BY)
def test_also_where_episodes_go_as_a_whole(world, life: bytes, by: str) -> None:
    watch(RoundedEpisodicTwin(world), by, life)


def test_rows_that_came_and_went_unseen_are_no_trouble() -> None:
    twin = RoundedTwin(World(lanes=2, capacity=20, window=2))
    watched = Watched(twin, "reward")
    for tick in range(100):
        twin.tick([STEP, TERMINATE if tick % 3 else STEP])
        if tick % 37 == 0:
            watched.look()


def test_each_step_of_a_stratum_comes_as_often() -> None:
    memory = memory_of(300, sampler="balanced")
    rewards = np.random.default_rng(0).choice([0, 0, 0, 0, 2, -1], 280)
    play(memory, rewards, length=13)
    drawn = np.concatenate([memory.sample(40)["id"] for _ in range(1_500)])
    lanes, rows = all_starts(memory.starts)
    expected = 60_000 * memory._kept["balanced"].chances(lanes, rows)
    counts = np.bincount(drawn, minlength=400)[rows]
    chi, degrees = float(((counts - expected) ** 2 / expected).sum()), len(rows) - 1
    spread = 2 / (9 * degrees)
    assert chi < degrees * (1 - spread + 4.75 * math.sqrt(spread)) ** 3
    assert counts.min() > 0


@pytest.mark.parametrize("by", ["reward", "return"])
def test_shares_are_those_asked_for_and_weighted_means_are_unbiased(by: str) -> None:
    balance = {"positive": 5, "zero": 2, "negative": 3}
    memory = memory_of(2_000, sampler="balanced", balance=balance, balance_by=by)
    rng = np.random.default_rng(1)
    play(memory, rng.choice([0] * 47 + [1, 1, -3], 1_900), length=30 if by == "reward" else 5)
    memory.sample(1)
    sampler = memory._kept["balanced"]
    lanes, rows = all_starts(memory.starts)
    x = rng.normal(5, 3, 3_000)
    means, strata = [], []
    of_share = {0.5: 0, 0.2: 1, 0.3: 2}
    chances = sampler.chances(lanes, rows)
    steps = {chance: (chances == chance).sum() for chance in set(chances)}
    for _ in range(1_000):
        batch = memory.sample(32)
        means.append((batch["weight"] * x[batch["id"]]).mean())
        here = sampler.chances(np.zeros(32, int), batch["id"])
        strata += [of_share[round(chance * steps[chance], 6)] for chance in here.tolist()]
    shares = np.bincount(strata) / len(strata)
    assert np.abs(shares - [0.5, 0.2, 0.3]).max() < 0.01
    error = np.std(means) / math.sqrt(len(means))
    assert abs(np.mean(means) - x[rows].mean()) < 4 * error < 0.4
    plain = memory_of(100, sampler="balanced", balance_weights=False)
    play(plain, [1, 0, 0, 0])
    assert (plain.sample(9)["weight"] == 1).all()


def test_an_empty_stratum_leaves_its_share_to_the_others() -> None:
    memory = memory_of(100, sampler="balanced")
    play(memory, [0, 0, 0, -1])
    reward = memory.sample(400)["reward"]
    assert (reward == -1).sum() == 200


def test_the_share_is_exact_in_expectation_where_it_is_no_whole_number() -> None:
    memory = memory_of(100, sampler="balanced")
    play(memory, [1, 0, -1])
    rewards = [memory.sample(4)["reward"] for _ in range(3_000)]
    counts = np.array([[(one == sign).sum() for sign in (1, 0, -1)] for one in rewards])
    assert set(counts.ravel().tolist()) == {1, 2}
    assert np.abs(counts.mean(axis=0) - 4 / 3).max() < 0.05


@examples(25)
@given(st.integers(0, 99), SHORT, SHORT, BY)
def test_a_saved_one_goes_on_identically(seed: int, life: bytes, after: bytes, by: str) -> None:
    keys = {"sampler": "balanced", "balance_by": by}
    world = SampledWorld(lanes=2, window=2, capacity=24, seed=seed, keys=keys)
    twin, other = RoundedTwin(world), RoundedTwin(world)

    def draw() -> None:
        if len(twin.memory) and twin.rng.random() < 0.7:
            twin.memory.sample(2)

    twin.after_each = draw
    twin.live(life)
    twin.after_each = None
    other.memory.load(copy.deepcopy(twin.memory.state()))
    other.history = copy.deepcopy(twin.history)
    other.go_on_as(twin)
    other.renew()
    for events in [None, *twin.events(after)]:
        if events is not None:
            twin.tick(events)
            other.tick(events)
        if len(twin.memory):
            one, two = twin.memory.sample(7), other.memory.sample(7)
            assert all((one[name] == two[name]).all() for name in one)


def test_the_return_of_an_episode_that_lost_rows_is_remembered_across_a_save() -> None:
    memory = memory_of(10, sampler="balanced", balance_by="return")
    writer = memory.writer()
    zero, no = {"obs": np.zeros(1, np.float32)}, np.zeros(1, np.bool_)

    def step(reward: float, last: bool = False) -> None:
        writer.append(np.zeros(1, int), np.full(1, reward), no | last, no, zero)
        memory.sample(1)

    writer.start(zero)
    for reward in [9, *[-1] * 5]:
        step(reward)
    step(-1, last=True)  # in all 3, of which 9 is soon gone
    writer.start(zero)
    for _ in range(5):
        step(0)
    other = memory_of(10, sampler="balanced", balance_by="return")
    other.load(copy.deepcopy(memory.state()))
    for one in (memory, other):
        one.sample(1)
        lanes, rows = all_starts(one.starts)
        assert rows.tolist() == [4, 5, 6, 8, 9, 10, 11, 12]
        found = one._kept["balanced"].chances(lanes, rows)
        np.testing.assert_allclose(found, [1 / 6] * 3 + [1 / 10] * 5)
        assert one._kept["balanced"]._found[0].tolist() == [3, 5, 0]


def test_check_finds_rows_that_were_never_written() -> None:
    memory = memory_of(10, sampler="balanced")
    play(memory, [1, 0])
    memory.sample(1)
    memory.check()
    memory._kept["balanced"]._books[2, 0] = 99
    with pytest.raises(CorruptMemoryError, match="never written"):
        memory.check()
