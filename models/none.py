"""No network."""

from core.types import EnvSpec

from .options import NoModelOptions


def no_model(options: NoModelOptions, env: EnvSpec, window: int) -> None:
    """What an agent without a network is built with."""
