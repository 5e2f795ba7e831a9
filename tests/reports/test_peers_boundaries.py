"""Defects of other replay memories at the edges of episodes and rings; see `peers`."""

import tracemalloc

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import FrameStackObservation

from core.envs.options import ToyOptions
from core.envs.toy import Counter, Moment, encode
from core.episodes.stacking import FrameStack
from core.memory import Memory
from core.rollout import Rollout
from core.types import ArraySpec
from tests.core.envs.worlds import MODES, counters, vector
from tests.harness import equal_trees
from tests.reports.peer_worlds import (
    SIDE,
    U8,
    Seen,
    Told,
    copied,
    each_codec,
    each_draw,
    each_kind,
    earned,
    every_codec,
    fill,
    make,
    moments,
    pictures,
    read_all,
    seen,
    units,
)
from tests.reports.peers import peers


@peers(24)
@each_codec
@each_kind
def test_24_a_truncated_episode_keeps_its_last_frame(kind: str, codec: str) -> None:
    # DLR-RM/stable-baselines3#934: saving one frame a step, a time-out bootstrapped from the next
    # episode's reset frame; right is the frame that the cut step led to, at full discount
    last = Told(kind, 64, codec, window_length=2).tell("s..cs..").units()[2]
    assert last == Seen([(0, 1), (0, 2)], [(0, 2), (0, 3)], 3, 0.5)


@peers(25)
@pytest.mark.parametrize("limit", range(8, 16))
@each_codec
@each_kind
def test_25_no_successor_is_overwritten_wherever_the_ring_turns(
    kind: str, codec: str, limit: int
) -> None:
    # vwxyzjn/cleanrl#460: next_obs is obs[i + 1] there, which the next episode or the write head
    # overwrites; right is the own successor, with the cut-off on every slot of the ring
    told, slots = Told(kind, limit, codec), set()
    for _ in range(20):
        for word in "s..c":
            for row, unit in told.tell(word).units().items():
                ((episode, step),) = unit.stack
                assert unit == Seen([(episode, step)], [(episode, step + 1)],
                                    earned(episode, step), 0.5)  # fmt: skip
                if step == 2:
                    slots.add(row % limit)
    # an episode takes four rows: its last step comes by every slot that the sizes allow
    assert len(slots) == limit // np.gcd(4, limit)


@peers(26)
@pytest.mark.parametrize("renew", [True, False])
@each_codec
def test_26_a_start_in_the_middle_joins_nothing(codec: str, renew: bool) -> None:
    # DLR-RM/stable-baselines3#46: a second learn() resets the env, and joined the last step before
    # it to the first frame after it; right is that the open episode counts as truncated
    told = Told("sequential", 64, codec, window_length=2, n_step=3).tell("s...")
    if renew:
        told.renew()
    found = told.tell("s..").units()
    assert sorted(found) == [0, 1, 2, 4, 5]
    assert found[1] == Seen([(0, 0), (0, 1)], [(0, 2), (0, 3)], 2 + 3 / 2, 0.25)
    assert found[2] == Seen([(0, 1), (0, 2)], [(0, 2), (0, 3)], 3, 0.5)
    assert found[4].stack == [(1, 0), (1, 0)]


@peers(27)
@each_codec
@each_draw
def test_27_a_cut_episode_is_neither_stacked_over_nor_sampled_past(
    kind: str, keys: dict, codec: str
) -> None:
    # google/dopamine#213: validity looks at `terminal`, which a truncation does not set, so stacks
    # cross it and padding rows are drawn; right is that rows know their episode
    told = Told(kind, 64, codec, window_length=4, **keys).tell("s..c" * 5 + "s..")
    steps = [4 * episode + step for episode in range(5) for step in range(3)] + [20, 21]
    assert len(told.memory) == len(steps) == 17
    assert sorted(told.units()) == steps
    for row, unit in told.units().items():
        episode, step = divmod(row, 4)
        assert unit.stack == [(episode, max(0, step - back)) for back in (3, 2, 1, 0)]
        assert unit.then == [(episode, max(0, step + 1 - back)) for back in (3, 2, 1, 0)]
    assert set(seen(told.memory.sample(1_000))) == set(steps)


