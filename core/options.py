"""Options: frozen, typed, checked when built, and doing nothing.

A component's options live with the component, as a subclass of `Options`; the factory joins those
of the chosen components with the run's own. `SharedOptions` holds the keys that more than one of
them reads, so that each key is declared once.
"""

from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Options(BaseModel):
    """Base of every options model: strict types, finite numbers, no unknown key, immutable."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, protected_namespaces=()
    )


def option(
    default: Any = ..., *, help: str, unit: str = "", changes: bool = False, **limits: Any
) -> Any:
    """A pydantic field with its one line of help, its unit and its limits (`ge`, `gt`, `le`, `lt`).

    Without a default the key has to stand in the row. With `changes`, a run that goes on may have
    another value; with another one of any other key it would be another run.
    """
    extra: dict[str, Any] = {"unit": unit, "changes": changes}
    return Field(default, description=help, json_schema_extra=extra, **limits)


class SharedOptions(Options):
    """Keys that several components read."""

    window_length: int = option(
        1, ge=1, le=64, unit="frames", help="observations stacked into one network input"
    )
    n_step: int = option(1, ge=1, le=1000, unit="steps", help="rewards summed before bootstrapping")
    trajectory_length: int = option(
        20, ge=1, le=100_000, unit="steps", help="steps of a trajectory, at most (T)"
    )
    gamma: float = option(0.99, ge=0, le=1, help="discount per step")
    batch_size: int = option(32, ge=1, unit="units", help="what one update samples")
    num_envs: int = option(1, ge=1, unit="envs", help="environments stepped together (lanes)")
    steps: int = option(
        50_000, ge=1, unit="env steps", changes=True, help="length of the run, over all lanes"
    )
    learn_start: int = option(
        1_000, ge=0, unit="units", help="what the memory holds before the first update"
    )
    seed: int = option(1, ge=0, lt=2**32, help="root of every random generator of the run")
    device: str = option("cpu", changes=True, help="where the networks live: cpu, cuda, cuda:0")
    threads: int = option(
        1, ge=1, unit="threads", changes=True, help="maths threads of this process"
    )


PARALLEL: Final = ("num_collectors", "lockstep", "max_policy_lag", "max_restarts", "env_timeout")


class LoopOptions(SharedOptions):
    """Keys of the training loop. Intervals count env steps over all lanes; 0 means never."""

    runtime: Literal["serial", "parallel"] = option(
        "serial",
        help="serial: all in one process; parallel: environments are stepped by processes of their "
        "own, while this one learns",
    )
    num_collectors: int = option(
        1, ge=1, unit="processes", changes=True, help="parallel: they share num_envs evenly"
    )
    lockstep: bool = option(
        False,
        help="parallel: all wait for each other before every step; slower, and the same every time",
    )
    max_policy_lag: int = option(
        1,
        ge=1,
        unit="steps of every env",
        help="parallel: how far ahead of the slowest they may be",
    )
    max_restarts: int = option(
        0, ge=0, unit="restarts", changes=True, help="parallel: of collectors that fail, in a run"
    )
    env_timeout: int = option(
        60,
        ge=0,
        unit="seconds",
        changes=True,
        help="parallel: a step that takes longer hangs; 0: none",
    )
    train_interval: int = option(
        1, ge=1, unit="env steps", help="learning comes after so many steps"
    )
    updates: int = option(1, ge=1, unit="updates", help="updates each time learning comes")
    eval_freq: int = option(
        1_000,
        ge=0,
        unit="env steps",
        changes=True,
        help="between two evaluations; 0: never, best is last",
    )
    eval_episodes: int = option(
        10,
        ge=1,
        unit="episodes",
        changes=True,
        help="greedy episodes of an evaluation during the run",
    )
    eval_limit: int = option(
        27_000,
        ge=1,
        unit="env steps",
        changes=True,
        help="longest episode of an evaluation; cut and counted",
    )
    checkpoint_freq: int = option(
        10_000,
        ge=0,
        unit="env steps",
        changes=True,
        help="between two checkpoints; 0: only at the end",
    )
    checkpoint_seconds: int = option(
        600, ge=0, unit="seconds", changes=True, help="and at the latest after so many; 0: never"
    )
    checkpoint_memory: bool = option(
        True,
        changes=True,
        help="save the memory too; without, a resumed run fills it anew before it learns",
    )
    keep_last: int = option(
        2, ge=1, unit="checkpoints", changes=True, help="newest checkpoints kept beside best"
    )
    log_freq: int = option(
        500, ge=1, unit="env steps", changes=True, help="between two rows of progress.csv"
    )

    @model_validator(mode="after")
    def _collectors(self) -> Self:
        if self.runtime == "serial":
            for key in PARALLEL:
                if getattr(self, key) != type(self).model_fields[key].default:
                    raise ValueError(f"{key} with runtime parallel alone")
        elif self.num_envs % self.num_collectors:
            raise ValueError(
                f"a num_collectors that divides num_envs {self.num_envs}, "
                f"which {self.num_collectors} does not"
            )
        return self
