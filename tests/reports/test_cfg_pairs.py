"""CFG-03: what does not fit together is refused before anything is built, with what does fit."""

from pathlib import Path
from typing import Any

import pytest

import main
from core.errors import UsageError
from tests.harness import flags, python
from utils.factory import AGENTS, MEMORIES, MODELS, options_class, resolve_name
from utils.options import CONFIGS

ROWS = {config["agent_type"]: row for row, config in reversed(CONFIGS.items())}
"""Each agent's first row."""


def reads(agent: str) -> Any:
    return options_class(AGENTS[agent]).reads


def gives(memory: str) -> Any:
    kind = resolve_name(MEMORIES[memory].target)
    return {kind.gives, *kind.also}


def named(units: Any) -> str:
    return " or ".join(sorted(unit.value for unit in units))


STRANGERS = [(a, m) for a in AGENTS for m in MEMORIES if not gives(m) & reads(a)]


def refused(
    capsys: pytest.CaptureFixture[str], runs: Path, row: str, **keys: object
) -> str:  # fmt: skip
    """The one line that `python main.py ROW --key value` is refused with; nothing is left."""
    assert main.run([row, *flags(runs=runs, visdom="off", **keys)]) == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1 and told.err.startswith("engram: ")
    assert not list(runs.iterdir()), "refused before anything is built"
    return told.err.removeprefix("engram: ").rstrip()


def test_the_pairs_are_those_of_the_issue():
    assert {("acer", "sequential"), ("dqn", "episodic"), ("es", "sequential")} <= set(STRANGERS)
    assert not {("acer", "hybrid"), ("dqn", "hybrid")} & set(STRANGERS), "it gives both"
    assert set(ROWS) == set(AGENTS), "every agent has a row to try its pairs with"


@pytest.mark.parametrize(("agent", "memory"), STRANGERS)
def test_cfg_03_a_memory_of_another_unit_is_refused_with_those_that_fit(
    agent: str, memory: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    # a game that does not exist: were anything built before, that would be complained of
    told = refused(capsys, tmp_path, ROWS[agent], memory_type=memory, game="Nowhere-v0")
    said, fitting = told.split("; fitting memories: ")
    assert said == (
        f"agent '{agent}' reads {named(reads(agent))}, and memory '{memory}' gives "
        f"{named(gives(memory))}"
    )
    assert fitting.split(", ") == [name for name in MEMORIES if gives(name) & reads(agent)]


def test_cfg_03_the_fitting_pairs_are_not_refused():
    from utils.assemble import check
    from utils.settings import resolve

    for agent, row in ROWS.items():
        for memory in MEMORIES:
            if (agent, memory) not in STRANGERS:
                check(resolve(row, CONFIGS[row], {"memory_type": memory}))


def test_cfg_03_a_refusal_loads_no_torch():
    code = (
        "import sys, main\n"
        f"for agent, row, memory in {[(a, ROWS[a], m) for a, m in STRANGERS]!r}:\n"
        "    assert main.run([row, '--memory_type', memory]) == 2\n"
        "print('torch' in sys.modules, 'gymnasium' in sys.modules)\n"
    )
    assert python(code).split() == ["False", "False"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("agent", AGENTS)
def test_cfg_03_a_network_that_does_not_fit_is_refused(
    agent: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    from utils.assemble import check
    from utils.settings import resolve

    row, takes = ROWS[agent], options_class(AGENTS[agent]).models
    bare = {key: value for key, value in CONFIGS[row].items() if key != "hidden_sizes"}
    if model in takes:
        check(resolve(row, bare, {"model_type": model}))
        return
    with pytest.raises(UsageError) as raised:
        check(resolve(row, bare, {"model_type": model}))
    assert str(raised.value) == (
        f"agent '{agent}' cannot use model '{model}'; it takes {', '.join(sorted(takes))}"
    )
    refused(capsys, tmp_path, row, model_type=model, game="Nowhere-v0")


def test_cfg_03_acer_refuses_continuous_actions_and_names_who_takes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    told = refused(capsys, tmp_path, "acer_cartpole", game="Pendulum-v1")
    said, fitting = told.split("; fitting agents: ")
    assert said == (
        "agent 'acer' takes discrete actions, and game 'Pendulum-v1' has Box(1,) (continuous)"
    )
    assert {"es", "cem", "empty"} <= set(fitting.split(", ")) and "acer" not in fitting


@pytest.mark.parametrize(
    ("row", "key", "value", "words"),
    [
        ("es_cartpole", "sigma", 0, "sigma = 0.0 on the command line"),
        ("cem_cartpole", "sigma", 0, "sigma = 0.0 on the command line"),
        ("es_cartpole", "sigma", -0.1, "it takes a number above 0"),
        ("es_cartpole", "population", 7, "an even population: candidates come in pairs"),
        ("es_cartpole", "population", 1, "population = 1 on the command line"),
        ("cem_cartpole", "elite_share", 0, "elite_share = 0.0 on the command line"),
        ("cem_cartpole", "elite_share", 0.02, "0.02 of 32 candidates is nobody"),
        ("cem_cartpole", "elite_share", 1.5, "elite_share = 1.5 on the command line"),
        ("cem_cartpole", "population", 3, "0.25 of 3 candidates is nobody"),
        ("cem_cartpole", "elite_generations", 0, "elite_generations = 0 on the command line"),
        ("acer_cartpole", "clip_trace", 0, "clip_trace = 0.0 on the command line"),
        ("acer_cartpole", "trust_delta", 0, "trust_delta = 0.0 on the command line"),
        ("acer_cartpole", "average_decay", 1.1, "average_decay = 1.1 on the command line"),
        ("acer_cartpole", "replay_ratio", -1, "replay_ratio = -1.0 on the command line"),
        ("acer_cartpole", "trajectory_length", 0, "trajectory_length = 0 on the command line"),
    ],
)
def test_what_cannot_work_is_refused(
    row: str, key: str, value: float, words: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    assert words in refused(capsys, tmp_path, row, **{key: value})


@pytest.mark.parametrize(
    ("row", "key"),
    [("es_cartpole", "elite_share"), ("cem_cartpole", "weight_decay"), ("dqn_cartpole", "sigma")],
)
def test_another_agent_s_key_says_whose_it_is(
    row: str, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    told = refused(capsys, tmp_path, row, **{key: 0.5})
    assert told.startswith(f"'{key}' on the command line is read by agent ")
    assert told.endswith(f"; {CONFIGS[row]['agent_type']} does not use it")
