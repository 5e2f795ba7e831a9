import numpy as np
import pytest

from agents.population import CLIP, LEAST_STD, Normalizer, Population
from core.checkpoint import check_finite, from_bytes, to_bytes
from core.parameters.generation import Generation
from core.seeding import SeedTree
from tests.agents.search_worlds import CEM, Search, Walk
from tests.harness import equal_trees

# The normalizer.


def sums_of(seen: list[np.ndarray]) -> np.ndarray:
    """`[P, 3, D]` of what each candidate saw."""
    return np.array([[np.full(s.shape[1], len(s)), s.sum(0), (s**2).sum(0)] for s in seen])


def sights(seed: int, counts: list[int], size: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal([5.0, -2.0, 0.0], [3.0, 0.5, 1.0], (count, size)) for count in counts]


def test_what_was_seen_gives_mean_and_spread():
    normalizer = Normalizer(3, on=True)
    generations = [sights(0, [4, 9, 0]), sights(1, [30]), sights(2, [1, 1, 5])]
    for seen in generations:
        normalizer.fold(sums_of(seen))
    everything = np.concatenate([s for seen in generations for s in seen])
    inputs = np.float32([[5.5, -2.2, 0.3], [4.0, -1.0, 2.0]])
    expected = (inputs - everything.mean(0)) / everything.std(0)
    assert np.allclose(normalizer(inputs), expected, atol=1e-4)


def test_a_normalizer_that_is_off_or_has_seen_nothing_changes_nothing():
    inputs = np.float32([[50.0, 1.0, -3.0]])
    off = Normalizer(3, on=False)
    off.fold(sums_of(sights(0, [10])))
    assert off(inputs) is inputs
    assert Normalizer(3, on=True)(inputs) is inputs


def test_what_is_far_out_is_clipped_and_what_never_moves_is_not_blown_up():
    normalizer = Normalizer(2, on=True)
    seen = np.array([[1.0, 7.0], [3.0, 7.0]])  # spread 1, and none
    normalizer.fold(sums_of([seen]))
    assert np.allclose(normalizer(np.float32([[1e6, 7.0]])), [[CLIP, 0.0]])
    assert np.allclose(normalizer(np.float32([[-1e6, 7.0 + LEAST_STD]])), [[-CLIP, 1.0]], atol=1e-3)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_no_number_is_left_out(wrong: float):
    clean, spoilt = Normalizer(3, on=True), Normalizer(3, on=True)
    seen = sights(3, [5, 6])
    faulty = np.array([[wrong, 0.0, 1.0]])
    clean.fold(sums_of(seen))
    spoilt.fold(sums_of([seen[0], faulty, seen[1]]))
    assert equal_trees(clean.state(), spoilt.state())


def test_a_loaded_normalizer_sees_as_the_saved_one():
    first, second = Normalizer(3, on=True), Normalizer(3, on=True)
    first.fold(sums_of(sights(0, [20])))
    state = first.state()
    second.load(state)
    inputs = np.float32([[4.0, -2.0, 1.0]])
    assert np.array_equal(first(inputs), second(inputs))
    first.fold(sums_of(sights(1, [20])))  # what was saved is a copy
    again = Normalizer(3, on=True)
    again.load(state)
    assert np.array_equal(again(inputs), second(inputs))


# Handing out candidates.


def generation(number: int = 0, size: int = 5) -> Generation:
    return Generation(
        number, np.zeros(4, np.float32), np.ones(1, np.float32),
        np.arange(size, dtype=np.int64), np.ones(size, np.int8),
    )  # fmt: skip


def population(on: bool = False) -> Population:
    return Population(SeedTree(0), Normalizer(2, on), 2)


def test_each_candidate_is_handed_out_once():
    people = population()
    people.begin(generation())
    assert [people.take(2), people.take(2), people.take(2), people.take(2)] == [
        [0, 1],
        [2, 3],
        [4],
        [],
    ]
    people.begin(generation(1))
    assert people.take(9) == [0, 1, 2, 3, 4]


def test_each_candidate_has_an_episode_of_its_own():
    people, seeds = population(), []
    for number in range(4):
        people.begin(generation(number))
        seeds += people.episode_seeds(range(5))
        assert people.episode_seeds([3]) == seeds[-2:-1]
    assert len(set(seeds)) == 20
    assert not set(seeds) & set(SeedTree(0).integers("env", 100))  # the lanes' own first episodes