@peers(28)
@pytest.mark.parametrize("limit", [7, 11, 12])
@each_codec
@each_kind
def test_28_no_stack_crosses_the_write_head(kind: str, codec: str, limit: int) -> None:
    # berkeleydeeprlcourse/homework#52: at the write head a stack mixed newest and oldest frames
    told = Told(kind, limit, codec, window_length=4).tell("s")
    for now in range(1, 5 * limit):
        for row, unit in told.tell(".").units().items():
            assert unit.stack == [(0, max(0, row - back)) for back in (3, 2, 1, 0)]
            assert unit.then[-1] == (0, row + 1)
            assert now - limit < row < now


@peers(29)
@each_codec
@each_kind
def test_29_the_newest_step_leads_to_the_frame_that_came_and_never_to_garbage(
    kind: str, codec: str
) -> None:
    # huggingface/lerobot PR#918: next_state of the newest step is a row not written yet; right is
    # that the open row holds it, and is no step itself
    told = Told(kind, 20, codec)
    ring = told.memory.state()["ring"]
    garbage = ring["frames"]["obs"] if codec == "raw" else ring["chunks"]["obs"]["open"]
    garbage[...] = 255
    told.tell("s")
    assert len(told.memory) == 0
    for step in range(15):
        found = told.tell(".").units()
        assert sorted(found) == list(range(step + 1))
        assert found[step] == Seen([(0, step)], [(0, step + 1)], step + 1, 0.5)


@peers(30)
@each_codec
@each_kind
def test_30_the_oldest_end_shows_no_frame_that_is_gone(kind: str, codec: str) -> None:
    # keras-rl/keras-rl PR#138, Kaixhin/Rainbow#42, tensorforce/tensorforce#138: at the oldest end
    # windows show zeros or overwritten frames, at the newest the wrong successor. Of rows 5 to 10,
    # 5 and 6 have lost a frame of their three, and 10 has no successor yet
    found = Told(kind, 6, codec, window_length=3).tell("s" + "." * 10).units()
    assert {row: unit.stack for row, unit in found.items()} == {
        7: [(0, 5), (0, 6), (0, 7)],
        8: [(0, 6), (0, 7), (0, 8)],
        9: [(0, 7), (0, 8), (0, 9)],
    }
    assert found[9].then == [(0, 8), (0, 9), (0, 10)]
    # of episodes of three rows the tail cut the second one: its step (1, 1), row 4, is no start
    found = Told(kind, 8, codec, window_length=3).tell("s.c" * 4).units()
    assert {row: unit.stack for row, unit in found.items()} == {
        6: [(2, 0)] * 3,
        7: [(2, 0), (2, 0), (2, 1)],
        9: [(3, 0)] * 3,
        10: [(3, 0), (3, 0), (3, 1)],
    }


@peers(31)
@every_codec
@each_draw
def test_31_reading_changes_nothing_but_the_generator(kind: str, keys: dict, codec: str) -> None:
    # thu-ml/tianshou#82: get() changed the index it was given; #153: update() stored stacks
    memory = make(kind, 60, codec, window_length=3, **keys)
    fill(memory.writer(), pictures("half", (SIDE, SIDE)), 100, 7)
    before, claimed, count = copied(memory.state()), memory.usage(), len(memory)
    whole = memory.sample(40)
    memory.sample(40, columns=["obs", "id"])
    memory.sample(40, out={name: np.zeros_like(array) for name, array in whole.items()})
    memory.check()
    if kind == "episodic":
        memory.latest()
        memory.episodes()
    after = copied(memory.state())
    assert after.pop("rng") != before.pop("rng")
    assert not equal_trees(after["kept"].pop("use"), before["kept"].pop("use")), "draws are counted"
    assert equal_trees(before, after)
    assert (memory.usage(), len(memory), memory.ready(9)) == (claimed, count, True)


class Idle:
    """An actor of any number of lanes that does nothing."""

    playing = None

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes

    def restarts(self, first: np.ndarray) -> None:
        return None

    def act(self, obs: object, first: object, step: int, *, explore: bool) -> tuple:
        return np.zeros(self._lanes, np.int64), {}


LENGTHS = (3, 5)


def lived(kind: str, codec: str, mode: AutoresetMode, ending: str) -> tuple[Memory, int]:
    """A memory of 60 calls of an env of two counters, and the steps that they took."""
    keys = {"observation": "pixels", "size": SIDE, "ending": ending}
    env = counters(*LENGTHS, mode=mode, **keys)
    memory = make(kind, 400, codec, window_length=2, num_envs=2)
    rollout = Rollout(env, Idle(2), memory.writer())
    rollout.begin([1, 2])
    steps = sum(rollout.step(clock) for clock in range(60))
    env.close()
    return memory, steps


