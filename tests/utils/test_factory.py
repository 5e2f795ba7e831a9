"""The tables and everything in them: a new entry is tested untold."""

import inspect
import itertools
import typing

import pytest

from core.agent import Actor, Agent, AgentOptions
from core.envs.base import Env
from core.envs.options import EnvOptions
from core.memory import Memory, MemoryOptions
from core.options import Options
from core.types import Unit
from main import VERBS
from models.options import ModelOptions
from tests.harness import python
from utils.board import BoardOptions
from utils.describe import Takes
from utils.factory import AGENTS, ENVS, MEMORIES, MODELS, TABLES, options_class, resolve_name
from utils.options import CONFIGS, DEFAULT, RunOptions

ENTRIES = [(key, name) for key, table in TABLES.items() for name in table]
BASES = {
    "agent_type": AgentOptions,
    "env_type": EnvOptions,
    "model_type": ModelOptions,
    "memory_type": MemoryOptions,
}


def methods_of(protocol: type) -> list[str]:
    return [
        name
        for name, value in vars(protocol).items()
        if inspect.isfunction(value) and not name.startswith("_")
    ]


def parameters(function: object) -> list[tuple[str, object]]:
    return [(p.name, p.kind) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize(("key", "name"), ENTRIES)
def test_every_entry_resolves_to_its_kind(key: str, name: str):
    entry = TABLES[key][name]
    options = options_class(entry)
    assert isinstance(options, type) and issubclass(options, BASES[key])
    assert callable(resolve_name(entry.target))
    assert (options.__doc__ or "").strip().partition("\n")[0].endswith((".", ".)"))


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_has_an_agents_methods(name: str):
    agent = resolve_name(AGENTS[name].target)
    missing = [m for m in methods_of(Agent) if m != "exploration" and not hasattr(agent, m)]
    assert not missing
    for method in methods_of(Agent):
        if inspect.isfunction(getattr(agent, method, None)):  # `exploration` may be an object
            assert parameters(getattr(agent, method)) == parameters(getattr(Agent, method))
    assert isinstance(agent.metrics, tuple)
    assert options_class(AGENTS[name]).reads, "an agent that reads nothing fits no memory"
    made = typing.get_type_hints(agent.actor)["return"]
    for method in methods_of(Actor):
        assert parameters(getattr(made, method)) == parameters(getattr(Actor, method))


@pytest.mark.parametrize("name", MEMORIES)
def test_every_memory_is_a_memory(name: str):
    memory = resolve_name(MEMORIES[name].target)
    assert issubclass(memory, Memory) and not inspect.isabstract(memory)
    assert isinstance(memory.gives, Unit)
    assert memory.Options is options_class(MEMORIES[name])


@pytest.mark.parametrize("name", ENVS)
def test_every_env_is_made_from_options_and_lanes(name: str):
    make = resolve_name(ENVS[name].target)
    assert [part for part, _ in parameters(make)] == ["options", "lanes"]
    made = typing.get_type_hints(make)["return"]
    assert all(hasattr(made, method) for method in methods_of(Env))


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_made_from_options_env_and_window(name: str):
    model = resolve_name(MODELS[name].target)
    assert [part for part, _ in parameters(model)] == ["options", "env", "window"]


def test_every_model_an_agent_names_exists_and_every_unit_has_a_memory():
    for name, entry in AGENTS.items():
        assert options_class(entry).models <= set(MODELS), name
    given = {resolve_name(entry.target).gives for entry in MEMORIES.values()}
    for name, entry in AGENTS.items():
        assert options_class(entry).reads & given, f"no memory fits agent {name}"


# Keys.


def test_no_two_components_of_any_combination_declare_one_key():
    for combination in itertools.product(*(table.items() for table in TABLES.values())):
        models = [RunOptions, BoardOptions, *(options_class(entry) for _, entry in combination)]
        declared = [key for model in models for key in model.model_fields]
        twice = sorted({key for key in declared if declared.count(key) > 1})
        assert not twice, f"{[name for name, _ in combination]} declare {twice} more than once"


ALL_OPTIONS = [RunOptions, BoardOptions, *(options_class(TABLES[k][n]) for k, n in ENTRIES)]
FIELDS = [
    pytest.param(model, key, id=f"{model.__name__}.{key}")
    for model in ALL_OPTIONS
    for key in model.model_fields
]
UNCOUNTED = ("seed", "size", "visdom_port")  # numbers that count nothing


@pytest.mark.parametrize(("model", "key"), FIELDS)
def test_every_option_has_its_line_of_help_and_says_what_it_takes(model: type[Options], key: str):
    field = model.model_fields[key]
    assert field.description and "\n" not in field.description and len(field.description) <= 140
    assert not field.description.endswith(".")
    takes = Takes.of(field)
    assert "<class" not in takes.kind and "typing." not in takes.kind
    if takes.kind == "a whole number" and key not in UNCOUNTED:
        assert takes.unit, f"{key} counts something that it does not name"


@pytest.mark.parametrize("model", ALL_OPTIONS, ids=lambda model: model.__name__)
def test_every_default_is_allowed(model: type[Options]):
    # pydantic checks no default; here each is checked as if it had been given
    fields = {key: f for key, f in model.model_fields.items() if not f.is_required()}
    required = {
        key: next(iter(typing.get_args(f.annotation)), "a name")  # the first choice, where some are
        for key, f in model.model_fields.items()
        if f.is_required()
    }
    defaults = {key: field.default for key, field in fields.items()}
    assert model(**required, **defaults).model_dump(include=set(fields)) == defaults


# Rows.


def test_no_row_is_named_like_a_verb_and_the_default_is_a_row():
    assert not set(CONFIGS) & set(VERBS)
    assert DEFAULT in CONFIGS


@pytest.mark.parametrize("name", CONFIGS)
def test_every_row_is_a_plain_flat_dict(name: str):
    assert type(CONFIGS[name]) is dict
    for key, value in CONFIGS[name].items():
        assert type(key) is str
        assert type(value) in (int, float, str, bool, tuple)


# Looking at options loads nothing that is slow or may be absent.

HEAVY = ("torch", "numba", "gymnasium", "visdom", "matplotlib")


def test_no_module_of_options_loads_a_heavy_library():
    modules = {options_class(TABLES[key][name]).__module__ for key, name in ENTRIES}
    modules |= {"utils.options", "utils.settings", "utils.cli", "utils.factory", "main"}
    found = python(
        "import importlib, sys\n"
        f"for name in {sorted(modules)}:\n"
        "    importlib.import_module(name)\n"
        f"    print(name, *[h for h in {HEAVY} if h in sys.modules])\n"
    )
    assert len(found.splitlines()) == len(modules)
    assert all(len(line.split()) == 1 for line in found.splitlines()), found


def test_options_are_frozen_and_refuse_what_they_do_not_know():
    for key, name in ENTRIES:
        config = options_class(TABLES[key][name]).model_config
        assert config["frozen"] and config["strict"] and config["extra"] == "forbid"
    assert Options.model_config["allow_inf_nan"] is False
