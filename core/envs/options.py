"""Options of the environments; importing them loads no gymnasium."""

from typing import Literal

from ..options import Options, option


class EnvOptions(Options):
    """Keys that every environment reads."""

    game: str = option(help="which environment, by the name its family gives it")
    time_limit: int = option(
        0,
        ge=0,
        unit="env steps",
        help="an episode is cut after so many; 0: the game's own limit",
    )


class GymOptions(EnvOptions):
    """Any registered gymnasium environment, by its id ('module:Id' imports the module first)."""


class ToyOptions(EnvOptions):
    """Small worlds to test on: counter, chain, catch."""

    game: Literal["counter", "chain", "catch"] = option(help="which of the toy worlds")
    size: int = option(
        10, ge=2, le=256, help="counter: side of its frames; chain: states; catch: rows"
    )
    episode_length: int = option(
        7, ge=0, unit="env steps", help="counter: steps an episode takes; 0: never ends"
    )
    ending: Literal["terminate", "truncate"] = option(
        "terminate", help="counter: how an episode ends"
    )
    observation: Literal["vector", "pixels"] = option(
        "vector", help="counter: what an observation is"
    )
