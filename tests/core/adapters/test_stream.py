"""Stream: what comes back is what was told, whatever the loop, its stacks and its endings."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.adapters.stream import Stream
from core.errors import UsageError
from core.sampling.uniform import all_starts
from core.types import ArraySpec, ContinuousActions, DiscreteActions, EnvSpec
from tests.conftest import examples
from tests.core.adapters.loops import KINDS, Loop

GOES_ON, TERMINATED, TRUNCATED, INTERRUPTED = range(4)


def spec_of(item: np.ndarray, actions=None) -> EnvSpec:
    return EnvSpec({"obs": ArraySpec(item.shape, item.dtype)}, actions or DiscreteActions(5))


def play(stream: Stream, loops: list[Loop], fates: list[list[int]], rng) -> list[dict]:
    """Steps all lanes together; gives all that was told, with the row that each step became."""
    told, lanes = [], np.arange(len(loops))
    obs = np.stack([loop.reset() for loop in loops])
    for fate in fates:
        ends = np.array(fate)
        after = np.stack([loop.step() for loop in loops])
        action, reward = rng.integers(0, 5, len(loops)), rng.normal(size=len(loops))
        ended, cut = ends == TERMINATED, ends == TRUNCATED
        stream.add({"obs": obs}, {"obs": after}, action, reward, ended, cut)
        rows = stream.memory.ring.heads[lanes] - 2
        told += [
            {
                "key": (lane, int(rows[lane])),
                "obs": obs[lane],
                "next_obs": after[lane],
                "action": action[lane],
                "reward": np.float32(reward[lane]),
                "discount": np.float32(0.0 if ended[lane] else 0.99),
            }
            for lane in lanes
        ]
        obs = after.copy()
        for lane in np.flatnonzero(ends != GOES_ON):
            obs[lane] = loops[lane].reset()
    return told


def check_all(stream: Stream, told: list[dict]) -> int:
    """Compares every unit there is with what was told; gives how many there are."""
    lanes, rows = all_starts(stream.memory.starts)
    batch, by_key = stream.read(lanes, rows), {one["key"]: one for one in told}
    for at, key in enumerate(zip(lanes.tolist(), rows.tolist(), strict=True)):
        for name in ("obs", "next_obs", "action", "reward", "discount"):
            got, want = batch[name][at], by_key[key][name]
            assert got.tobytes() == np.asarray(want).astype(got.dtype).tobytes(), (key, name)
            assert got.shape == np.shape(want)
    return len(lanes)


fates = st.lists(
    st.sampled_from([GOES_ON] * 6 + [TERMINATED, TRUNCATED, INTERRUPTED]), min_size=2, max_size=2
)


@examples(60)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    window=st.integers(1, 4),
    zeros=st.tuples(st.booleans(), st.booleans()),
    course=st.lists(fates, min_size=1, max_size=30),
    codec=st.sampled_from(["raw", "lz4"]),
    seed=st.integers(0, 99),
)
def test_every_step_comes_back_as_it_was_told(kind, window, zeros, course, codec, seed):
    rng = np.random.default_rng(seed)
    loops = [Loop(rng, *KINDS[kind], window, each) for each in zeros]
    env = spec_of(loops[0].reset())
    keys = {"window_length": window, "frame_codec": codec, "chunk_frames": 4, "seed": 0}
    stream = Stream(env, 500, 2, keys)
    told = play(stream, loops, course, rng)
    assert check_all(stream, told) == len(told) == len(stream.memory)
    stream.memory.check()


@examples(30)
@given(course=st.lists(fates, min_size=40, max_size=60), seed=st.integers(0, 99))
def test_what_is_still_held_comes_back_once_the_oldest_went(course, seed):
    rng = np.random.default_rng(seed)
    loops = [Loop(rng, *KINDS["own axis"], 3, zeros) for zeros in (True, False)]
    stream = Stream(spec_of(loops[0].reset()), 40, 2, {"window_length": 3, "seed": 0})
    told = play(stream, loops, course, rng)
    assert 0 < check_all(stream, told) < len(told)
    batch = stream.sample(16)
    by_key = {one["key"]: one for one in told}
    for at, unit in enumerate(batch["id"].tolist()):
        want = by_key[(unit >> 40, unit & ((1 << 40) - 1))]
        assert (batch["obs"][at] == want["obs"]).all()
        assert (batch["next_obs"][at] == want["next_obs"]).all()


@examples(30)
@given(course=st.lists(fates, min_size=1, max_size=25), seed=st.integers(0, 99))
def test_zeros_and_first_frames_before_an_episode_with_n_step(course, seed):
    rng = np.random.default_rng(seed)
    loops = [Loop(rng, *KINDS["numbers"], 3, zeros) for zeros in (True, False)]
    keys = {"window_length": 3, "n_step": 3, "seed": 0}
    stream = Stream(spec_of(loops[0].reset()), 500, 2, keys)
    told = play(stream, loops, course, rng)
    by_key = {one["key"]: one for one in told}
    lanes, rows = all_starts(stream.memory.starts)
    batch = stream.read(lanes, rows)
    for at, (lane, row) in enumerate(zip(lanes.tolist(), rows.tolist(), strict=True)):
        last = row  # the last step of the sum: steps of an episode lie in rows side by side
        while last < row + 2 and (lane, last + 1) in by_key and by_key[(lane, last)]["discount"]:
            last += 1
        assert (batch["obs"][at] == by_key[(lane, row)]["obs"]).all()
        assert (batch["next_obs"][at] == by_key[(lane, last)]["next_obs"]).all()


def told_one(stream: Stream, obs, after, **ends) -> None:
    flags = [np.array([ends.get(name, False)]) for name in ("terminated", "truncated")]
    stream.add({"obs": obs[None]}, {"obs": after[None]}, np.array([1]), np.array([0.5]), *flags)


def make(window: int = 3, **keys) -> tuple[Stream, Loop]:
    loop = Loop(np.random.default_rng(0), *KINDS["own axis"], window, zeros=False)
    return Stream(spec_of(loop.reset()), 50, 1, {"window_length": window, "seed": 0, **keys}), loop


def test_a_stack_that_does_not_follow_is_refused_with_its_step():
    stream, loop = make()
    obs = loop.reset()
    after = loop.step()
    told_one(stream, obs, after)
    for _ in range(3):
        later = loop.step()
    with pytest.raises(ValueError, match=r"^step 2, lane 0: obs is neither the next_obs of the"):
        told_one(stream, later, loop.step())
    assert stream.memory.rows == 2, "a refused step changes nothing"
    told_one(stream, after, np.concatenate([after[1:], loop.new_frame()[None]]))
    assert len(stream.memory) == 2


def test_a_reset_observation_in_place_of_the_last_is_refused():
    stream, loop = make()
    obs = loop.reset()
    with pytest.raises(ValueError, match=r"^step 1, lane 0: next_obs is not obs and one frame"):
        told_one(stream, obs, loop.reset(), terminated=True)
    assert stream.memory.rows == 0


def test_one_bit_in_an_older_frame_is_noticed():
    stream, loop = make()
    obs = loop.reset()
    after = loop.step()
    after[0, 0, 0] ^= 1
    with pytest.raises(ValueError, match="step 1"):
        told_one(stream, obs, after)


def test_an_episode_may_begin_with_the_observation_that_the_last_one_ended_with():
    stream, loop = make(window=1)
    same = loop.reset()
    for _ in range(3):
        told_one(stream, same, same, terminated=True)
    assert len(stream.memory) == 3
    assert stream.memory.rows == 6


def test_the_step_that_only_resets_is_left_out():
    stream, loop = make(window=1, autoreset="next_step")
    obs = loop.reset()
    last = loop.step()
    told_one(stream, obs, last, terminated=True)
    first = loop.reset()
    told_one(stream, last, first)  # gymnasium: the action is ignored, the reward 0
    told_one(stream, first, loop.step())
    assert len(stream.memory) == 2
    lanes, rows = all_starts(stream.memory.starts)
    assert (stream.read(lanes, rows)["obs"][1] == first).all()


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_pickled_stream_goes_on_and_draws_the_same(prefetch):
    stream, loop = make(prefetch=prefetch)
    rng = np.random.default_rng(1)
    told = play(stream, [loop], [[GOES_ON]] * 20 + [[TERMINATED]] + [[GOES_ON]] * 5, rng)
    twin = pickle.loads(pickle.dumps(stream))
    assert check_all(twin, told) == 26
    one, other = stream.sample(8), twin.sample(8)
    assert all((one[name] == other[name]).all() for name in one)
    assert twin.steps == 26
    after = loop.step()
    told_one(twin, told[-1]["next_obs"], after)
    assert len(twin.memory) == 27, "the step follows the one before the pickling"


def test_actions_that_are_numbers():
    loop = Loop(np.random.default_rng(0), *KINDS["numbers"], 1, zeros=False)
    stream = Stream(spec_of(loop.reset(), ContinuousActions((-1.0, -1.0), (1.0, 1.0))), 20, 1, {})
    obs, action = loop.reset(), np.array([[0.25, -0.5]], np.float32)
    end = np.array([False])
    stream.add({"obs": obs[None]}, {"obs": loop.step()[None]}, action, np.array([1.0]), end, end)
    assert stream.sample(1)["action"].tolist() == [[0.25, -0.5]]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"memory_byte": 5}, "no key 'memory_byte'; did you mean 'memory_bytes'?"),
        ({"frame_codec": "zip"}, "frame_codec = 'zip' is not allowed"),
        ({"window_length": 5}, "holds no 5 frames on its first or last axis"),
        ({"window_length": 0}, "window_length = 0 is not allowed"),
        ({"autoreset": "later"}, "autoreset = 'later' is not allowed"),
    ],
)
def test_wrong_keys_are_refused_in_a_line(keys, message):
    with pytest.raises(UsageError) as refused:
        Stream(
            EnvSpec({"obs": ArraySpec((3, 17, 16), np.dtype(np.uint8))}, DiscreteActions(2)),
            50,
            1,
            keys,
        )
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_steps_over_time_are_those_told_one_by_one():
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(9, 2, 3)).astype(np.float32)  # time, lanes
    action, reward = rng.integers(0, 5, (8, 2)), rng.normal(size=(8, 2))
    ended, cut = rng.random((2, 8, 2)) < 0.2
    cut &= ~ended
    one, other = (Stream(spec_of(obs[0, 0]), 60, 2, {"seed": 0}) for _ in range(2))
    one.extend({"obs": obs[:-1]}, {"obs": obs[1:]}, action, reward, ended, cut)
    for at in range(8):
        told = action[at], reward[at], ended[at], cut[at]
        other.add({"obs": obs[at]}, {"obs": obs[at + 1]}, *told)
    assert one.steps == other.steps == 8
    assert len(one.memory) == 16
    mine, theirs = one.sample(64), other.sample(64)
    assert all((mine[name] == theirs[name]).all() for name in mine)


def test_another_dtype_or_shape_is_refused():
    stream, loop = make()
    obs = loop.reset()
    with pytest.raises(ValueError, match=r"step 1: 'obs' is float64 \(1, 3, 17, 16\), not uint8"):
        told_one(stream, obs.astype(float), obs)
