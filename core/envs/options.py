"""Options of the environments; importing them loads no gymnasium."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from ..options import Options, option

NO_LIMIT: Final = 27_000
"""Env steps of an episode of which nobody else says when it is cut; as `eval_limit` is."""
Grey = Literal["luma", "mean", "off"]
Margin = Annotated[int, Field(ge=0)]
Crop = Annotated[
    tuple[Margin, Margin, Margin, Margin],
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
]
"""Rows and columns cut off: top, bottom, left, right; a row may say them as a list."""


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

    time_limit: int = option(
        0,
        ge=0,
        unit="env steps",
        help=f"an episode is cut after so many; 0: the game's own limit, or {NO_LIMIT:,} without",
    )
    actions: Literal["own", "discrete", "continuous"] = option(
        "own",
        help="of a game that has both, as CarRacing and LunarLander: an index, or numbers; own: "
        "as its id says",
    )
    crop: Crop = option(
        (0, 0, 0, 0),
        unit="pixels",
        help="rows and columns cut off a picture: top, bottom, left, right",
    )
    greyscale: Grey = option(
        "off",
        help="a picture's one plane: brightness, or the mean of red, green and blue; off: RGB",
    )
    resize: int = option(
        0,
        ge=0,
        le=256,
        unit="pixels",
        help="side of the square that a picture is brought to, by area; 0: as it is",
    )
    frame_skip: int = option(
        1, ge=1, le=60, unit="frames", help="frames of one env step, all with the same action"
    )
    max_pool: bool = option(False, help="the brighter of a step's last two frames, pixel by pixel")
    noop_max: int = option(
        0,
        ge=0,
        le=1_000,
        unit="frames",
        help="an episode begins with 1 to so many idle frames: action 0, or zeros",
    )

    @property
    def pictured(self) -> dict[str, Any]:
        """Keys that only a picture can have, with their values, where they change it."""
        return self._changed(PICTURE_KEYS)

    @property
    def prepared(self) -> dict[str, Any]:
        """All keys that stand between the environment and who acts, where they change anything."""
        return self._changed(("actions", *PICTURE_KEYS, "frame_skip", "noop_max"))

    def _changed(self, keys: tuple[str, ...]) -> dict[str, Any]:
        fields = type(self).model_fields
        values = {key: getattr(self, key) for key in keys}
        return {key: value for key, value in values.items() if value != fields[key].default}


PICTURE_KEYS: Final = ("crop", "greyscale", "resize", "max_pool")


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


class AtariRamOptions(EnvOptions):
    """Games of the Arcade Learning Environment, seen as the console's 128 bytes of memory."""

    game: str = option(help="an id of ale-py, as ALE/Pong-v5; it gives the game, the keys the rest")
    time_limit: int = option(
        0,
        ge=0,
        unit="env steps",
        help="a game is cut after so many; 0: after ALE's own 108,000 frames, half an hour",
    )
    frame_skip: int = option(
        4,
        ge=1,
        le=60,
        unit="frames",
        help="frames of one env step, exactly, whatever the id skips (4: Mnih et al. 2015)",
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


class AtariOptions(AtariRamOptions):
    """Games of the Arcade Learning Environment; defaults of Dopamine (Castro et al. 2018)."""

    greyscale: Grey = option(
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
    max_pool: bool = option(
        True,
        help="the brighter of the last two frames, pixel by pixel, since sprites flicker "
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
