from typing import Any

import pytest

from core.errors import UsageError
from utils.factory import AGENTS
from utils.options import CONFIGS
from utils.settings import find_row, from_flags, resolve

ROW = CONFIGS["dqn_cartpole"]
SEED_ROW = {
    "agent_type": "dqn",
    "env_type": "gym",
    "game": "CartPole-v0",
    "model_type": "dqn-mlp",
    "memory_type": "sequential",
    "memory_limit": 100000,
    "window_length": 1,
}
"""The row of the document that the project was made from, without a key of ours."""


def refusal(config: dict[str, Any] | None = None, **flags: str) -> str:
    """The one line that a row and flags are refused with."""
    with pytest.raises(UsageError) as raised:
        resolve("mine", ROW if config is None else config, flags)
    message = str(raised.value)
    assert "\n" not in message
    return message


def test_the_seeds_row_resolves_to_itself_and_defaults():
    flat = resolve("dqn_cartpole", SEED_ROW, {}).flat()
    assert {key: flat[key] for key in SEED_ROW} == SEED_ROW
    assert flat["gamma"] == 0.99 and flat["steps"] == 50_000


@pytest.mark.parametrize("name", CONFIGS)
def test_every_row_resolves(name: str):
    settings = resolve(name, find_row(name), {})
    flat = settings.flat()
    assert {key: flat[key] for key in CONFIGS[name]} == CONFIGS[name]
    assert settings.row == name


def test_a_flag_stands_above_the_row():
    settings = resolve("mine", ROW, {"lr": "1e-4", "hidden_sizes": "8,4", "double": "yes"})
    assert settings.agent.lr == 1e-4 and settings.agent.double is True
    assert settings.model.hidden_sizes == (8, 4)
    assert resolve("mine", ROW, {}).agent.lr == ROW["lr"]


def test_resolving_changes_neither_row_nor_flags():
    row, flags = dict(ROW), {"lr": "1e-4"}
    resolve("mine", row, flags)
    assert row == ROW and flags == {"lr": "1e-4"}


def test_a_component_by_flag_brings_its_own_keys():
    row = {key: ROW[key] for key in SEED_ROW}
    settings = resolve("mine", row, {"env_type": "toy", "game": "chain", "size": "6"})
    assert settings.env.size == 6


# Keys.


