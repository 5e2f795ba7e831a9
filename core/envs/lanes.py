"""gymnasium's environments stepped one after the other, with little in between."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import concatenate
from numpy.typing import NDArray

from ..types import Array, all_of, any_of


class Lanes(SyncVectorEnv):
    """A SyncVectorEnv that is reset by its user, in which lanes may stand still.

    The observations that it gives are valid until the next call. gymnasium's own spends longer on
    joining them than a small environment on its step.
    """

    def __init__(self, makers: Sequence[Callable[[], gym.Env[Any, Any]]]) -> None:
        super().__init__(makers, copy=False, autoreset_mode=AutoresetMode.DISABLED)
        space = self.single_observation_space
        self._plain = isinstance(space, spaces.Box | spaces.MultiBinary)
        self._shape, self._dtype = space.shape, space.dtype
        self._indices = isinstance(self.single_action_space, spaces.Discrete)
        self._every = list(range(self.num_envs))

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """See `SyncVectorEnv.reset`; with `reset_mask` among the options, of those lanes alone."""
        mask = None if options is None else options.get("reset_mask")
        if mask is None or not self._plain:
            return super().reset(seed=seed, options=options)  # type: ignore[arg-type]
        infos: dict[str, Any] = {}
        seeds = [None] * self.num_envs if seed is None else list(seed)  # type: ignore[arg-type]
        rest = {key: value for key, value in (options or {}).items() if key != "reset_mask"}
        for lane in np.flatnonzero(mask).tolist():
            obs, info = self.envs[lane].reset(seed=seeds[lane], options=rest)
            self._show(lane, obs)
            infos = self._add_info(infos, info, lane) if info else infos
        for flags in (self._terminations, self._truncations, self._autoreset_envs):
            flags[mask] = False
        return self._observations, infos

    def step(
        self, actions: Array, playing: NDArray[np.bool_] | None = None
    ) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """See `SyncVectorEnv.step`; lanes that do not play stand still, and earn nothing.

        Raises RuntimeError for a lane whose episode is over and was not begun anew.
        """
        if any_of(self._autoreset_envs):
            raise RuntimeError("a lane is stepped whose episode is over")
        infos: dict[str, Any] = {}
        rewards, terminations, truncations = self._rewards, self._terminations, self._truncations
        lanes = self._every
        if playing is not None and not all_of(playing):
            rewards[...], terminations[...], truncations[...] = 0.0, False, False
            lanes = np.flatnonzero(playing).tolist()
        envs, show = self.envs, self._show
        # Python's own integers: gymnasium looks at one of numpy's for longer than CartPole moves
        moves = actions.tolist() if self._indices else actions
        for lane in lanes:
            obs, reward, terminated, truncated, info = envs[lane].step(moves[lane])
            rewards[lane], terminations[lane], truncations[lane] = reward, terminated, truncated
            show(lane, obs)
            if info:
                infos = self._add_info(infos, info, lane)
        if not self._plain:
            self._observations = concatenate(
                self.single_observation_space, self._env_obs, self._observations
            )
        np.logical_or(terminations, truncations, out=self._autoreset_envs)
        ends = terminations.copy(), truncations.copy()  # a reset before the next step clears ours
        return self._observations, rewards.copy(), *ends, infos

    def _show(self, lane: int, obs: Any) -> None:
        """Puts an observation among the others; raises ValueError where it is of another shape."""
        self._env_obs[lane] = obs
        if not self._plain:
            return
        if type(obs) is np.ndarray and obs.shape == self._shape and obs.dtype == self._dtype:
            self._observations[lane] = obs
        else:  # as gymnasium joins them: numbers are cast where nothing is lost but precision
            np.stack([obs], out=self._observations[lane : lane + 1])
