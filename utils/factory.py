"""The factory's tables: which names stand for which classes.

An entry names a class (or a function) and its options by strings, so that looking at the tables
loads nothing. Any `*_type` key also takes "package.module:Class" of yours, whose `Options`
attribute names its options. A new component is its file and one line here.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

from core.errors import UsageError
from core.names import did_you_mean


class Component(NamedTuple):
    """Where a component's class and options live, as 'module:Name'."""

    target: str
    options: str


AGENTS: Final[Mapping[str, Component]] = {
    "acer": Component("agents.acer:ACERAgent", "agents.options.acer:ACEROptions"),
    "cem": Component("agents.cem:CEMAgent", "agents.options.es:CEMOptions"),
    "dqn": Component("agents.dqn:DQNAgent", "agents.options.dqn:DQNOptions"),
    "empty": Component("agents.empty:EmptyAgent", "agents.options.empty:EmptyOptions"),
    "es": Component("agents.es:ESAgent", "agents.options.es:ESOptions"),
}
ENVS: Final[Mapping[str, Component]] = {
    "atari": Component("core.envs.atari:make", "core.envs.options:AtariOptions"),
    "atari-ram": Component("core.envs.atari:make", "core.envs.options:AtariRamOptions"),
    "gym": Component("core.envs.gym:make", "core.envs.options:GymOptions"),
    "minatar": Component("core.envs.minatar:make", "core.envs.options:MinAtarOptions"),
    "toy": Component("core.envs.toy:make", "core.envs.options:ToyOptions"),
}
MODELS: Final[Mapping[str, Component]] = {
    "acer-mlp": Component("models.acer:ACERMLP", "models.options:ACERMLPOptions"),
    "dqn-mlp": Component("models.dqn:DQNMLP", "models.options:DQNMLPOptions"),
    "dqn-cnn": Component("models.dqn:DQNCNN", "models.options:DQNCNNOptions"),
    "es-mlp": Component("models.es:ESMLP", "models.options:ESMLPOptions"),
    "none": Component("models.none:no_model", "models.options:NoModelOptions"),
}
MEMORIES: Final[Mapping[str, Component]] = {
    "episode-parameter": Component(
        "core.memories.episode_parameter:EpisodeParameterMemory",
        "core.memories.episode_parameter:EpisodeParameterOptions",
    ),
    "episodic": Component(
        "core.memories.episodic:EpisodicMemory", "core.memories.episodic:EpisodicOptions"
    ),
    "hybrid": Component("core.memories.hybrid:HybridMemory", "core.memories.hybrid:HybridOptions"),
    "sequential": Component(
        "core.memories.sequential:SequentialMemory", "core.memories.sequential:SequentialOptions"
    ),
}
TABLES: Final[Mapping[str, Mapping[str, Component]]] = {
    "agent_type": AGENTS,
    "env_type": ENVS,
    "model_type": MODELS,
    "memory_type": MEMORIES,
}


def resolve_name(path: str) -> Any:
    """The object that 'module:Name' names; raises UsageError where there is none."""
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise UsageError(f"'{path}' cannot be imported: no module '{error.name}'") from None
    except (ImportError, ValueError, TypeError) as error:  # no module's name, or a broken module
        raise UsageError(f"'{path}' cannot be imported: {error}") from None
    except AttributeError:
        raise UsageError(f"'{path}' cannot be imported: '{module}' has no '{name}'") from None


def component(key: str, name: str) -> Component:
    """The entry a `*_type` key names; raises UsageError for a name that is none."""
    table = TABLES[key]
    if name in table:
        return table[name]
    if ":" in name:
        return Component(name, f"{name}.Options")
    raise UsageError(f"{key} knows no '{name}'{did_you_mean(name, table)}")


def options_class(entry: Component) -> Any:
    """The options model of an entry; of a stranger's class, its `Options`."""
    if not entry.options.endswith(".Options"):
        return resolve_name(entry.options)
    owner = resolve_name(entry.target)
    try:
        return owner.Options
    except AttributeError:
        raise UsageError(f"'{entry.target}' has no Options to read its keys from") from None
