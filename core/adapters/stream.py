"""Steps as other loops tell them, (obs, next_obs, action, ...), into a memory of transitions.

Such loops tell every observation twice, and as stacks up to eight times. The memory keeps each
once; what is told again is compared instead, so that what comes back is what came, bit for bit.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ..episodes.transitions import TransitionReader
from ..errors import UsageError
from ..sampling.uniform import Draw
from ..types import NEXT, Array, ArraySpec, Batch, Columns, EnvSpec, Tree
from .keys import make_memory, shared_options
from .padding import ZEROS, PaddedReader
from .stacks import alike, find_stack, newest

FLAG: Final = ArraySpec((), np.dtype(np.bool_))
AUTORESETS: Final = ("same_step", "next_step")
ENDS: Final = ("terminated", "truncated")
"""How an episode ends, by the names that libraries have for it."""


class Step(NamedTuple):
    """What `RowWriter.append` wants to know of a step, beside the observation after it."""

    action: Array
    reward: Array
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


class Stream:
    """A memory of its own, filled by the steps of some lanes in the order they are made in.

    Of each step `next_obs` is the true observation after it, at an episode's end too. Where the
    next step's `obs` is another one, an episode began, and what was not finished ended truncated:
    so nobody has to tell resets, and no pair reaches across an episode's end.

    With `window_length` above 1 observations are stacks. Their newest frame is kept; that the
    others are the newest ones of the steps before, or in an episode's first stack its first frame
    again or zeros, is checked. With `autoreset` "next_step", as gymnasium's vector environments
    have it by default, the step after an episode's end only resets, and is left out.
    """

    def __init__(self, env: EnvSpec, rows: int, lanes: int, keys: Mapping[str, Any]) -> None:
        """`env` is what a lane gives, stacks as they come; `keys` are of `keys.KEYS`.

        Raises UsageError for a key or a value that is wrong.
        """
        self.env = env
        self._made_of = (env, rows, lanes, dict(keys))
        shared = shared_options(keys, lanes)
        if (resets := keys.get("autoreset", AUTORESETS[0])) not in AUTORESETS:
            raise UsageError(f"autoreset = {resets!r} is not allowed: one of {AUTORESETS}")
        self._skips = resets == "next_step"
        given, window = env.observations, shared.window_length
        self.stacks = {name: find_stack(name, spec, window) for name, spec in given.items()}
        frames = {n: ArraySpec(self.stacks[n].frame, spec.dtype) for n, spec in given.items()}
        self._stacked = window > 1
        self.memory = make_memory(
            EnvSpec(frames, env.actions),
            shared,
            {"memory_limit": rows, **keys},
            {ZEROS: FLAG} if self._stacked else {},
        )
        if self._stacked:
            self.memory.reader = PaddedReader.of(cast(TransitionReader, self.memory.reader))
        self._writer = self.memory.writer()
        self._lanes = np.arange(lanes)
        self._open, self._zeros, self._skip = np.zeros((3, lanes), np.bool_)
        self._last = {n: np.zeros((lanes, *spec.shape), spec.dtype) for n, spec in given.items()}
        self.steps = 0
        """Times that `add` was called."""

    def add(
        self,
        obs: Columns,
        next_obs: Columns,
        action: Array,
        reward: Array,
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        lanes: NDArray[np.int64] | None = None,
    ) -> None:
        """One step of each of those lanes, by default of all: `[L, ...]`.

        Raises ValueError, and remembers nothing of the step, where an observation does not follow.
        """
        self.steps += 1
        which = self._lanes if lanes is None else np.asarray(lanes)
        obs, next_obs = self._told(obs, len(which)), self._told(next_obs, len(which))
        step = Step(action, reward, terminated, truncated)
        if self._skip[which].any():
            kept = ~self._skip[which]
            self._skip[which], lanes, which = False, which[kept], which[kept]
            obs, next_obs = _pick(obs, kept), _pick(next_obs, kept)
            step = Step(*(np.asarray(part)[kept] for part in step))
            if not len(which):
                return
        follows = self._open[which]
        for name, last in self._last.items():
            follows = follows & alike(obs[name], last[which])
        zeros = self._zeros[which]
        if self._stacked:
            if not follows.all():
                zeros = np.where(follows, zeros, self._padded(obs, follows, which))
            self._check_shifted(obs, next_obs, which)
        self._write(obs, next_obs, step, which, follows, zeros, lanes)

    def extend(
        self,
        obs: Columns,
        next_obs: Columns,
        action: Array,
        reward: Array,
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> None:
        """Steps of all lanes, `[T, L, ...]`, one time after the other; see `add`."""
        for at in range(len(reward)):
            before, after = _pick(obs, at), _pick(next_obs, at)
            self.add(before, after, action[at], reward[at], terminated[at], truncated[at])

    def _write(
        self,
        obs: Columns,
        next_obs: Columns,
        step: Step,
        which: NDArray[np.int64],
        follows: NDArray[np.bool_],
        zeros: NDArray[np.bool_],
        lanes: NDArray[np.int64] | None,
    ) -> None:
        if not follows.all():
            self._writer.start(newest(self.stacks, _pick(obs, ~follows)), which[~follows])
        extras = {ZEROS: zeros} if self._stacked else None
        following = newest(self.stacks, next_obs)
        self._writer.append(*step, next_obs=following, extras=extras, lanes=lanes)
        ended = step.terminated | step.truncated
        self._open[which], self._zeros[which] = ~ended, zeros
        self._skip[which] = ended & self._skips
        for name, last in self._last.items():
            last[which] = next_obs[name]

    def _told(self, obs: Columns, count: int) -> Columns:
        """Arrays of the announced kind, not copied where they are. Raises ValueError otherwise."""
        told = {}
        for name, last in self._last.items():
            items = np.asarray(obs[name])
            if items.dtype != last.dtype or items.shape != (count, *last.shape[1:]):
                raise ValueError(
                    f"step {self.steps}: '{name}' is {items.dtype} {items.shape}, "
                    f"not {last.dtype} {(count, *last.shape[1:])}"
                )
            told[name] = items
        return told

    def _padded(
        self, obs: Columns, follows: NDArray[np.bool_], which: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Which lanes' stacks begin with zeros, and not with their newest frame again.

        Raises ValueError for a lane that does neither, and does not follow the step before.
        """
        zeros, again = np.ones((2, len(which)), np.bool_)
        for name, stack in self.stacks.items():
            frames = stack.split(obs[name])
            older = frames[:, :-1]
            zeros &= alike(older, np.zeros_like(older))
            again &= alike(older, np.broadcast_to(frames[:, -1:], older.shape))
        self._refuse(
            which[~(follows | zeros | again)],
            "obs is neither the next_obs of the step before nor the first stack of an episode, "
            "whose older frames are the newest one again, or zeros",
        )
        return zeros & ~again

    def _check_shifted(self, obs: Columns, next_obs: Columns, which: NDArray[np.int64]) -> None:
        """Raises ValueError unless each next stack is the one before and a frame more."""
        shifted = np.ones(len(which), np.bool_)
        for name, stack in self.stacks.items():
            before, after = stack.split(obs[name])[:, 1:], stack.split(next_obs[name])[:, :-1]
            shifted &= alike(before, after)
        self._refuse(
            which[~shifted],
            "next_obs is not obs and one frame more; at an episode's end it has to be the true "
            "last observation, not that of the reset",
        )

    def _refuse(self, lanes: NDArray[np.int64], why: str) -> None:
        if len(lanes):
            raise ValueError(f"step {self.steps}, lane {int(lanes[0])}: {why}")

    def sample(self, batch_size: int) -> Batch:
        """Transitions as `Memory.sample` draws them, observations stacked as they came."""
        return self._joined(self.memory.sample(batch_size))

    def read(self, lanes: NDArray[np.int64], rows: NDArray[np.int64]) -> Batch:
        """The transitions that start at those rows of the memory, all of them legal starts."""
        weight = np.ones(len(rows), np.float32)
        return self._joined(self.memory.reader.read(Draw(lanes, rows, weight)))

    def _joined(self, batch: Batch) -> Batch:
        for name, stack in self.stacks.items():
            for key in (name, NEXT + name):
                batch[key] = stack.join(batch[key])
        return batch

    def __getstate__(self) -> Tree:
        own = (self._open, self._zeros, self._skip, self._last, self.steps)
        return {"made_of": self._made_of, "memory": self.memory.state(), "own": own}

    def __setstate__(self, state: Tree) -> None:
        self.__init__(*state["made_of"])  # type: ignore[misc]
        self.memory.load(state["memory"])
        self._writer = self.memory.writer()
        self._open, self._zeros, self._skip, self._last, self.steps = state["own"]


def _pick(columns: Columns, which: Any) -> Columns:
    return {name: items[which] for name, items in columns.items()}
