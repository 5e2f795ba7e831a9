"""What any agent has to do, whichever it is. The factory's table enrols them."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from core.agent import Actor, Agent, AgentOptions
from core.checkpoint import Checkpoints, load, save
from core.errors import UsageError
from core.rollout import Rollout
from core.types import Array, ContinuousActions, DiscreteActions, EnvSpec
from tests.harness import Run, equal_trees, parts_of
from utils.factory import AGENTS, MEMORIES, MODELS, options_class, resolve_name

torch.set_num_threads(1)
ROOT = Path(__file__).resolve().parents[2]
NUMBERS = {"discrete": "Walk", "continuous": "WalkBox"}
RUN_S_OWN = {"loss", "q_mean"}
LANES = 3


class Case(NamedTuple):
    """An agent with a memory, a network and a kind of actions that fit it."""

    agent: str
    memory: str
    model: str
    actions: str

    @property
    def row(self) -> dict[str, Any]:
        """A short run of it, in a world of numbers or, where that is refused, of pictures."""
        sizes = "hidden_sizes" in options_class(MODELS[self.model]).model_fields
        keys = {**self._keys, "hidden_sizes": (8,)} if sizes else self._keys
        game = f"tests.agents.search_worlds:{NUMBERS[self.actions]}-v0"
        try:
            parts_of({**keys, "game": game}).env.close()
        except UsageError:
            return {**keys, "env_type": "toy", "game": "catch"}
        return {**keys, "game": game}

    @property
    def _keys(self) -> dict[str, Any]:
        return {
            "agent_type": self.agent,
            "env_type": "gym",
            "model_type": self.model,
            "memory_type": self.memory,
            "memory_limit": 2_000,
            "num_envs": LANES,
            "steps": 300,
            "learn_start": 20,
            "batch_size": 8,
            "train_interval": 5,
            "eval_freq": 100,
            "eval_episodes": 2,
            "log_freq": 60,
            "visdom": "off",
        }


def fitting() -> Iterator[Case]:
    """Every agent of the table with all that it says it takes."""
    for agent, entry in AGENTS.items():
        options: type[AgentOptions] = options_class(entry)
        kinds = {name: resolve_name(memory.target) for name, memory in MEMORIES.items()}
        for memory in [name for name, kind in kinds.items() if kind.given(options.reads)]:
            for model in sorted(options.models):
                for actions in sorted(options.actions):
                    yield Case(agent, memory, model, actions)


CASES = list(fitting())
every_case = pytest.mark.parametrize("case", CASES, ids="-".join)
every_agent = pytest.mark.parametrize("name", AGENTS)


class Lab:
    """An agent at work, without the loop around it; with a past, it goes on from there."""

    def __init__(self, case: Case, past: Mapping[str, Any] | None = None, **keys: Any) -> None:
        self.parts = parts_of({**case.row, **keys})
        self.agent, self.memory = self.parts.agent, self.parts.memory
        if past is not None:
            self.parts.clock.step = past["step"]
            self.memory.load(past["memory"])
            self.agent.load(past["agent"])
        self.actor = self.agent.actor(LANES, self.parts.seeds.generator("explore"))
        self.rollout = Rollout(self.parts.env, self.actor, self.memory.writer())
        if past is None:
            self.rollout.begin(self.parts.seeds.integers("env", LANES))
        else:
            self.exact = self.rollout.resume(past["rollout"], range(7, 7 + LANES))
        self.told: list[Mapping[str, float]] = []
        self.played: list[bytes] = []

    @property
    def state(self) -> dict[str, Any]:
        return {
            "step": self.parts.clock.step,
            "memory": self.memory.state(),
            "agent": self.agent.state(),
            "rollout": self.rollout.state(),
        }

    def watch(self) -> "Lab":
        """Notes from now on what the actor sees, and what it does."""
        act = self.actor.act

        def noted(obs, first, step, *, explore):
            actions, extras = act(obs, first, step, explore=explore)
            things = (*obs.values(), first, np.array(step), actions, *extras.values())
            self.played.extend(thing.tobytes() for thing in things)
            return actions, extras

        self.actor.act = noted
        return self

    def go(self, steps: int = 90) -> "Lab":
        """Steps of every lane, and an update after every second, once there is what to learn."""
        for step in range(steps):
            self.parts.clock.step += self.rollout.step(self.parts.clock.step)
            if step % 2 and self.memory.ready(20):
                self.told.append(self.agent.learn(self.memory))
        return self


def observe(spec: EnvSpec, lanes: int, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.normal(size=(lanes, *column.shape)).astype(column.dtype)
        for name, column in spec.observations.items()
    }


def greedy(actor: Actor, spec: EnvSpec, lanes: int = 200) -> Array:
    return actor.act(observe(spec, lanes), np.ones(lanes, np.bool_), 0, explore=False)[0]


def acts_at_random(agent: Agent) -> bool:
    """Without weights there is nothing that a greedy action could follow."""
    return not agent.weights()


# The protocols.


def check_members(cls: type, protocol: type) -> None:
    """Asserts that a class has what a protocol has, by name and by parameters."""
    for name, member in vars(protocol).items():
        if name.startswith("_"):
            continue
        found = inspect.getattr_static(cls, name, None)
        if not inspect.isfunction(member):
            continue  # a property may be an attribute, given when it is built
        assert callable(getattr(cls, name, None)) or found is None, name
        if inspect.isfunction(found):
            ours, theirs = (inspect.signature(f).parameters for f in (found, member))
            assert list(ours) == list(theirs), name
            assert [p.kind for p in ours.values()] == [p.kind for p in theirs.values()], name


@every_case
def test_it_has_what_the_protocols_say(case: Case):
    lab = Lab(case)
    check_members(type(lab.agent), Agent)
    check_members(type(lab.actor), Actor)
    for thing, protocol in ((lab.agent, Agent), (lab.actor, Actor)):
        names = {*vars(protocol), *protocol.__annotations__}
        assert all(hasattr(thing, name) for name in names if not name.startswith("_"))
    assert isinstance(lab.agent.parameters, int) and lab.agent.parameters >= 0
    assert lab.agent.updates == 0


@every_agent
def test_its_metrics_are_fixed_names_of_its_own(name: str):
    metrics = resolve_name(AGENTS[name].target).metrics
    assert isinstance(metrics, tuple) and all(isinstance(metric, str) for metric in metrics)
    assert len(set(metrics)) == len(metrics) and not set(metrics) & RUN_S_OWN


@every_case
def test_it_reports_only_what_it_announced(case: Case):
    lab = Lab(case).go()
    announced = RUN_S_OWN | set(lab.agent.metrics)
    assert lab.agent.metrics == type(lab.agent).metrics
    assert lab.agent.updates > 0 and len(lab.told) > 20
    for told in lab.told:
        assert set(told) <= announced
        assert all(type(value) is float and np.isfinite(value) for value in told.values())
    assert set(lab.agent.metrics) <= {name for told in lab.told for name in told}


# Acting.


@every_case
@pytest.mark.parametrize("explore", [True, False])
def test_its_actions_are_of_the_space(case: Case, explore: bool):
    lab = Lab(case).go(10)
    spec = lab.parts.env.spec
    actor = lab.agent.actor(50, np.random.default_rng(0))
    actions, _ = actor.act(observe(spec, 50), np.ones(50, np.bool_), 0, explore=explore)
    assert actions.shape == (50, *spec.actions.spec.shape)
    assert actions.dtype == spec.actions.spec.dtype
    if isinstance(spec.actions, DiscreteActions):
        assert set(actions) <= set(range(spec.actions.n))
    assert not isinstance(spec.actions, ContinuousActions) or np.abs(actions).max() <= 1.0


@every_case
def test_its_extras_are_those_it_declares(case: Case):
    lab = Lab(case)
    declared = lab.agent.extras()
    for step in range(5):
        obs = observe(lab.parts.env.spec, LANES, step)
        lab.actor.restarts(np.zeros(LANES, np.bool_))
        _, extras = lab.actor.act(obs, np.zeros(LANES, np.bool_), step, explore=True)
        assert extras.keys() == declared.keys()
        for name, column in declared.items():
            assert extras[name].shape == (LANES, *column.shape)
            assert extras[name].dtype == column.dtype


@every_case
def test_an_actor_follows_the_agent_and_one_with_weights_keeps_to_those(case: Case):
    lab = Lab(case)
    spec = lab.parts.env.spec
    begun = lab.agent.weights()
    live = lab.agent.actor(200, np.random.default_rng(0))
    kept = lab.agent.actor(200, np.random.default_rng(0), weights=begun)
    first = greedy(kept, spec)
    if acts_at_random(lab.agent):
        kept.take(begun)
        return
    assert np.array_equal(greedy(live, spec), first)
    lab.go(120)
    assert not equal_trees(dict(begun), dict(lab.agent.weights()))
    assert np.array_equal(greedy(kept, spec), first)
    fresh = lab.agent.actor(200, np.random.default_rng(0), weights=lab.agent.weights())
    assert np.array_equal(greedy(live, spec), greedy(fresh, spec))
    kept.take(lab.agent.weights())
    assert np.array_equal(greedy(kept, spec), greedy(fresh, spec))


@every_case
def test_greedy_acting_changes_nothing(case: Case):
    calm, watched = Lab(case), Lab(case)
    for _ in range(4):
        calm.go(15)
        watched.go(15)
        if not acts_at_random(watched.agent):
            greedy(watched.agent.actor(200, np.random.default_rng(0)), watched.parts.env.spec)
    assert equal_trees(dict(calm.agent.state()), dict(watched.agent.state()))


# State.


@every_case
def test_a_loaded_agent_is_the_saved_one(case: Case):
    first, other = Lab(case).go(), Lab(case, seed=5).go(30)
    state = first.agent.state()
    other.agent.load(state)
    assert equal_trees(dict(other.agent.state()), dict(state))
    assert other.agent.updates == first.agent.updates
    if not acts_at_random(first.agent):
        spec = first.parts.env.spec
        actors = [lab.agent.actor(200, np.random.default_rng(0)) for lab in (first, other)]
        assert np.array_equal(greedy(actors[0], spec), greedy(actors[1], spec))


@every_case
def test_what_is_saved_does_not_move_along(case: Case):
    lab = Lab(case).go(20)
    state, again = dict(lab.agent.state()), dict(lab.agent.state())
    assert equal_trees(state, again) and equal_trees(dict(state["weights"]), lab.agent.weights())
    lab.go()
    assert equal_trees(state, again)
    assert not equal_trees(state, dict(lab.agent.state()))


@every_case
def test_the_same_seed_gives_the_same_agent(case: Case):
    one, two, other = Lab(case).go(), Lab(case).go(), Lab(case, seed=3).go()
    assert equal_trees(dict(one.agent.state()), dict(two.agent.state()))
    assert one.told == two.told
    if not acts_at_random(one.agent):
        assert not equal_trees(dict(one.agent.weights()), dict(other.agent.weights()))


# Stopping, and going on.

WORLDS: dict[str, dict[str, Any]] = {
    "own": {},
    "cartpole": {"env_type": "gym", "game": "CartPole-v1", "time_limit": 60, "window_length": 2},
    "chain": {"env_type": "toy", "game": "chain", "size": 4},
    "counter": {"env_type": "toy", "game": "counter", "episode_length": 7, "window_length": 3},
}
GROWN = {"normalize_obs": True, "population": 6, "target_model_update": 40, "replay_start": 60,
         "replay_ratio": 1.0}  # fmt: skip


def resumable() -> Iterator[Any]:
    """Every case in its own world, and where that has numbers and a choice in the others."""
    for case in CASES:
        for world in WORLDS:
            numbers = case.row["game"] != "catch"
            if world == "own" or (numbers and case.actions == "discrete"):
                yield pytest.param(case, world, id="-".join([*case, world]))


every_world = pytest.mark.parametrize("case, world", list(resumable()))


def keys_of(case: Case, world: str) -> dict[str, Any]:
    """Keys under which as much as there is changes between two steps."""
    known = options_class(AGENTS[case.agent]).model_fields
    return {**WORLDS[world], **{key: value for key, value in GROWN.items() if key in known}}


def saved(lab: Lab, folder: Path) -> dict[str, Any]:
    """Its state, as a fresh process reads it."""
    save(folder / "all.safetensors", lab.state)
    return load(folder / "all.safetensors")


@every_world
@pytest.mark.parametrize("steps", [9, 42])
def test_what_is_stopped_goes_on_identically(case: Case, world: str, steps: int, tmp_path: Path):
    keys = keys_of(case, world)
    whole = Lab(case, **keys).go(steps)
    past = saved(whole, tmp_path)
    parted = Lab(case, past, **keys)
    assert parted.exact
    assert equal_trees(parted.state, past)  # nothing is written by it
    whole.told.clear()
    for lab in (whole, parted):
        lab.watch().go(300)
        lab.memory.check()
    assert len(whole.told) > 100 and whole.told == parted.told
    assert whole.played == parted.played
    assert whole.rollout.episodes == parted.rollout.episodes
    assert equal_trees(whole.state, parted.state)


@every_case
def test_what_is_saved_of_a_rollout_is_a_copy(case: Case):
    lab = Lab(case).go(20)
    state, again = lab.rollout.state(), lab.rollout.state()
    assert equal_trees(state, again)
    other = Lab(case)
    other.rollout.resume(state, [])
    other.go(20)
    lab.go(20)
    assert equal_trees(state, again)
    assert not equal_trees(state, lab.rollout.state())


@every_case
def test_where_the_world_cannot_be_put_back_episodes_begin_anew(case: Case, tmp_path: Path):
    whole = Lab(case, **keys_of(case, "own")).go(71)
    past = saved(whole, tmp_path)
    del past["rollout"]["env"]
    parted = Lab(case, past, **keys_of(case, "own"))
    assert not parted.exact
    parted.memory.check()
    before, after = past["rollout"], parted.rollout.state()
    kept = ("finished", "returns", "lengths", "infos")
    assert all(after["episodes"][name] == before["episodes"][name] for name in kept)
    assert not after["episodes"]["open_return"].any()
    assert not after["episodes"]["open_length"].any()
    assert after["first"].all()
    assert after["actor"].get("rng") == before["actor"].get("rng")
    updates = parted.agent.updates
    parted.go(100)
    parted.memory.check()
    assert parted.agent.updates > updates
    assert parted.rollout.episodes.finished > before["episodes"]["finished"]
    again = Lab(case, past, **keys_of(case, "own")).go(100)
    assert equal_trees(again.state, parted.state)


# In the loop.


@every_case
def test_it_runs_from_end_to_end(case: Case, tmp_path: Path):
    run = Run(tmp_path, case.row).go()
    assert run.result["status"] == run.status["state"] == "finished"
    assert 300 <= run.result["steps"] < 300 + LANES
    assert run.result["updates"] > 0 and run.result["eval_episodes"] == 100
    told = {name for row in run.rows for name, cell in row.items() if cell}
    assert set(run.parts.agent.metrics) <= told
    saved = Checkpoints(run.folder.checkpoints).load("last", pytest.fail)
    assert equal_trees(dict(saved["weights"]), dict(run.parts.agent.weights()))


def named(path: Path) -> list[str]:
    """Agents that a file's code names as strings."""
    tree = ast.parse(path.read_text())
    return [
        f"{path.relative_to(ROOT)}:{node.lineno} names {node.value!r}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in AGENTS
    ]


def test_nothing_but_the_tables_knows_an_agent_by_name():
    tables = {ROOT / "utils" / "factory.py", ROOT / "utils" / "options.py"}
    files = [ROOT / "main.py"]
    files += [path for part in ("core", "utils", "models") for path in (ROOT / part).rglob("*.py")]
    assert len(files) > 50 and tables <= set(files)
    assert [found for path in files if path not in tables for found in named(path)] == []
    assert all(named(path) for path in tables)
