"""What a transition takes with the peers, measured or as recorded before, and the best of them."""

import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

from benchmarks.peers import run as peers
from benchmarks.recordings import DEFAULT as RECORDINGS

ATARI: Final = ("pong", "seaquest", "space_invaders", "breakout")
GAMES: Final = (*ATARI, "carracing")
AVERAGE, BUSIEST = "average of 4 Atari games", "busiest Atari game"


class Peer(NamedTuple):
    """What a transition takes with a peer, in bytes; None where it was never measured."""

    bytes: float | None
    recorded: bool


Peers = Mapping[str, Mapping[str, Peer]]
"""The peers' figures, by game and mode."""


def measure_peers(again: bool) -> Peers:
    """Every mode of every peer on every game."""
    modes = [(peer, mode) for peer, names in peers.MODES.items() for mode in names]
    return {
        game: {f"{peer} {mode}": one_peer(peer, mode, game, again) for peer, mode in modes}
        for game in GAMES
    }


def one_peer(peer: str, mode: str, game: str, again: bool) -> Peer:
    """A peer's figure: measured, where that is asked for and works, else the recorded one."""
    if again and peers.installed(peer):
        print(f"bytes: {game}, {peer} {mode}", file=sys.stderr, flush=True)
        row = peers.measure(peer, mode, RECORDINGS / game, peers.TRANSITIONS[game])
        if row["bytes_per_transition"] is not None:
            return Peer(row["bytes_per_transition"], recorded=False)
        print(f"{game}, {peer} {mode}: {row['error']}", file=sys.stderr)
    row = peers.recorded(peer, mode, game) or {"bytes_per_transition": None}
    return Peer(row["bytes_per_transition"], recorded=True)


def over_games(each: Mapping[str, float]) -> dict[str, float]:
    """Figures of single games, and those of the Atari games together."""
    atari = [each[game] for game in ATARI]
    return {**each, AVERAGE: sum(atari) / len(atari), BUSIEST: max(atari)}


def best_peers(found: Peers) -> dict[str, float]:
    """The least bytes a transition of any mode, by game; together only of modes that have all."""
    modes = {mode for figures in found.values() for mode in figures}
    least: dict[str, float] = {}
    for mode in modes:
        figures = {game: found[game][mode].bytes for game in found if mode in found[game]}
        known = {game: value for game, value in figures.items() if value is not None}
        whole = over_games(known) if known.keys() >= set(ATARI) else known
        least |= {name: min(value, least.get(name, value)) for name, value in whole.items()}
    return least