@peers(32)
@pytest.mark.parametrize("ending", ["terminate", "truncate"])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@each_codec
@each_kind
def test_32_no_autoreset_leaves_a_step_that_did_not_happen(
    kind: str, codec: str, mode: AutoresetMode, ending: str
) -> None:
    # vwxyzjn/cleanrl#499, automl/Mighty#108, openai/gym#3177, sail-sg/envpool#194, pytorch/rl
    # PR#2473: of Gymnasium 1.x's NEXT_STEP the reset became a step of reward 0 that ignored its
    # action, from the terminal frame to the reset frame
    memory, steps = lived(kind, codec, mode, ending)
    found = {(name >> 40, name & (1 << 40) - 1): unit for name, unit in units(memory).items()}
    # a reset that costs a call of its own costs one in length + 1; none is a step
    idle = [60 // (length + 1) if mode is AutoresetMode.NEXT_STEP else 0 for length in LENGTHS]
    assert len(found) == len(memory) == steps == 120 - sum(idle)
    for lane, length in enumerate(LENGTHS):
        own = [unit for (which, _), unit in sorted(found.items()) if which == lane]
        assert len(own) == 60 - idle[lane]
        for at, unit in enumerate(own):
            episode, step = divmod(at, length)
            end = step + 1 == length and ending == "terminate"
            before = (episode, max(0, step - 1))
            assert unit == Seen(
                [before, (episode, step)], [(episode, step), (episode, step + 1)],
                step + 1, 0 if end else 0.5,
            )  # fmt: skip


@peers(33)
@pytest.mark.parametrize("limit", [64, 6])
@each_codec
def test_33_n_step_sums_stop_at_the_head_and_at_ends_and_say_their_discount(
    codec: str, limit: int
) -> None:
    # younggyoseo/FastTD3#6: windows ran over the write head and into the next episode, and one
    # gamma came after n rewards; right is gamma^m of the m rewards that were summed
    found = Told("sequential", limit, codec, n_step=3).tell("s...cs..").units()
    first = {
        0: Seen([(0, 0)], [(0, 3)], 1 + 2 / 2 + 3 / 4, 1 / 8),
        1: Seen([(0, 1)], [(0, 4)], 2 + 3 / 2 + 4 / 4, 1 / 8),
    }
    rest = {
        2: Seen([(0, 2)], [(0, 4)], 3 + 4 / 2, 1 / 4),
        3: Seen([(0, 3)], [(0, 4)], 4, 1 / 2),
        5: Seen([(1, 0)], [(1, 2)], 101 + 102 / 2, 1 / 4),
        6: Seen([(1, 1)], [(1, 2)], 102, 1 / 2),
    }
    # a ring of six rows has let go of the first two
    assert found == (first | rest if limit == 64 else rest)
    ended = Told("sequential", limit, codec, n_step=3).tell("s.ts").units()
    assert ended[0] == Seen([(0, 0)], [(0, 2)], 1 + 2 / 2, 0)


@peers(34)
@pytest.mark.parametrize("n_step", [1, 3])
@each_codec
def test_34_what_is_read_shares_nothing_with_what_is_stored(codec: str, n_step: int) -> None:
    # ray-project/ray PR#18358: n-step sums changed obs through next_obs, which lay in one storage
    told = Told("sequential", 64, codec, window_length=2, n_step=n_step).tell("s....cs...")
    before = told.units()
    for _ in range(3):
        batch = read_all(told.memory)
        # one step apart, they are two views of one gather, which is the caller's
        assert np.shares_memory(batch["obs"], batch["next_obs"]) == (n_step == 1)
        for array in batch.values():
            array[...] = 77
        assert told.units() == before
    told.memory.check()


@peers(35)
@each_codec
def test_35_n_steps_end_with_an_episode_whose_value_goes_on(codec: str) -> None:
    # tensorflow/agents PR#251: a boundary with discount != 0, as a time limit is, did not end the
    # sum, which took in the rewards of the next episode (101 and more)
    found = Told("sequential", 64, codec, n_step=5).tell("s.cs.cs.").units()
    assert found == {
        0: Seen([(0, 0)], [(0, 2)], 1 + 2 / 2, 1 / 4),
        1: Seen([(0, 1)], [(0, 2)], 2, 1 / 2),
        3: Seen([(1, 0)], [(1, 2)], 101 + 102 / 2, 1 / 4),
        4: Seen([(1, 1)], [(1, 2)], 102, 1 / 2),
        6: Seen([(2, 0)], [(2, 1)], 201, 1 / 2),
    }


@peers(37)
@each_codec
@each_kind
def test_37_an_episode_may_be_longer_than_the_ring(kind: str, codec: str) -> None:
    # takuseno/d3rlpy#446 "episode length exceeds cache_size", #268 links to rows overwritten
    told = Told(kind, 20, codec, window_length=2).tell("s" + "." * 19)
    for now in range(20, 200):
        found = told.tell(".").units()
        # rows now - 19 to now are held: the first has lost its stack, the last has no step yet
        assert sorted(found) == list(range(now - 18, now))
        assert found[now - 1].then == [(0, now - 1), (0, now)]
        assert told.memory.rows == 20
    told.memory.check()
    # the next episode begins in row 201, after the closing row of the long one
    assert sorted(told.tell("cs..").units())[-2:] == [201, 202]


@peers(38)
@pytest.mark.parametrize("ending", ["t", "c"])
@each_codec
@each_kind
def test_38_each_transition_is_there_once(kind: str, codec: str, ending: str) -> None:
    # Shmuma/ptan#25: the second-last transition of an episode was stored twice
    told = Told(kind, 64, codec).tell(f"s....{ending}" * 2)
    assert len(told.memory) == len(told.units()) == 10
    starts = told.memory.sample(4_000, columns=["id"])["id"]
    names, counts = np.unique(starts, return_counts=True)
    assert names.tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]
    # 400 each, give or take 19: five times that, where one that is there twice would have 727
    assert abs(counts - 400).max() < 95