def test_what_is_seen_counts_from_the_next_generation_on():
    people, inputs = population(on=True), np.float32([[1.0, 2.0], [3.0, 6.0]])
    people.begin(generation())
    people.watch(np.array([0, 3]), inputs)
    assert people.normalizer(inputs) is inputs
    people.begin(generation(1))
    assert np.allclose(people.normalizer(inputs), [[-1.0, -1.0], [1.0, 1.0]], atol=1e-5)
    people.watch(np.array([0]), inputs[:1] * 100)
    assert np.allclose(people.normalizer(inputs), [[-1.0, -1.0], [1.0, 1.0]], atol=1e-5)


def test_all_that_a_candidate_sees_counts():
    people, inputs = population(on=True), np.float32([[1.0, 2.0], [3.0, 6.0]])
    people.begin(generation())
    for seen in inputs:
        people.watch(np.array([2]), seen[None])
    people.begin(generation(1))
    assert people.normalizer.state()["count"] == 2
    assert np.allclose(people.normalizer(inputs), [[-1.0, -1.0], [1.0, 1.0]], atol=1e-5)


def test_those_given_back_are_handed_out_first():
    people = population()
    people.begin(generation())
    assert people.take(4) == [0, 1, 2, 3]
    people.give_back([3])
    people.give_back([0, 2])
    assert people.take(2) == [0, 2]
    assert people.take(2) == [3, 4]
    people.give_back([4])
    assert [people.take(3), people.take(3)] == [[4], []]
    people.give_back([1])
    people.begin(generation(1))
    assert people.take(9) == [0, 1, 2, 3, 4]


