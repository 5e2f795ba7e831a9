"""What episodes are of: the columns of their observations, actions and extras."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..episodes.rows import BOOK
from ..storage.ring import RingBuffer
from ..types import ActionSpace, ArraySpec, ContinuousActions, DiscreteActions, EnvSpec

STORED_AS: Final = {
    "discrete": "an index from 0, whatever the environment's first action is",
    "continuous": "numbers in [-1, 1], which the environment's adapter scales to low..high",
}
"""What an action is in a memory, and in a file."""


@dataclass(frozen=True)
class Space:
    """Columns by name: `T + 1` observations an episode, and `T` of everything else."""

    observations: Mapping[str, ArraySpec]
    actions: ActionSpace
    extras: Mapping[str, ArraySpec]

    @classmethod
    def of(cls, ring: RingBuffer, env: EnvSpec) -> "Space":
        """The space of a ring of episodes of that environment."""
        known = {*env.observations, *BOOK, "action"}
        extras = {plan.name: plan.spec for plan in ring.plan.columns if plan.name not in known}
        return cls(dict(env.observations), env.actions, extras)

    @property
    def steps(self) -> dict[str, ArraySpec]:
        """The columns of a step."""
        book = {name: BOOK[name] for name in ("reward", "terminal")}
        return {"action": self.actions.spec, **book, **self.extras}

    @property
    def columns(self) -> dict[str, ArraySpec]:
        """All columns, in the order in which they are summed."""
        return {**self.observations, **self.steps}

    @property
    def row_bytes(self) -> int:
        """Bytes of an observation and its step."""
        return sum(spec.nbytes for spec in self.columns.values())

    def differences(self, other: "Space", here: str, there: str) -> list[str]:
        """What differs, field by field, in words; `here` and `there` say whose is whose."""
        return [
            f"{name} is {_shown(own)} {here} and {_shown(foreign)} {there}"
            for name, own, foreign in _paired(self._fields(), other._fields())
            if own != foreign
        ]

    def _fields(self) -> dict[str, ArraySpec | ActionSpace]:
        return {**self.observations, "action": self.actions, **self.extras}

    def as_json(self) -> dict[str, Any]:
        """As a file holds it."""
        return {
            "observations": {name: _spec_json(x) for name, x in self.observations.items()},
            "action": {"kind": self.actions.kind, **_actions_json(self.actions)},
            "extras": {name: _spec_json(x) for name, x in self.extras.items()},
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Space":
        """The space that `as_json` wrote; raises KeyError, TypeError or ValueError for no such."""
        observations, extras = (
            {name: _spec(x) for name, x in content[part].items()}
            for part in ("observations", "extras")
        )
        return cls(observations, _actions(content["action"]), extras)


def _paired(
    own: Mapping[str, Any], foreign: Mapping[str, Any]
) -> list[tuple[str, ArraySpec | ActionSpace | None, ArraySpec | ActionSpace | None]]:
    names = [*own, *(name for name in foreign if name not in own)]
    return [(name, own.get(name), foreign.get(name)) for name in names]


def _shown(field: ArraySpec | ActionSpace | None) -> str:
    if field is None:
        return "missing"
    if isinstance(field, ArraySpec):
        return f"{field.dtype}{list(field.shape)}"
    if isinstance(field, ContinuousActions):
        return f"{field} of {list(field.low)} to {list(field.high)}"
    return str(field)


def _spec_json(spec: ArraySpec) -> dict[str, Any]:
    return {"dtype": spec.dtype.str, "shape": list(spec.shape)}


def _spec(content: Mapping[str, Any]) -> ArraySpec:
    return ArraySpec(tuple(content["shape"]), np.dtype(content["dtype"]))


def _actions_json(actions: ActionSpace) -> dict[str, Any]:
    if isinstance(actions, DiscreteActions):
        return {"n": actions.n}
    return {"low": list(actions.low), "high": list(actions.high)}


def _actions(content: Mapping[str, Any]) -> ActionSpace:
    if content["kind"] == "discrete":
        return DiscreteActions(content["n"])
    return ContinuousActions(tuple(content["low"]), tuple(content["high"]))