class Reusing(gym.Env):
    """Draws into one frame, which it gives again and again, as simulators written in C do."""

    def __init__(self, length: int) -> None:
        self.observation_space = spaces.Box(0, 255, (SIDE, SIDE), np.uint8)
        self.action_space = spaces.Discrete(3)
        self._moment, self._length = Moment(0, -1, 0), length
        self._frame = np.zeros((SIDE, SIDE), U8)

    def _draw(self) -> np.ndarray:
        self._frame[...] = encode(self._moment, SIDE)
        return self._frame

    def reset(self, *, seed: int | None = None, options: object = None) -> tuple:
        self._moment = Moment(0, self._moment.episode + 1, 0)
        return self._draw(), {}

    def step(self, action: object) -> tuple:
        self._moment = self._moment._replace(step=self._moment.step + 1)
        return self._draw(), 1.0, self._moment.step == self._length, False, {}


@peers(39)
@pytest.mark.parametrize("mode", [AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP])
@each_codec
@each_kind
def test_39_an_env_may_use_its_frame_again(kind: str, codec: str, mode: AutoresetMode) -> None:
    # openai/baselines PR#418, Farama-Foundation/SuperSuit PR#116: rows were one and the same array
    # (SAME_STEP is left out: gymnasium itself keeps the array there that the reset overwrites)
    env = vector(lambda: Reusing(3), mode=mode)
    memory = make(kind, 200, codec, window_length=2)
    rollout = Rollout(env, Idle(1), memory.writer())
    rollout.begin([0])
    steps = sum(rollout.step(clock) for clock in range(40))
    found = list(units(memory).values())
    assert len(found) == steps >= 30
    for at, unit in enumerate(found):
        episode, step = divmod(at, 3)
        assert unit.stack == [(episode, max(0, step - 1)), (episode, step)]
        assert unit.then == [(episode, step), (episode, step + 1)]
        assert unit.discount == (0 if step == 2 else 0.5)
    env.close()


