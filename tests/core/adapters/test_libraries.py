"""Without the libraries: one line that says what to install; with small fakes: the calls."""

import pickle
import sys
from types import ModuleType
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest

import core.adapters.sb3
import core.adapters.tianshou
from core.adapters.libraries import library
from core.adapters.torchrl import EngramReplayBuffer
from core.errors import UsageError
from tests.harness import ROOT

ADAPTERS = ("cleanrl", "sb3", "tianshou", "torchrl")
"""Modules that stand in for a library's own replay buffer."""
MOST_LINES = 60
PIXELS = gym.spaces.Box(0, 255, (4, 20, 20), np.uint8)


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_is_a_page(name):
    text = (ROOT / "core" / "adapters" / f"{name}.py").read_text()
    assert 20 < len(text.splitlines()) <= MOST_LINES


@pytest.mark.parametrize(
    ("module", "install"), [("sb3", "stable-baselines3"), ("tianshou", "tianshou")]
)
def test_a_library_that_is_not_there_is_named_with_its_command(module, install, monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    monkeypatch.setitem(sys.modules, "tianshou", None)
    found = __import__(f"core.adapters.{module}", fromlist=["x"])
    with pytest.raises(UsageError, match=rf"is not installed: pip install {install}$"):
        found.EngramReplayBuffer  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'Engram'"):
        found.Engram  # noqa: B018


def test_a_package_of_another_name_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensordict", None)
    with pytest.raises(UsageError, match=r"^tensordict is not installed: pip install torchrl$"):
        EngramReplayBuffer(10)


def test_what_a_library_lacks_itself_is_not_taken_for_it(tmp_path, monkeypatch):
    (tmp_path / "half_there.py").write_text("import not_there_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        library("half_there", "half-there")


class Samples(NamedTuple):
    observations: Any
    actions: Any
    next_observations: Any
    dones: Any
    rewards: Any
    discounts: Any = None


class Base:
    """What the adapter uses of Stable-Baselines3's BaseBuffer."""

    def __init__(self, buffer_size, observation_space, action_space, device, n_envs):
        self.buffer_size, self.n_envs, self.device = buffer_size, n_envs, device

    @staticmethod
    def _normalize_obs(obs, env):
        return obs if env is None else obs / env

    @staticmethod
    def _normalize_reward(reward, env):
        return reward if env is None else reward * env

    def to_torch(self, array, copy=True):
        return np.array(array, copy=copy or None)


@pytest.fixture
def sb3(monkeypatch):
    parts = {
        "buffers": {"BaseBuffer": Base, "ReplayBuffer": Base},
        "type_aliases": {"ReplayBufferSamples": Samples},
    }
    for name in ("stable_baselines3", "stable_baselines3.common"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    for part, names in parts.items():
        module = ModuleType(f"stable_baselines3.common.{part}")
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    yield core.adapters.sb3.EngramReplayBuffer
    vars(core.adapters.sb3).pop("EngramReplayBuffer")


def filled(kind, steps: int = 30, **keys):
    buffer = kind(100, PIXELS, gym.spaces.Discrete(4), "cpu", 1, seed=0, window_length=4, **keys)
    rng = np.random.default_rng(0)
    stack = np.zeros((4, 20, 20), np.uint8)
    stack[-1] = rng.integers(0, 256, (20, 20))
    for step in range(steps):
        after = np.concatenate([stack[1:], rng.integers(0, 256, (1, 20, 20)).astype(np.uint8)])
        over, late = step % 6 == 5, step % 12 == 11
        info = [{"TimeLimit.truncated": late}]
        buffer.add(
            stack[None], after[None], np.array([step % 4]), np.array([1.5]), np.array([over]), info
        )
        stack = after
        if over:
            stack = np.zeros_like(after)
            stack[-1] = rng.integers(0, 256, (20, 20))
    return buffer


def test_sb3s_names_shapes_and_kinds(sb3):
    buffer = filled(sb3)
    batch = buffer.sample(50)
    assert batch.observations.shape == batch.next_observations.shape == (50, 4, 20, 20)
    assert (batch.observations[:, 1:] == batch.next_observations[:, :-1]).all()
    assert batch.actions.shape == batch.rewards.shape == batch.dones.shape == (50, 1)
    assert (batch.actions.dtype, batch.dones.dtype) == (np.int64, np.float32)
    assert batch.discounts is None
    assert buffer.size() == 30
    ends = buffer.stream.memory.ring.book("terminal")
    assert ends.sum() == 3, "of five endings two were time-outs"
    buffer.reset()
    assert buffer.size() == 0


def test_sb3s_time_outs_count_as_endings_where_they_are_not_handled(sb3):
    buffer = filled(sb3, handle_timeout_termination=False)
    assert buffer.stream.memory.ring.book("terminal").sum() == 5


def test_n_steps_come_with_their_discounts(sb3):
    batch = filled(sb3, n_step=3, gamma=0.5).sample(40)
    assert set(np.unique(batch.discounts)) <= {0.0, 0.5, 0.25, 0.125}
    assert ((batch.discounts == 0) == (batch.dones == 1)).all()


def test_the_class_pickles_by_its_name(sb3):
    buffer = filled(sb3)
    again = pickle.loads(pickle.dumps(buffer))
    one, other = buffer.sample(8, env=2.0), again.sample(8, env=2.0)
    assert type(again) is sb3
    assert (one.observations == other.observations).all()
    assert (one.rewards == 3.0).all()


class Bag(dict):
    """What the adapter uses of Tianshou's Batch."""

    __getattr__ = dict.__getitem__


@pytest.fixture
def tianshou(monkeypatch):
    data = ModuleType("tianshou.data")
    vars(data).update({"Batch": Bag, "ReplayBufferManager": object})
    monkeypatch.setitem(sys.modules, "tianshou", ModuleType("tianshou"))
    monkeypatch.setitem(sys.modules, "tianshou.data", data)
    yield core.adapters.tianshou.EngramReplayBuffer
    vars(core.adapters.tianshou).pop("EngramReplayBuffer")


@pytest.mark.parametrize("size", [60, 2000])
def test_tianshous_indices(tianshou, size):
    """Two lanes of episodes 1 to 5 steps long; an observation is its episode and its step."""
    space = gym.spaces.Box(-1, 1e6, (2,), np.float32)
    buffer = tianshou(size, 2, space, gym.spaces.Discrete(3), seed=0)
    place = np.array([[1, 0], [1001, 0]])
    for step in range(150):
        after = place + np.array([0, 1])
        ended = after[:, 1] == place[:, 0] % 5 + 1
        cut = ended & (place[:, 0] % 2 == 0)
        bag = Bag(obs=place, obs_next=after, act=[step % 3] * 2, rew=after[:, 1] * 1.0,
                  terminated=ended & ~cut, truncated=cut)  # fmt: skip
        slots, returns, lengths, first = buffer.add(bag, buffer_ids=[0, 1])
        assert (buffer[slots].obs == place).all()
        assert lengths.tolist() == np.where(ended, after[:, 1], 0).tolist()
        assert returns.tolist() == np.where(ended, after[:, 1] * (after[:, 1] + 1) / 2, 0).tolist()
        for lane in range(2):
            episode = buffer.get_buffer_indices(int(first[lane]), int(slots[lane]) + 1)
            assert buffer[episode].obs[:, 1].tolist() == list(range(after[lane, 1]))
        place = np.where(ended[:, None], place * [[1, 0]] + [[1, 0]], after)
    every = buffer.sample_indices(0)
    batch, newest = buffer[every], buffer.unfinished_index()
    assert len(every) == len(buffer)
    assert (len(every) == 300) == (size == 2000)
    assert (batch.obs_next == batch.obs + np.array([0, 1])).all()
    assert (batch.truncated == (batch.done & (batch.obs[:, 0] % 2 == 0))).all()
    assert (batch.terminated == (batch.done & (batch.obs[:, 0] % 2 == 1))).all()
    following = buffer.next(every)
    stays = following == every
    assert (stays == (batch.done | np.isin(every, newest))).all()
    assert (buffer[following[~stays]].obs == batch.obs_next[~stays]).all()
    assert (buffer.prev(following[~stays]) == every[~stays]).all()
    begins = buffer.prev(every) == every
    assert (begins | (batch.obs[:, 1] > 0)).all()
    drawn, indices = buffer.sample(40)
    assert (drawn.obs == buffer[indices].obs).all()
    assert not buffer.hasnull()
    buffer.reset()
    assert len(buffer) == 0
