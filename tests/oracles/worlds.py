"""Random worlds: writes the same random events to a memory and to its slow twin."""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.memories.sequential import SequentialMemory, SequentialOptions
from core.memory import MemoryContext
from core.options import SharedOptions
from core.types import ActionSpace, ArraySpec, ContinuousActions, DiscreteActions, EnvSpec

from .history import Happened, History, Obs

F32, U8 = np.dtype(np.float32), np.dtype(np.uint8)
OBSERVATIONS: dict[str, dict[str, ArraySpec]] = {
    "vector": {"obs": ArraySpec((3,), F32)},
    "bytes": {"obs": ArraySpec((5,), U8)},
    "scalar": {"obs": ArraySpec((), np.dtype(np.float64))},
    "pixels": {"obs": ArraySpec((16, 16), U8)},
    "colour": {"obs": ArraySpec((10, 9, 3), U8)},
    "bits": {"obs": ArraySpec((16, 17), np.dtype(np.bool_))},
    "floats": {"obs": ArraySpec((16, 16), F32)},
    "parts": {"obs.image": ArraySpec((16, 16), U8), "obs.state": ArraySpec((2,), F32)},
}
ACTIONS: dict[str, ActionSpace] = {
    "few": DiscreteActions(3),
    "many": DiscreteActions(300),
    "box": ContinuousActions((-1.0, 0.0), (1.0, 5.0)),
}
EXTRAS = {
    "none": {},
    "policy": {"behaviour": ArraySpec((3,), F32), "mark": ArraySpec((), np.dtype(np.int64))},
}


@dataclass(frozen=True)
class World:
    """What a memory is made for."""

    observation: str = "vector"
    action: str = "few"
    extras: str = "none"
    lanes: int = 1
    window: int = 1
    n_step: int = 1
    gamma: float = 0.9
    capacity: int = 20
    keep_floats: bool = False
    seed: int = 0
    codec: str = "raw"
    chunk_frames: int = 16
    room: float | None = None
    """Bytes it may take, between what it needs at least and what it needs for all rows."""
    storage: str = "heap"
    sampler: str = "uniform"
    folder: Path | None = None
    """Where a memory on disk lies; by default somewhere, as long as it is there."""

    @property
    def env(self) -> EnvSpec:
        return EnvSpec(OBSERVATIONS[self.observation], ACTIONS[self.action])

    def memory(self) -> SequentialMemory:
        """A memory of this world."""
        options = SequentialOptions(
            memory_limit=self.capacity,
            float_frames="keep" if self.keep_floats else "exact",
            frame_codec=self.codec,
            chunk_frames=self.chunk_frames,
            storage=self.storage,
            sampler=self.sampler,
        )
        shared = SharedOptions(
            window_length=self.window, n_step=self.n_step, gamma=self.gamma, num_envs=self.lanes
        )
        rng = np.random.default_rng(self.seed)
        folder = self.folder
        if self.storage == "disk" and folder is None:
            folder = Path(tempfile.mkdtemp(prefix="engram-"))
        context = MemoryContext(self.env, shared, rng, EXTRAS[self.extras], folder=folder)
        if self.room is not None:
            plan = SequentialMemory.plan(options, context)
            low, high = plan.bytes_for(self.window + self.n_step), plan.bytes_high
            bound = int(low + self.room * max(high - low, 0))
            options = options.model_copy(update={"memory_bytes": bound})
        memory = SequentialMemory(options, context)
        if folder is not None and self.folder is None:
            weakref.finalize(memory, shutil.rmtree, folder)
        return memory

    def history(self) -> History:
        """Its slow twin."""
        return History(self.lanes, self.capacity, self.window, self.n_step, self.gamma)


# what may happen to a lane at a tick; steps are the rule, so most codes are steps
WAIT, STEP, TERMINATE, TRUNCATE, BOTH, LOSE_LIFE, LOSE_AND_CUT, BREAK_OFF, RENEW = range(9)
CODES = [*[STEP] * 10, WAIT, TERMINATE, TRUNCATE, BOTH, LOSE_LIFE, LOSE_AND_CUT, BREAK_OFF, RENEW]


LITTLE = 0.9
"""How often an observation is nearly the one before."""


