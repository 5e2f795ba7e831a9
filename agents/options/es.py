"""Options of the evolution strategies."""

from typing import ClassVar

from pydantic import model_validator

from core.agent import AgentOptions
from core.errors import UsageError
from core.options import SharedOptions, option
from core.types import Unit


class SearchOptions(AgentOptions):
    """What the agents that search over parameters have in common."""

    reads: ClassVar[frozenset[Unit]] = frozenset({Unit.PARAMETERS})
    models: ClassVar[frozenset[str]] = frozenset({"es-mlp"})

    population: int = option(
        32, ge=2, le=1 << 20, unit="candidates", help="candidates of a generation"
    )
    normalize_obs: bool = option(
        False, help="shift and scale observations by what earlier generations saw"
    )

    def check(self, shared: SharedOptions, most_units: int) -> None:
        """See `AgentOptions.check`: the memory has to hold a generation."""
        if self.population > most_units:
            raise UsageError(
                f"memory_limit {most_units} cannot hold a generation: population is "
                f"{self.population}"
            )


class ESOptions(SearchOptions):
    """OpenAI's evolution strategy: antithetic noise, centred ranks, Adam."""

    lr: float = option(0.03, gt=0, le=10, help="step size of Adam")
    sigma: float = option(0.1, gt=0, le=100, help="spread of the candidates around the mean")
    weight_decay: float = option(0.005, ge=0, lt=1, help="pull of the parameters to 0")

    @model_validator(mode="after")
    def _pairs(self) -> "ESOptions":
        if self.population % 2:
            raise ValueError("an even population: candidates come in pairs")
        return self


class CEMOptions(SearchOptions):
    """Cross-entropy method: the next generation is drawn around the elites of the memory."""

    elite_share: float = option(0.25, gt=0, le=1, help="best share of a population: the elites")
    elite_generations: int = option(
        1, ge=1, unit="generations", help="newest generations whose candidates may be elites"
    )
    sigma: float = option(1.0, gt=0, le=100, help="spread of the first generation")
    extra_std: float = option(0.5, ge=0, le=100, help="spread added at first, falling to 0")
    extra_generations: int = option(
        10, ge=1, unit="generations", help="generations until nothing is added"
    )

    def check(self, shared: SharedOptions, most_units: int) -> None:
        """See `AgentOptions.check`: the memory has to hold all that may be elites."""
        super().check(shared, most_units)
        if self.population * self.elite_generations > most_units:
            raise UsageError(
                f"memory_limit {most_units} cannot hold elite_generations "
                f"{self.elite_generations} of population {self.population}"
            )

    @model_validator(mode="after")
    def _somebody(self) -> "CEMOptions":
        if int(self.population * self.elite_share) < 1:
            raise ValueError(
                f"an elite_share that selects somebody: {self.elite_share} of {self.population} "
                "candidates is nobody"
            )
        return self
