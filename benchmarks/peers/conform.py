"""What the peers' conform_PEER.py scripts share: each holds one memory to the rules.

    .bench/venvs/PEER/bin/python benchmarks/peers/conform_PEER.py --mode MODE [--draws 2000]

with the checkout on PYTHONPATH, of which only `core.conformance` is loaded. Prints a line of JSON.
"""

import argparse
import json
import warnings
from collections.abc import Iterable
from importlib.metadata import version
from typing import NamedTuple

from core.conformance.boundaries import wrapped
from core.conformance.rules import RULES, check
from core.conformance.subject import EVERY, Factory, NotOffered, offers_of
from core.conformance.trial import Lab

BOUNDARY_DRAWS = 20_000
STACKED = 4


class Mode(NamedTuple):
    """One way to set a peer's memory up."""

    factory: Factory
    how: str
    """Its options, as the peer's documents have them for that purpose."""


def lacking(*names: str) -> frozenset[str]:
    """What a memory offers that offers all but that."""
    unknown = set(names) - EVERY.keys()
    if unknown:
        raise ValueError(f"nothing is called {min(unknown)}")
    return frozenset(EVERY.keys() - set(names))


def mode(factory: Factory, lacks: Iterable[str], how: str) -> Mode:
    """A mode whose memories lack something."""
    factory.offers = lacking(*lacks)  # type: ignore[attr-defined]
    return Mode(factory, how)


def boundary(factory: Factory, window: int) -> dict[str, object] | None:
    """Wrong units among `BOUNDARY_DRAWS` of a wrapped ring; None where it stacks no frames."""
    if window > 1 and "stacks" not in offers_of(factory):
        return None
    try:
        found = wrapped(Lab(factory, BOUNDARY_DRAWS), window)
    except NotOffered:
        return None
    return {"wrong": found.wrong, "of": found.of, "first": found.first}


def main(peer: str, package: str, modes: dict[str, Mode]) -> None:
    """Holds the mode that the command names to every rule."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=modes, required=True)
    parser.add_argument("--draws", type=int, default=2_000)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = modes[asked.mode]
    verdicts = [check(rule, chosen.factory, asked.draws) for rule in RULES]
    line = {
        "peer": peer,
        "mode": asked.mode,
        "version": version(package) if package else "",
        "how": chosen.how,
        "verdicts": {
            v.rule.number: {"outcome": v.outcome, "figure": v.figure, "first": v.why}
            for v in verdicts
        },
        "frames": boundary(chosen.factory, 1),
        "stacks": boundary(chosen.factory, STACKED),
    }
    print(json.dumps(line), flush=True)