@peers(39)
@each_codec
@each_kind
def test_39_a_caller_may_use_all_its_arrays_again(kind: str, codec: str) -> None:
    memory = make(kind, 64, codec)
    writer, frame = memory.writer(), np.zeros((1, SIDE, SIDE), U8)
    action, reward, ended, cut = (np.zeros(1, t) for t in (np.int64, np.float64, bool, bool))

    def spoil() -> None:
        frame[...], action[...], reward[...], ended[...], cut[...] = 255, 2, -9, True, True

    for episode in range(4):
        frame[0] = encode(Moment(0, episode, 0), SIDE)
        writer.start({"obs": frame})
        spoil()
        for step in range(5):
            frame[0] = encode(Moment(0, episode, step + 1), SIDE)
            action[...], reward[...] = step % 3, earned(episode, step)
            ended[...], cut[...] = step == 4, False
            writer.append(action, reward, ended, cut, {"obs": frame})
            spoil()
    assert list(units(memory).values()) == [
        Seen([(e, k)], [(e, k + 1)], earned(e, k), 0 if k == 4 else 0.5)
        for e in range(4) for k in range(5)
    ]  # fmt: skip


@peers("c")
@each_codec
@each_draw
def test_3b_c_first_steps_and_short_episodes_are_learnt_from(
    kind: str, keys: dict, codec: str
) -> None:
    # TorchRL's CatFrames recipe never gives the first N - 1 steps of an episode, nor any step of
    # one that is shorter than N; right is that the first frame is repeated before it
    told = Told(kind, 64, codec, window_length=4, **keys).tell("s.t" * 3 + "st" + "s.....")
    steps = [0, 1, 3, 4, 6, 7, 9, *range(11, 16)]
    assert sorted(told.units()) == steps
    assert set(told.memory.sample(2_000, columns=["id"])["id"].tolist()) == set(steps)
    assert told.units()[9] == Seen([(3, 0)] * 4, [(3, 0)] * 3 + [(3, 1)], earned(3, 0), 0)


@peers("d")
@each_codec
@each_kind
def test_3b_d_a_cut_step_and_the_newest_lead_to_another_frame(kind: str, codec: str) -> None:
    # tianshou's ignore_obs_next gives obs as obs_next at a truncation and at the newest step
    found = Told(kind, 64, codec).tell("s..cs..").units()
    assert found[2] == Seen([(0, 2)], [(0, 3)], 3, 0.5)
    assert found[5] == Seen([(1, 1)], [(1, 2)], 102, 0.5)


@peers("e")
@each_codec
@each_kind
def test_3b_e_an_end_that_nobody_told_corrupts_no_older_stack(kind: str, codec: str) -> None:
    # cpprb: a missed on_episode_end() silently changes stacks that were stored before it
    told = Told(kind, 64, codec, window_length=4).tell("s...")
    before = told.units()
    after = told.tell("s....").units()
    assert {row: unit for row, unit in after.items() if row < 4} == before
    assert after[4].stack == [(1, 0)] * 4
    # and a start that nobody told is refused, and changes nothing
    told.tell("c")
    ended = told.units()
    with pytest.raises(ValueError, match="call start before append"):
        told.tell(".")
    assert told.units() == ended


@peers("f")
@pytest.mark.parametrize("ending", ["t", "c"])
@each_codec
def test_3b_f_the_last_starts_of_an_episode_are_kept(codec: str, ending: str) -> None:
    # CleanRL's rainbow looks at `terminated` alone, so that sums run over a truncation, and clears
    # its n-step buffer at an end, so that the last n - 1 starts of each episode are lost
    told = Told("sequential", 64, codec, n_step=3).tell(f"s...{ending}" * 2)
    after = 0 if ending == "t" else 1
    assert {row: unit[2:] for row, unit in told.units().items()} == {
        0: (1 + 2 / 2 + 3 / 4, 1 / 8),
        1: (2 + 3 / 2 + 4 / 4, after / 8),
        2: (3 + 4 / 2, after / 4),
        3: (4, after / 2),
        5: (101 + 102 / 2 + 103 / 4, 1 / 8),
        6: (102 + 103 / 2 + 104 / 4, after / 8),
        7: (103 + 104 / 2, after / 4),
        8: (104, after / 2),
    }


@peers("g")
@each_codec
def test_3b_g_episodes_shorter_than_n_are_drawn_at_once_and_alike(codec: str) -> None:
    # RLlib's prioritized episodes never give the last n - 1 steps, bias their weights by that, and
    # sample for ever where every episode is shorter than n
    told = Told("sequential", 64, codec, n_step=5).tell("s.t" * 4 + "s.c" * 4)
    batch = told.memory.sample(3_200)
    names, counts = np.unique(batch["id"], return_counts=True)
    assert names.tolist() == [row for row in range(24) if row % 3 < 2]
    assert abs(counts - 200).max() < 70  # 14 is one deviation
    assert (batch["weight"] == 1).all()


