"""Which sampler a memory over a ring has: the keys that say so, and putting it together."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple, Self

from pydantic import field_validator, model_validator

from ..memory import MemoryContext
from ..options import option
from ..row_memory import Kept, RowMemoryOptions, Told
from ..storage.ring import RingBuffer
from ..storage.view import RingView
from .balanced import STRATUM_NAMES, Balance, Balanced, By
from .capacity import Adaption, Adaptive
from .layout import BytesOf, strata_bytes, tree_bytes
from .recent import Recency, Recent
from .uniform import Sampler, Uniform

if TYPE_CHECKING:
    from .mixture import Part
    from .prioritized import Prioritized

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "prioritized": ("priority_exponent",),
    "balanced": ("balance_by", "balance", "balance_weights"),
    "recent": ("recent_rows", "recent_decay"),
}
"""Keys of one sampler, or of a mixture in which it is."""

BESIDE: Final[Mapping[str, BytesOf]] = {"prioritized": tree_bytes, "balanced": strata_bytes}


class SamplerOptions(RowMemoryOptions):
    """Keys of samplers that every memory over a ring can have."""

    mixes: ClassVar[tuple[str, ...]] = ("uniform", "balanced", "recent")
    """What a mixture may be of."""

    sampler: Literal["uniform", "prioritized", "balanced", "recent", "mixture"] = option(
        "uniform", help="draw each unit alike, or some more often than others"
    )
    balance_by: By = option(
        "reward", help="balanced: strata by the sign of a step's reward, or of its episode's return"
    )
    balance: dict[str, float] = option(
        {},
        help="balanced: shares of positive, zero and negative, up to a factor; by default equal",
    )
    balance_weights: bool = option(
        True, help="balanced: weights make up for the shares; false: all weights are 1"
    )
    recent_rows: int = option(
        5_000, ge=1, unit="rows", help="recent: the newest rows that every batch may be drawn from"
    )
    recent_decay: float = option(
        0.996,
        ge=0,
        le=1,
        help="recent: what the share of rows to draw from shrinks by with each batch of a round "
        "(eta); 0: always the newest recent_rows",
    )
    mixture: dict[str, float] = option(
        {}, help="mixture: samplers with their shares of a batch, which sum to 1"
    )

    @property
    def samplers(self) -> tuple[str, ...]:
        """Those it draws by: one, or those of a mixture."""
        return tuple(self.mixture) if self.sampler == "mixture" else (self.sampler,)

    @property
    def takes_feedback(self) -> bool:
        """See `MemoryOptions.takes_feedback`."""
        return "prioritized" in self.samplers

    @property
    def beside(self) -> tuple[BytesOf, ...]:
        """See `RowMemoryOptions.beside`."""
        return tuple(BESIDE[name] for name in self.samplers if name in BESIDE)

    @field_validator("balance")
    @classmethod
    def _strata(cls, shares: dict[str, float]) -> dict[str, float]:
        if unknown := set(shares) - set(STRATUM_NAMES):
            raise ValueError(f"shares of {', '.join(STRATUM_NAMES)}, not of '{min(unknown)}'")
        if shares and (set(shares) != set(STRATUM_NAMES) or min(shares.values()) <= 0):
            raise ValueError(f"a share above 0 of each of {', '.join(STRATUM_NAMES)}")
        return shares

    @field_validator("mixture")
    @classmethod
    def _mixed(cls, shares: dict[str, float]) -> dict[str, float]:
        if unknown := set(shares) - set(cls.mixes):
            raise ValueError(f"shares of {', '.join(cls.mixes)}, not of '{min(unknown)}'")
        total = sum(shares.values())
        if shares and (min(shares.values()) <= 0 or abs(total - 1.0) > 1e-6):
            raise ValueError(f"shares above 0 that sum to 1; these sum to {total:g}")
        return shares

    @model_validator(mode="after")
    def _only_its_own(self) -> Self:
        if bool(self.mixture) != (self.sampler == "mixture"):
            raise ValueError("mixture, as {'uniform': 0.5, 'recent': 0.5}, with sampler mixture")
        for name, keys in KEYS.items():
            for key in keys if name not in self.samplers else ():
                if key in type(self).model_fields and self._changed(key):
                    raise ValueError(f"{key} with sampler {name} alone, or in a mixture of it")
        return self

    def _changed(self, key: str) -> bool:
        return bool(getattr(self, key) != type(self).model_fields[key].default)


class PriorityOptions(SamplerOptions):
    """Keys of memories that learn from errors too."""

    mixes: ClassVar[tuple[str, ...]] = ("uniform", "prioritized", "balanced", "recent")

    priority_exponent: float = option(
        0.6, ge=0, le=1, help="prioritized: how much errors count (alpha); 0: all are drawn alike"
    )
    importance_exponent: float = option(
        0.4,
        ge=0,
        le=1,
        help="prioritized: how much weights correct for it at first (beta), rising to 1 at the end",
    )

    capacity_rule: Literal["fixed", "adaptive"] = option(
        "fixed", help="draw from all that is held, or from as many of the newest rows as errors say"
    )
    capacity_interval: int = option(
        1_000, ge=1, unit="batches", help="adaptive: how often the rows drawn from change"
    )
    capacity_step: int = option(
        1_000, ge=1, unit="rows", help="adaptive: what they change by; how many are the oldest"
    )

    @property
    def takes_feedback(self) -> bool:
        """See `MemoryOptions.takes_feedback`."""
        return super().takes_feedback or self.capacity_rule == "adaptive"

    @model_validator(mode="after")
    def _adaptive(self) -> Self:
        if self.capacity_rule == "fixed":
            for key in ("capacity_interval", "capacity_step"):
                if self._changed(key):
                    raise ValueError(f"{key} with capacity_rule adaptive alone")
        elif self.sampler != "uniform":
            raise ValueError("capacity_rule adaptive with sampler uniform alone")
        return self

    @model_validator(mode="after")
    def _annealed(self) -> Self:
        if self.sampler != "prioritized" and self._changed("importance_exponent"):
            raise ValueError("importance_exponent with sampler prioritized alone")
        return self


class Chosen(NamedTuple):
    """A sampler, and what of it learns or is saved."""

    sampler: Sampler
    priorities: "Prioritized | None"
    told: Told | None
    kept: dict[str, Kept]


def choose(
    options: SamplerOptions, context: MemoryContext, ring: RingBuffer, view: RingView
) -> Chosen:
    """The sampler that the options name, over a ring."""
    reach = context.shared.window_length - 1
    if isinstance(options, PriorityOptions) and options.capacity_rule == "adaptive":
        adaption = Adaption(options.capacity_interval, options.capacity_step)
        adaptive = Adaptive(view, reach, adaption)
        return Chosen(adaptive, None, adaptive, {"capacity": adaptive})
    if options.samplers == ("uniform",):
        return Chosen(Uniform(), None, None, {})
    priorities = _priorities(options, context, ring, reach)
    parts: dict[str, Part] = {} if priorities is None else {"prioritized": priorities}
    kept: dict[str, Kept] = {}
    if "balanced" in options.samplers:
        plus, zero, minus = (options.balance.get(name, 1.0) for name in STRATUM_NAMES)
        balance = Balance(options.balance_by, (plus, zero, minus), options.balance_weights)
        kept["balanced"] = parts["balanced"] = Balanced(ring, view, reach, balance)
    if "recent" in options.samplers:
        recency = Recency(options.recent_rows, options.recent_decay)
        kept["recent"] = parts["recent"] = Recent(view, reach, recency)
    if options.sampler != "mixture":
        return Chosen(parts[options.sampler], priorities, priorities, kept)
    from .mixture import Alike, Mixture

    parts["uniform"] = Alike()
    return Chosen(Mixture(parts, options.mixture), priorities, priorities, kept)


def _priorities(
    options: SamplerOptions, context: MemoryContext, ring: RingBuffer, reach: int
) -> "Prioritized | None":
    if "prioritized" not in options.samplers or not isinstance(options, PriorityOptions):
        return None
    # numba is loaded only where it is used
    from .prioritized import Exponents, Prioritized

    exponents = Exponents(options.priority_exponent, options.importance_exponent)
    return Prioritized(ring, reach, exponents, context.progress)
