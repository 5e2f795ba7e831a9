import re
from typing import Any

import numpy as np
import pytest
import torch

from core.errors import UsageError
from core.limits import Usable
from tests.harness import CHAIN, parts_of, python, settings_of
from tests.utils.thirdparty import Remembering
from utils import assemble, planning
from utils.options import CONFIGS

CARTPOLE = {**CONFIGS["dqn_cartpole"], "visdom": "off"}
RANDOM = {**CONFIGS["random_cartpole"], "visdom": "off"}


def refusal(config: dict[str, Any], **keys: Any) -> str:
    """The one line that building is refused with."""
    with pytest.raises(UsageError) as raised:
        parts_of(config, **keys)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_dqn_refuses_continuous_actions_and_names_who_takes_them():
    said, fitting = refusal(CARTPOLE, game="Pendulum-v1").split("; fitting agents: ")
    assert said == (
        "agent 'dqn' takes discrete actions, and game 'Pendulum-v1' has Box(1,) (continuous)"
    )
    assert "empty" in fitting.split(", ") and "dqn" not in fitting


def test_a_memory_of_another_unit_is_refused_with_those_that_fit():
    stranger = "tests.utils.thirdparty:Trajectories"
    said, fitting = refusal(CARTPOLE, memory_type=stranger).split("; fitting memories: ")
    assert said == f"agent 'dqn' reads transitions, and memory '{stranger}' gives trajectories"
    assert "sequential" in fitting.split(", ")


def test_a_model_that_an_agent_cannot_use_is_refused():
    assert refusal(RANDOM, model_type="dqn-mlp") == (
        "agent 'empty' cannot use model 'dqn-mlp'; it takes none"
    )
    bare = {k: v for k, v in CARTPOLE.items() if k != "hidden_sizes"}
    assert refusal(bare, model_type="none") == (
        "agent 'dqn' cannot use model 'none'; it takes dqn-cnn, dqn-mlp"
    )


@pytest.mark.parametrize("key", ["batch_size", "learn_start"])
def test_what_the_memory_never_holds_is_refused(key: str):
    message = refusal(CHAIN, **{"memory_limit": 100, "num_envs": 2, key: 99})
    assert message == (
        f"{key} 99 is never reached: with this memory_limit and num_envs 2 the memory holds at "
        "most 98 units"
    )
    settings = settings_of(CHAIN, **{"memory_limit": 100, "num_envs": 2, key: 98})
    assert assemble.check(settings) is None


@pytest.mark.parametrize("key", ["batch_size", "learn_start"])
def test_what_the_run_never_reaches_is_refused(key: str):
    assert refusal(CHAIN, **{key: 401}) == f"{key} 401 is never reached within steps 400"
    assert assemble.check(settings_of(CHAIN, **{key: 400})) is None


def test_a_memory_too_small_for_its_windows_is_refused():
    message = refusal(CHAIN, memory_limit=60, learn_start=5, num_envs=10, window_length=4, n_step=3)
    assert (
        message == "memory_limit 60 gives each of 10 envs 6 rows; window_length and n_step need 7"
    )


def test_a_memory_beyond_this_machine_is_refused_with_its_size():
    message = refusal(CHAIN, memory_limit=10**13)
    assert message.startswith("memory_limit takes up to ")
    assert "10,000,000,000,000 rows x 37 bytes" in message
    fits = int(re.search(r"--memory_limit (\d+) \(", message)[1])
    assert 10**6 < fits < 10**13  # what is proposed is a size that a machine may have


def test_a_memory_beyond_the_control_group_is_refused(monkeypatch):
    monkeypatch.setattr(planning, "usable_memory", lambda: Usable(10_000, "cgroup memory.max"))
    assert re.search(r" [\d.]+ k?B are usable \(cgroup memory.max\); set ", refusal(CHAIN))


@pytest.mark.parametrize("device", [f"cuda:{torch.cuda.device_count()}", "meta", "gpu"])
def test_a_device_that_is_not_there_is_refused(device: str):
    assert refusal(CHAIN, device=device) == f"device '{device}' is not there; set --device cpu"


def test_refusals_cost_no_torch():
    code = (
        "import sys\n"
        "from core.errors import UsageError\n"
        "from utils.assemble import build\n"
        "from utils.settings import find_row, resolve\n"
        "keys = {'game': 'Pendulum-v1', 'learn_start': '1e6', 'batch_size': '1e7'}\n"
        "for key, value in keys.items():\n"
        "    try:\n"
        "        build(resolve('r', find_row('dqn_cartpole'), {key: value}))\n"
        "    except UsageError:\n"
        "        print('refused', 'torch' in sys.modules)\n"
    )
    assert python(code).splitlines() == ["refused False"] * 3


def test_a_strangers_memory_works_with_our_agents(tmp_path):
    from tests.harness import Run

    Remembering.sampled = 0
    run = Run(tmp_path, CHAIN, memory_type="tests.utils.thirdparty:Remembering", colour="red").go()
    assert run.result["status"] == "finished"
    assert Remembering.sampled == run.result["updates"] > 300
    assert run.folder.config()["options"]["colour"] == "red"


@pytest.mark.parametrize(("key", "value"), [("seed", 2), ("hidden_sizes", (16, 16))])
def test_the_same_row_builds_the_same_weights_and_another_other_ones(key: str, value: object):
    first, second, other = (
        parts_of(CHAIN, **keys).agent.weights() for keys in ({}, {}, {key: value})
    )
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert first.keys() != other.keys() or any(
        not np.array_equal(first[name], other[name]) for name in first
    )


def test_every_key_reaches_what_reads_it():
    parts = parts_of(CHAIN, window_length=3, num_envs=4, memory_limit=800, size=6, learn_start=60)
    assert parts.env.lanes == 4 and parts.memory.capacity == 800
    assert parts.env.spec.observations["obs"].shape == (6,)
    assert parts.agent.weights()["body.0.weight"].shape == (16, 18)
    assert torch.get_num_threads() == 1
    assert parts.make_eval_env(2).lanes == 2
