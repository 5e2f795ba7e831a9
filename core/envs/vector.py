"""A gymnasium vector environment made an `Env`, in whichever autoreset mode it runs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from ..errors import UsageError
from ..types import Array, Columns, EnvSpec, Tree
from . import snapshots
from .base import Step
from .lanes import Lanes
from .spaces import (
    ActionScaler,
    action_space,
    flat_observation,
    misread,
    observation_specs,
    pictures,
)

LOST_LIFE: Final = "engram.lost_life"
"""The info by which an environment tells that a life was lost, and the episode goes on."""


class GymVector:
    """Delivers true last observations and no step that did not happen.

    gymnasium's three modes differ in when a finished lane is reset: by us (DISABLED), within the
    last step, whose true observation then hides in the infos (SAME_STEP), or by a step of its own
    that ignores its action and must not be stored (NEXT_STEP). The info `LOST_LIFE` of a step is
    its `lost_life`. `about` is what the environment's maker says of it, and how its pictures lie.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any], about: str = "") -> None:
        self._envs = envs
        self._mode = AutoresetMode(envs.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        self.lanes = envs.num_envs
        self.observation_space = single = envs.single_observation_space
        frequency = envs.metadata.get("render_fps")
        self.spec = EnvSpec(
            observation_specs(single),
            action_space(envs.single_action_space),
            1 / frequency if frequency else None,
        )
        said = [about, *pictures(self.spec.observations), *misread(single)]
        self.about = "; ".join(filter(None, said))
        self._scale = ActionScaler(envs.single_action_space)
        self._all = np.ones(self.lanes, np.bool_)
        self._none = np.zeros(self.lanes, np.bool_)
        self._resetting = self._none

    def reset(self, seeds: Sequence[int]) -> Columns:
        """See `Env.reset`."""
        obs, _ = self._envs.reset(seed=list(seeds))  # type: ignore[arg-type]  # takes a list too
        self._resetting = self._none
        return flat_observation(obs)

    def step(self, actions: Array, playing: NDArray[np.bool_] | None = None) -> Step:
        """See `Env.step`; only `Lanes` can stand still."""
        stepped, started = self._all, self._none
        still: tuple[NDArray[np.bool_], ...] = ()
        if playing is not None and isinstance(self._envs, Lanes):
            stepped, still = playing, (playing,)
        obs, reward, terminated, truncated, infos = self._envs.step(self._scale(actions), *still)
        ended = terminated | truncated
        next_obs = acted_on = flat_observation(obs)
        if self._mode is AutoresetMode.NEXT_STEP:
            started, stepped = self._resetting, ~self._resetting
            self._resetting = ended & stepped
        elif ended.any():
            started = ended
            next_obs = {name: array.copy() for name, array in next_obs.items()}
            if self._mode is AutoresetMode.SAME_STEP:
                _put_final(next_obs, infos["final_obs"], ended)
            else:
                fresh, _ = self._envs.reset(options={"reset_mask": ended})
                acted_on = flat_observation(fresh)
        numbers = _numbers(infos, stepped, ended) if infos else {}
        lost_life = numbers.pop(LOST_LIFE, None)
        return Step(
            stepped=stepped,
            reward=np.asarray(reward, np.float64),
            terminated=terminated,
            truncated=truncated,
            next_obs=next_obs,
            started=started,
            obs=acted_on,
            lost_life=None if lost_life is None else lost_life == 1,
            infos=numbers,
        )

    def restart(self, lanes: NDArray[np.int64], seeds: Sequence[int]) -> Columns:
        """See `Env.restart`."""
        if self._mode is not AutoresetMode.DISABLED:
            raise UsageError(f"this env resets by itself ({self._mode.value}): no lane can restart")
        mask = self._none.copy()
        mask[lanes] = True
        every: list[int | None] = [None] * self.lanes
        for lane, seed in zip(lanes, seeds, strict=True):
            every[lane] = seed
        obs, _ = self._envs.reset(seed=every, options={"reset_mask": mask})  # type: ignore[arg-type]
        return flat_observation(obs)

    def snapshot(self) -> Tree | None:
        """See `Env.snapshot`; `core.envs.snapshots` says which environments give one."""
        taken = snapshots.take(self._envs)
        return None if taken is None else taken | {"resetting": self._resetting.copy()}

    def restore(self, snapshot: Tree) -> None:
        """See `Env.restore`."""
        snapshots.put(self._envs, snapshot)
        self._resetting = snapshot["resetting"].copy()

    def close(self) -> None:
        """See `Env.close`."""
        self._envs.close()


def _put_final(next_obs: Columns, final: Array, ended: Array) -> None:
    """Replaces, in the lanes that ended, the reset observation by the true last one."""
    for lane in np.flatnonzero(ended):
        for name, value in flat_observation(final[lane]).items():
            next_obs[name][lane] = value


def _numbers(
    infos: Mapping[str, Any], stepped: NDArray[np.bool_], ended: NDArray[np.bool_]
) -> dict[str, Array]:
    """The numeric infos of the step, NaN in the lanes that gave none; the rest is not kept.

    Where the step's own infos make way for those of a reset, they hide in `final_info`.
    """
    last = infos.get("final_info")
    if last is None:
        return _numbers_of(infos, stepped)
    found = _numbers_of(infos, stepped & ~ended)
    for key, values in _numbers_of(last, ended).items():
        found[key] = np.where(ended, values, found.get(key, np.nan))
    return found


def _numbers_of(infos: Mapping[str, Any], lanes: NDArray[np.bool_]) -> dict[str, Array]:
    numbers = {
        key: np.where(infos[f"_{key}"] & lanes, value.astype(np.float64), np.nan)
        for key, value in infos.items()
        if f"_{key}" in infos and _is_number_a_lane(value)
    }
    return {key: values for key, values in numbers.items() if not np.isnan(values).all()}


def _is_number_a_lane(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biuf"