def test_what_one_given_back_saw_is_forgotten():
    people, inputs = population(on=True), np.float32([[1.0, 2.0], [3.0, 6.0]])
    people.begin(generation())
    people.watch(np.array([0, 3]), inputs)
    people.give_back([3])
    people.begin(generation(1))
    assert people.normalizer.state()["count"] == 1
    assert people.normalizer.state()["mean"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("on", [False, True])
def test_a_loaded_population_goes_on_within_its_generation(on: bool):
    people, other = population(on), population(on)
    people.begin(generation(7))
    people.take(3)
    people.give_back([1])
    people.watch(np.array([0, 2]), np.float32([[1.0, 2.0], [np.nan, np.inf]]))
    check_finite(people.state(), 0)  # a checkpoint takes it
    state, again = from_bytes(to_bytes(people.state()), ""), people.state()
    other.begin(generation(2, size=9))
    other.load(state)
    assert equal_trees(other.state(), people.state())
    for both in (people, other):
        assert both.generation.number == 7
        assert both.take(2) == [1, 3]
        both.watch(np.array([0, 1]), np.float32([[3.0, 6.0], [2.0, 4.0]]))
    assert equal_trees(state, again)  # what is saved is a copy
    for both in (people, other):
        both.begin(generation(8))
        # what candidate 2 saw is left out
        assert both.normalizer.state()["count"] == (3 if on else 0)
        assert not on or both.normalizer.state()["mean"].tolist() == [2.0, 4.0]


# The same result whatever the number of lanes.


@pytest.mark.parametrize("normalize_obs", [False, True])
@pytest.mark.parametrize("agent", ["es", "cem"])
def test_lanes_change_nothing(agent: str, normalize_obs: bool):
    """Bit for bit; with fewer lanes than candidates, and with more."""
    keys = {"agent_type": agent, "normalize_obs": normalize_obs}
    searches = [Search(num_envs=lanes, **keys).go(5) for lanes in (1, 3, 8)]
    first = searches[0]
    assert not np.array_equal(first.mean, Search(**keys).mean)
    for other in searches[1:]:
        assert equal_trees(other.state, first.state)
        assert other.told == first.told
        assert other.memory.compare().tobytes() == first.memory.compare().tobytes()
        assert other.parts.clock.step == first.parts.clock.step
    assert not np.array_equal(Search(seed=2, **keys).go(5).mean, first.mean)


@pytest.mark.parametrize("agent", ["es", "cem"])
def test_lanes_change_nothing_on_cartpole(agent: str):
    keys = {
        "agent_type": agent, "game": "CartPole-v1", "time_limit": 40, "normalize_obs": True,
        "hidden_sizes": (8,), "window_length": 2,
    }  # fmt: skip
    one, three, eight = (Search(num_envs=lanes, **keys).go(3) for lanes in (1, 3, 8))
    assert equal_trees(one.state, three.state) and equal_trees(one.state, eight.state)


def test_candidates_play_episodes_of_their_own_whatever_their_lane():
    played = {}
    for lanes in (1, 4):
        Walk.seeds.clear()
        search = Search(num_envs=lanes)
        begun = len(Walk.seeds)
        search.go(3)
        played[lanes] = sorted(Walk.seeds[begun:])
        assert len(set(played[lanes])) == len(played[lanes])
    # of the generation at play some have begun, more or fewer of them
    complete = played[1][: 3 * 6]
    assert len(complete) == 18 and set(played[1]) <= set(played[4])


def test_steps_of_lanes_that_wait_do_not_count():
    search = Search(num_envs=8, population=6).go(4)  # two lanes never play
    earned = search.memory.compare()
    assert earned["length"].sum() == search.parts.clock.step
    assert search.rollout.episodes.finished == len(earned) == 24
    assert sorted(search.rollout.episodes.lengths) == sorted(earned["length"])
    assert sorted(search.rollout.episodes.returns) == pytest.approx(sorted(earned["total_reward"]))
    assert search.rollout.episodes.infos["age"].count == search.parts.clock.step


def test_nobody_waits_for_ever_where_learning_is_rare():
    """A whole generation ends before learning is due by the clock, which then stands still."""
    search = Search(num_envs=3)
    while not search.rollout.waiting:
        search.rollout.step(0)
    assert search.rollout.step(0) == 0
    search.go(1)
    assert not search.rollout.waiting or search.rollout.step(0) > 0


def test_lanes_that_waited_play_as_soon_as_there_is_somebody():
    """Also where their own idle episode is not over yet."""
    search = Search(num_envs=4)
    search.go(1)
    assert search.actor.playing.tolist() != [True] * 4
    search.step()
    assert search.actor.playing.tolist() == [True] * 4


def test_a_rare_train_interval_finishes(tmp_path):
    from tests.agents.search_worlds import ROW
    from tests.harness import Run

    run = Run(tmp_path, ROW, train_interval=900, eval_freq=0).go()
    assert run.result["status"] == "finished" and run.result["steps"] >= 1_000
    assert run.result["updates"] > 20


# Actors.


def test_a_training_actor_sees_what_evaluation_sees():
    """Else candidates are judged by other sights than the incumbent that is made of them."""
    search = Search(normalize_obs=True, num_envs=2)
    shown: list[np.ndarray] = []
    act = search.agent._policy.act
    search.agent._policy.act = lambda parameters, inputs: (
        shown.append(inputs.copy()), act(parameters, inputs)
    )[1]  # fmt: skip
    search.go(3)
    shown.clear()
    for _ in range(30):
        search.step()
    # the first number is always near 3, and spread 0.1: normalized it is near 0, and spread 1
    first = np.concatenate(shown)[:, 0]
    assert abs(first.mean()) < 0.5 and 0.5 < first.std() < 2.0


@pytest.mark.parametrize("normalize_obs", [False, True])
def test_the_incumbent_is_the_mean_and_is_what_evaluation_plays(normalize_obs: bool):
    search = Search(normalize_obs=normalize_obs, num_envs=2)
    fresh = search.agent.actor(50, np.random.default_rng(0))
    frozen = search.agent.actor(50, np.random.default_rng(0), weights=search.agent.weights())
    begin = search.agent.weights()
    search.go(6)
    obs = {"obs": np.random.default_rng(1).normal([3, 0], [0.1, 2.0], (50, 2)).astype(np.float32)}
    first = np.ones(50, np.bool_)

    def expected(weights: dict) -> np.ndarray:
        normalizer = Normalizer(2, normalize_obs)
        normalizer.load(weights["normalizer"])
        parameters = np.tile(weights["mean"], (50, 1))
        return search.agent._policy.act(parameters, normalizer(obs["obs"]))

    live = fresh.act(obs, first, 0, explore=False)[0]
    assert np.array_equal(live, expected(search.agent.weights()))
    assert np.array_equal(frozen.act(obs, first, 0, explore=False)[0], expected(begin))
    assert not np.array_equal(live, expected(begin))
    frozen.take(search.agent.weights())
    assert np.array_equal(frozen.act(obs, first, 0, explore=False)[0], live)


def test_greedy_steps_of_a_training_actor_disturb_no_candidate():
    calm, disturbed = Search(normalize_obs=True), Search(normalize_obs=True)
    other = disturbed.agent.actor(4, np.random.default_rng(0))
    obs = {"obs": np.ones((4, 2), np.float32)}
    calm.go(3)
    while len(disturbed.told) < 3:
        disturbed.step()
        other.act(obs, np.ones(4, np.bool_), 0, explore=False)
    assert equal_trees(calm.state, disturbed.state)


def test_extras_name_who_plays():
    search = Search(num_envs=8, population=6)
    search.step()
    obs = {"obs": np.zeros((8, 2), np.float32)}
    _, extras = search.actor.act(obs, np.zeros(8, np.bool_), 0, explore=True)
    spec = search.agent.extras()["candidate"]
    assert extras.keys() == search.agent.extras().keys()
    assert extras["candidate"].dtype == spec.dtype and extras["candidate"].shape == (8,)
    assert extras["candidate"].tolist() == [0, 1, 2, 3, 4, 5, -1, -1]
    assert search.actor.playing.tolist() == [True] * 6 + [False] * 2


# State.


@pytest.mark.parametrize("steps", [0, 13])
@pytest.mark.parametrize("agent", ["es", "cem"])
def test_a_loaded_search_is_the_saved_one(agent: str, steps: int):
    keys = {"agent_type": agent, "normalize_obs": True, "num_envs": 2}
    first = Search(**keys).go(3)
    for _ in range(steps):
        first.step()
    assert len(first.told) == 3
    # into one that has played already, in other lanes: nothing of that may be left
    second = Search(**{**keys, "num_envs": 3, "seed": 1}).go(2)
    for _ in range(3):
        second.step()
    second.agent.load(first.state)
    assert equal_trees(second.state, first.state)


@pytest.mark.parametrize("lanes", [1, 2, 8])
@pytest.mark.parametrize("steps", [0, 1, 2, 5, 11, 12])
@pytest.mark.parametrize("agent", ["es", "cem"])
def test_broken_off_candidates_play_again_and_earn_the_same(agent: str, steps: int, lanes: int):
    """Where a world cannot be put back, the search still moves as if nothing had been."""
    keys = {"agent_type": agent, "normalize_obs": True, "num_envs": lanes}
    whole = Search(**keys).go(2)
    for _ in range(steps):
        whole.step()
    past = {part: getattr(whole, part).state() for part in ("agent", "memory", "rollout")}
    rollout = {key: part for key, part in past["rollout"].items() if key != "env"}
    at = len(whole.told)
    parted = Search(past={**past, "rollout": rollout}, **keys)
    for search in (whole, parted):
        search.go(4)
    assert whole.told[at:] == parted.told
    assert equal_trees(whole.state, parted.state)
    assert whole.memory.compare().tobytes() == parted.memory.compare().tobytes()


def test_an_actor_knows_by_its_state_who_plays():
    search = Search(normalize_obs=True, num_envs=4).go(2)
    obs, none = {"obs": np.ones((4, 2), np.float32)}, np.zeros(4, np.bool_)
    taken = search.agent.weights()
    search.go(1)
    while search.actor.playing.tolist() != [True, True, False, False]:
        search.step()
    other = search.agent.actor(4, np.random.default_rng(0), weights=taken)
    for actor, weights in ((search.actor, {}), (search.agent.actor(4, None, weights=taken), taken)):
        state = actor.state()
        assert not equal_trees(other.state(), state)
        other.load(from_bytes(to_bytes(state), ""))
        assert equal_trees(other.state(), state)
        assert other.playing.tolist() == actor.playing.tolist()
        assert np.array_equal(other._parameters, actor._parameters)
        assert equal_trees(dict(other.state()["taken"]), dict(weights))
        for explore in (True, False):
            one, two = (a.act(obs, none, 0, explore=explore)[0] for a in (actor, other))
            assert np.array_equal(one, two)


def test_what_is_saved_is_a_copy():
    search = Search(**CEM, normalize_obs=True).go(2)
    saved, again = search.state, search.state
    search.go(2)
    assert equal_trees(saved, again) and not equal_trees(saved, search.state)