@pytest.mark.parametrize(
    ("key", "close"),
    [
        ("gama", "gamma"),
        ("memory-limit", "memory_limit"),
        ("Memory_Limit", "memory_limit"),
        ("batchsize", "batch_size"),
        ("hiden_sizes", "hidden_sizes"),
        ("learning_start", "learn_start"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_and_where_it_stands(key: str, close: str):
    assert refusal({**ROW, key: 1}) == f"unknown key '{key}' in row 'mine'; did you mean '{close}'?"
    assert refusal(**{key: "1"}) == (
        f"unknown key '{key}' on the command line; did you mean '{close}'?"
    )


def test_a_key_like_no_other_points_to_help():
    assert (
        refusal(zzz="1") == "unknown key 'zzz' on the command line; `--help` lists the row's keys"
    )


@pytest.mark.parametrize(
    ("row", "key", "value", "reader", "chosen"),
    [
        ("random_cartpole", "target_model_update", 5, "agent dqn", "empty"),
        ("random_cartpole", "dueling", "avg", "model dqn-mlp", "none"),
        ("dqn_cartpole", "trunk", "nature", "model dqn-cnn", "dqn-mlp"),
        ("dqn_cartpole", "episode_length", 3, "env toy", "gym"),
    ],
)
def test_a_key_of_another_component_says_whose_it_is(row, key, value, reader, chosen):
    said = f"is read by {reader}; {chosen} does not use it"
    assert refusal({**CONFIGS[row], key: value}) == f"'{key}' in row 'mine' {said}"
    assert refusal(CONFIGS[row], **{key: str(value)}) == f"'{key}' on the command line {said}"


@pytest.mark.parametrize("part", ["agent", "env", "model", "memory"])
def test_a_missing_component_is_named_with_the_choice(part: str):
    key = f"{part}_type"
    row = {name: value for name, value in ROW.items() if name != key}
    assert refusal(row).startswith(f"'{key}' is missing in row 'mine'; choose from: ")


def test_a_misspelt_component_key_is_named_as_such():
    row = {name: value for name, value in ROW.items() if name != "agent_type"}
    assert refusal({**row, "agent_tpye": "dqn"}) == (
        "unknown key 'agent_tpye' in row 'mine'; did you mean 'agent_type'?"
    )


def test_a_missing_game_says_what_it_takes():
    row = {key: value for key, value in ROW.items() if key != "game"}
    assert refusal(row) == "'game' is missing in row 'mine': it takes a name"


# Values.


@pytest.mark.parametrize(
    ("key", "value", "takes"),
    [
        ("steps", "50000", "a whole number 1 and up in env steps"),
        ("steps", 5e4, "a whole number 1 and up in env steps"),
        ("steps", 0, "a whole number 1 and up in env steps"),
        ("memory_limit", 1, "a whole number 2 and up in rows"),
        ("double", 1, "true or false"),
        ("num_envs", True, "a whole number 1 and up in envs"),
        ("gamma", 1.5, "a number 0 and up, up to 1"),
        ("gamma", "0.9", "a number 0 and up, up to 1"),
        ("lr", 0, "a number above 0, up to 1"),
        ("lr", float("nan"), "a number above 0, up to 1"),
        ("clip_grad", float("inf"), "a number 0 and up"),
        ("window_length", 65, "a whole number 1 and up, up to 64 in frames"),
        ("loss", "hubber", "one of huber, mse"),
        ("game", None, "a name"),
        ("hidden_sizes", (64, 0), "whole numbers of 1 and up, separated by commas in units"),
        ("target_model_update", 1.5, "a share below 1, or a whole number of env steps"),
        ("target_model_update", float("inf"), "a number above 0 in env steps"),
    ],
)
def test_a_value_that_is_not_allowed_says_what_is(key: str, value: object, takes: str):
    assert refusal({**ROW, key: value}) == (
        f"{key} = {value!r} in row 'mine' is not allowed: it takes {takes}"
    )


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("steps", "many"),
        ("steps", "1.5"),
        ("steps", "inf"),
        ("steps", "0"),
        ("seed", "-1"),
        ("lr", "fast"),
        ("lr", "nan"),
        ("clip_grad", "inf"),
        ("double", "maybe"),
        ("hidden_sizes", "64,x"),
        ("hidden_sizes", "64,-1"),
        ("dueling", "mean"),
        ("target_model_update", "inf"),
        ("frames", "lz5"),
    ],
)
def test_a_flags_value_that_is_not_allowed_says_what_is(key: str, text: str):
    message = refusal(**{key: text})
    assert message.startswith(f"{key} = ")
    assert " on the command line is not allowed: it takes " in message


def test_a_component_that_is_no_name_is_refused():
    assert refusal({**ROW, "agent_type": 3}) == "'agent_type' in row 'mine' is 3, not a name"


# Components.


@pytest.mark.parametrize(
    ("key", "name", "close"),
    [
        ("agent_type", "dpn", "dqn"),
        ("env_type", "gim", "gym"),
        ("model_type", "dqn_mlp", "dqn-mlp"),
        ("memory_type", "sequental", "sequential"),
    ],
)
def test_an_unknown_component_is_named_with_the_nearest(key: str, name: str, close: str):
    assert refusal({**ROW, key: name}) == f"{key} knows no '{name}'; did you mean '{close}'?"
    assert refusal(**{key: name}) == f"{key} knows no '{name}'; did you mean '{close}'?"


def test_a_component_like_no_other_gives_the_choice():
    said, choice = refusal(agent_type="zzz").split("; choose from: ")
    assert said == "agent_type knows no 'zzz'" and set(choice.split(", ")) == set(AGENTS)


def test_a_strangers_component_brings_its_own_keys():
    stranger = "tests.utils.thirdparty:Remembering"
    settings = resolve("mine", {**ROW, "memory_type": stranger}, {"colour": "red"})
    assert settings.memory.colour == "red" and settings.memory.memory_limit == 100_000
    assert (
        refusal({**ROW, "memory_type": stranger}, color="red")
        == "unknown key 'color' on the command line; did you mean 'colour'?"
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nowhere.at_all:Memory", "no module 'nowhere'"),
        ("tests.utils.thirdparty:Forgetting", "'tests.utils.thirdparty' has no 'Forgetting'"),
        (":Memory", "Empty module name"),
        ("tests.utils.thirdparty:", "has no ''"),
        ("tests.utils.thirdparty:NoOptions", "has no Options"),
        ("models.dqn:DQNMLP", "has no Options"),
    ],
)
def test_a_strangers_component_that_is_none_is_named(name: str, why: str):
    message = refusal(memory_type=name)
    assert f"'{name}'" in message and why in message


def test_a_component_in_the_place_of_another_is_refused():
    memory = "core.memories.sequential:SequentialMemory"
    assert refusal(agent_type=memory) == (
        f"agent_type '{memory}' in row 'mine' is no agent: its Options say so"
    )


# Rows, and the flags of verbs.


def test_an_unknown_row_is_named_with_the_nearest():
    with pytest.raises(
        UsageError, match="no row 'dqn_cartpol' in CONFIGS; did you mean 'dqn_cartpole'"
    ):
        find_row("dqn_cartpol")


def test_a_verbs_flags_are_checked_as_a_rows_keys_are():
    from utils.commands import PlayOptions

    assert from_flags(PlayOptions, {"episodes": "7", "weights": "last"}).episodes == 7
    for flags, why in (
        ({"episode": "7"}, "unknown key 'episode' on the command line; did you mean 'episodes'?"),
        ({"episodes": "0"}, "episodes = 0 on the command line is not allowed"),
        ({"weights": "beste"}, "weights = 'beste' on the command line is not allowed"),
    ):
        with pytest.raises(UsageError) as raised:
            from_flags(PlayOptions, flags)
        assert why in str(raised.value)