class Twin:
    """A memory and its slow twin, living through the same events."""

    def __init__(self, world: World, *, split: bool = False) -> None:
        self.world = world
        self.memory = world.memory()
        self.history = world.history()
        self.rng = np.random.default_rng(world.seed + 1)
        self._last: Obs = {}
        self.after_each: Callable[[], None] | None = None
        """What is done after each tick."""

        lanes = list(range(world.lanes))
        self._groups = [lanes[0::2], lanes[1::2]] if split and len(lanes) > 1 else [lanes]
        self.renew()

    def renew(self) -> None:
        """Throws the writers away, as a dead collector does, and takes new ones."""
        self.writers = [self.memory.writer(group) for group in self._groups]

    def observe(self) -> Obs:
        """A random observation of one lane."""
        obs = {}
        for name, spec in self.world.env.observations.items():
            if spec.dtype.kind == "f" and not (len(spec.shape) > 1 and not self.world.keep_floats):
                obs[name] = self.rng.normal(size=spec.shape).astype(spec.dtype)
            else:
                high = 2 if spec.dtype == np.bool_ else 256
                obs[name] = self.rng.integers(0, high, spec.shape).astype(spec.dtype)
                self._change_little(name, obs)
        return obs

    def go_on_as(self, other: "Twin") -> None:
        """What happens from here on is what happens to another."""
        self.rng.bit_generator.state = other.rng.bit_generator.state
        self._last = dict(other._last)

    def _change_little(self, name: str, obs: Obs) -> None:
        """Mostly, makes an item nearly the last one, so that there is something to compress."""
        before = self._last.get(name)
        if before is not None and self.rng.random() < LITTLE:
            kept = self.rng.random(before.shape) < 0.97
            obs[name] = np.where(kept, before, obs[name])
        self._last[name] = obs[name]

    def happening(self, code: int) -> Happened:
        """A random step that ends as `code` says."""
        actions = self.world.env.actions
        if isinstance(actions, DiscreteActions):
            action: object = np.int64(self.rng.integers(actions.n))
        else:
            action = self.rng.uniform(-1, 1, actions.spec.shape).astype(np.float32)
        extras = {
            name: (100 * self.rng.normal(size=spec.shape)).astype(spec.dtype)
            for name, spec in EXTRAS[self.world.extras].items()
        }
        return Happened(
            action,
            float(self.rng.normal()),
            code in (TERMINATE, BOTH),
            code in (TRUNCATE, BOTH, LOSE_AND_CUT),
            code in (LOSE_LIFE, LOSE_AND_CUT),
            extras,
        )

    def tick(self, codes: list[int]) -> None:
        """One event a lane, batched over the lanes as a runtime does."""
        if RENEW in codes:
            self.renew()
        for writer, group in zip(self.writers, self._groups, strict=True):
            begins = [x for x in group if codes[x] != WAIT and not self.history.open(x)]
            begins += [x for x in group if codes[x] == BREAK_OFF and self.history.open(x)]
            self._start(writer, sorted(begins), group)
            moving = [x for x in group if codes[x] not in (WAIT, BREAK_OFF)]
            self._append(writer, moving, group, codes)

    def _start(self, writer, lanes: list[int], group: list[int]) -> None:
        if not lanes:
            return
        observed = [self.observe() for _ in lanes]
        # None means all of the writer's lanes, which has to be the same as naming them
        named = None if lanes == group else np.array(lanes)
        arrays = _batched(observed)
        writer.start(arrays, named)
        for lane, obs in zip(lanes, observed, strict=True):
            self.history.start(lane, obs)
        _spoil(arrays)

    def _append(self, writer, lanes: list[int], group: list[int], codes: list[int]) -> None:
        steps = [self.happening(codes[x]) for x in lanes]
        observed = [self.observe() for _ in lanes]
        if not lanes:
            return
        arrays = _batched(observed)
        extras = _batched([step.extras for step in steps])
        lost = np.array([step.lost_life for step in steps])
        writer.append(
            np.array([step.action for step in steps]),
            np.array([step.reward for step in steps]),
            np.array([step.terminated for step in steps]),
            np.array([step.truncated for step in steps]),
            arrays,
            extras or None,
            lost_life=lost if lost.any() else None,
            lanes=None if lanes == group else np.array(lanes),
        )
        for lane, step, obs in zip(lanes, steps, observed, strict=True):
            self.history.step(lane, step, obs)
        _spoil(arrays)
        _spoil(extras)

    def live(self, codes: bytes, check_every: int = 0) -> None:
        """One tick for every `lanes` codes, with a full comparison now and then."""
        for tick, events in enumerate(self.events(codes)):
            self.tick(events)
            if self.after_each is not None:
                self.after_each()
            if check_every and tick % check_every == 0:
                self.agree()
        self.agree()

    def events(self, codes: bytes) -> Iterator[list[int]]:
        """What `codes` say happens, tick by tick: an event a lane."""
        lanes = self.world.lanes
        for begin in range(0, len(codes) // lanes * lanes, lanes):
            yield [CODES[code % len(CODES)] for code in codes[begin : begin + lanes]]

    def agree(self) -> None:
        """Asserts that the memory gives exactly what its twin says it has to."""
        from .compare import assert_same

        assert_same(self.memory, self.history)


def _batched(items: list[dict]) -> dict[str, np.ndarray]:
    return {name: np.array([item[name] for item in items]) for name in items[0]}


def _spoil(arrays: dict[str, np.ndarray]) -> None:
    """What a caller may do with its arrays once they are written."""
    for array in arrays.values():
        array[...] = 1
