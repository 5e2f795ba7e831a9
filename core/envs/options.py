"""Options of the environments; importing them loads no gymnasium."""

from collections.abc import Mapping
from typing import Any, Literal

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

    def about(self, notes: Mapping[str, str] | None = None) -> str:
        """What was decided, on one line: the game, and every other key with its value.

        A note of a key stands behind its value, in brackets.
        """
        keys = {key: value for key, value in self.model_dump().items() if key != "game"}
        said = {key: f" ({note})" for key, note in (notes or {}).items()}
        shown = (f"{key} {_shown(value)}{said.get(key, '')}" for key, value in keys.items())
        return f"{self.game}: {', '.join(shown)}"


def _shown(value: Any) -> str:
    """A value as a flag would say it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


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


class AtariOptions(EnvOptions):
    """Games of the Arcade Learning Environment; defaults of Dopamine (Castro et al. 2018)."""

    game: str = option(help="an id of ale-py, as ALE/Pong-v5; it gives the game, the keys the rest")
    time_limit: int = option(
        0,
        ge=0,
        unit="env steps",
        help="a game is cut after so many; 0: after ALE's own 108,000 frames, half an hour",
    )
    greyscale: Literal["luma", "mean", "off"] = option(
        "luma",
        help="one plane: brightness (Mnih et al. 2015), or the mean of red, green and blue; "
        "off: RGB",
    )
    resize: int = option(
        84,
        ge=0,
        le=256,
        unit="pixels",
        help="side of the square that a screen is shrunk to, by area; 0: as drawn "
        "(84: Mnih et al. 2015)",
    )
    frame_skip: int = option(
        4,
        ge=1,
        le=60,
        unit="frames",
        help="frames of one env step, exactly, whatever the id skips (4: Mnih et al. 2015)",
    )
    max_pool: bool = option(
        True,
        help="the brighter of the last two frames, pixel by pixel, since sprites flicker "
        "(Mnih et al. 2015)",
    )
    noop_max: int = option(
        0,
        ge=0,
        le=1_000,
        unit="frames",
        help="a game begins with 1 to so many idle frames (30: Mnih et al. 2015; 0: Machado et "
        "al. 2018, with sticky actions)",
    )
    fire_reset: bool = option(
        False,
        help="FIRE is pressed for one env step as a game begins; with episodic_life, as a life "
        "does (OpenAI baselines; off: Machado et al. 2018)",
    )
    episodic_life: bool = option(
        False,
        help="a lost life is worth nothing from there on, while the game and its return go on "
        "(Mnih et al. 2015; off: Machado et al. 2018)",
    )
    sticky_actions: float = option(
        0.25,
        ge=0,
        lt=1,
        help="chance, each frame, that the last action is repeated (0.25: Machado et al. 2018; "
        "0: Mnih et al. 2015)",
    )
    full_action_space: bool = option(
        False,
        help="all 18 actions (Machado et al. 2018), not only those the game uses "
        "(Mnih et al. 2015)",
    )


class MinAtarOptions(EnvOptions):
    """Small games on 10x10 planes; defaults of Young and Tian (2019)."""

    game: Literal["asterix", "breakout", "freeway", "seaquest", "space_invaders"] = option(
        help="which of the five games"
    )
    time_limit: int = option(
        0,
        ge=0,
        unit="env steps",
        help="an episode is cut after so many; 0: freeway after its own 2,501, the rest never",
    )
    sticky_actions: float = option(
        0.1, ge=0, lt=1, help="chance, each step, that the last action is repeated"
    )
    difficulty_ramping: bool = option(
        True, help="asterix, seaquest and space_invaders grow harder as they go on"
    )
    full_action_space: bool = option(
        True, help="all 6 actions, not only those the game uses (the package's v0 and v1)"
    )
