"""Nearest names, for messages that say what was probably meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to `name`, or None where none is close."""
    folded = {candidate.lower().replace("-", "_"): candidate for candidate in known}
    close = get_close_matches(name.lower().replace("-", "_"), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """' (did you mean 'x'?)', or the whole choice where nothing is close."""
    known = list(known)
    close = nearest(name, known)
    return f"; did you mean '{close}'?" if close else f"; choose from: {', '.join(sorted(known))}"