@peers("h")
@each_codec
def test_3b_h_an_end_is_no_terminal_and_loses_no_step(codec: str) -> None:
    # Dopamine's JAX replay fills episode_end with is_terminal, and a truncation drops n - 1 steps
    told = Told("episodic", 64, codec, trajectory_length=3).tell("s..cs..ts..ls.c")
    assert [(e.length, e.ended, e.whole, e.total_reward) for e in told.memory.episodes()] == [
        (3, "truncated", True, 1 + 2 + 3),
        (3, "terminated", True, 101 + 102 + 103),
        # a lost life is terminal, and a start then broke the episode off: its last step was one
        (3, "terminated", True, 201 + 202 + 203),
        (2, "truncated", True, 301 + 302),
    ]
    discounts = [unit.discount for unit in told.units().values()]
    assert discounts == [0.5, 0.5, 0.5, 0.5, 0.5, 0, 0.5, 0.5, 0, 0.5, 0.5]
    batch = told.memory.sample(400)
    lengths = {int(row): int(steps) for row, steps in zip(batch["id"], batch["mask"].sum(0),
                                                          strict=True)}  # fmt: skip
    assert [lengths[row] for row in (0, 1, 2)] == [3, 2, 1]


@peers("j")
@each_codec
@each_kind
def test_3b_j_padding_repeats_the_first_frame_as_gymnasium_does(kind: str, codec: str) -> None:
    # keras-rl, rlpyt, dqn_transformers, d3rlpy and others pad with zeros, which no policy that acts
    # through gymnasium's wrapper ever saw; right is one rule for acting and for the memory
    options = ToyOptions(game="counter", observation="pixels", size=SIDE, episode_length=6)
    wrapped, bare = FrameStackObservation(Counter(options, 0), 4), Counter(options, 0)
    stack = FrameStack({"obs": ArraySpec((SIDE, SIDE), U8)}, 1, 4)
    memory, no = make(kind, 64, codec, window_length=4), np.zeros(1, np.bool_)
    writer, saw = memory.writer(), []
    for _ in range(3):
        shown, frame = wrapped.reset()[0], bare.reset()[0][None]
        acted = stack.push({"obs": frame}, np.ones(1, np.bool_))["obs"][0]
        writer.start({"obs": frame})
        over = False
        while not over:
            assert np.array_equal(acted, shown)
            saw.append(moments(shown))
            shown, _, over, _, _ = wrapped.step(0)
            frame = bare.step(0)[0][None]
            acted = stack.push({"obs": frame}, no)["obs"][0]
            writer.append(np.zeros(1, int), np.zeros(1), np.array([over]), no, {"obs": frame})
    assert saw[:2] == [[(0, 0)] * 4, [(0, 0), (0, 0), (0, 0), (0, 1)]]
    assert [unit.stack for unit in units(memory).values()] == saw


@peers("p")
def test_3b_p_acting_copies_a_frame_once_and_keeps_no_array_of_the_env() -> None:
    # gymnasium's FrameStackObservation queues the env's own array, and copies a whole stack deeply
    frame, handed = np.zeros((1, SIDE, SIDE), U8), []
    stack = FrameStack({"obs": ArraySpec((SIDE, SIDE), U8)}, 1, 4)
    for step in range(9):
        frame[0] = encode(Moment(0, 0, step), SIDE)
        handed.append(stack.push({"obs": frame}, np.array([step == 0]))["obs"][0])
        frame[...] = 255
    # neither what the env draws next nor what is pushed next reaches a stack that was handed out
    assert [moments(one) for one in handed] == [
        [(0, max(0, step - back)) for back in (3, 2, 1, 0)] for step in range(9)
    ]


@peers("p")
def test_3b_p_acting_takes_one_copy_of_a_stack() -> None:
    stack = FrameStack({"obs": ArraySpec((84, 84), U8)}, 1, 4)
    frame = {"obs": np.zeros((1, 84, 84), U8)}
    stack.push(frame, np.ones(1, np.bool_))
    tracemalloc.start()
    handed = stack.push(frame, np.zeros(1, np.bool_))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert handed["obs"].nbytes == 4 * 84 * 84
    assert peak < 1.5 * 4 * 84 * 84
