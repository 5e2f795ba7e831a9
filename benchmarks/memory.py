"""What the replay memory takes, against its targets and the memories of other libraries.

    make bench-setup                                   (once, for --peers)
    python -m benchmarks.recordings                    (once)
    python -m benchmarks.memory [--quick] [--json FILE] [--peers]

Each figure comes from a process of its own; see `benchmarks.fill`. Bytes are PSS, those of a full
memory less those before it; rates are by processor time. The peers' bytes are those of
benchmarks/peers.json, unless `--peers` has them measured again. The exit code is 1 where a target
is missed.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.fill import PREVIEWS
from benchmarks.memory_peers import (
    ATARI,
    AVERAGE,
    BUSIEST,
    GAMES,
    Peer,
    Peers,
    best_peers,
    measure_peers,
    over_games,
)
from benchmarks.recordings import Recording
from core.errors import EngramError
from core.memories.sequential import SequentialOptions

SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "raw": {"frame_codec": "raw"},
    "lz4": {"frame_codec": "lz4"},
    "zstd": {"frame_codec": "zstd"},
    "zstd+dictionary": {"frame_codec": "zstd", "frame_dictionary": True},
}
"""What is measured: keys of SequentialOptions; those that are left out have their defaults."""

_OPTIONS: Final = SequentialOptions()
DEFAULT: Final = _OPTIONS.frame_codec + "+dictionary" * _OPTIONS.frame_dictionary
"""The setting that a run has unless it says otherwise."""

APPENDED: Final = ("seaquest", "breakout")
JOBS: Final = 2
"""Processes at once, where it is bytes that are measured."""
ROOT: Final = Path(__file__).parents[1]
MB: Final = 10**6
COMMAND: Final = (sys.executable, "-m", "benchmarks.fill")

BYTES: Final = {
    "raw": dict.fromkeys(ATARI, 7_140),
    "zstd": {AVERAGE: 100, "carracing": 1_400},
    "zstd+dictionary": {AVERAGE: 80, "pong": 80, BUSIEST: 200},
}
"""Most bytes a transition, by setting and game."""
BYTES_DEFAULT: Final = {AVERAGE: 130, BUSIEST: 260, "carracing": 1_700}
"""The same of the default setting, whichever that is."""
ENOUGH: Final = 0.99
"""Part of the transitions asked for below which a memory is said to be short of them."""
USAGE_PART, USAGE_BYTES = 0.02, 8 * MB
"""How far the memory's own account may be from PSS: a part of it, and bytes beside."""
STEPS: Final = {"raw": 300_000}
STEPS_DEFAULT: Final = 150_000
"""Least steps a second that are appended to a full ring, on the first game of `APPENDED`."""
PRIVATE_COUNT, PRIVATE_MB = 100_000, 250
"""What a process may take beside torch that has so many transitions of carracing."""


class Sizes(NamedTuple):
    """How much is measured: transitions, but for the last two."""

    atari: Mapping[str, int]
    """By setting."""
    carracing: Mapping[str, int]
    append: int
    """Rows of the ring that is appended to."""
    rounds: int

    def of(self, game: str, setting: str) -> int:
        """Transitions of a memory."""
        return (self.atari if game in ATARI else self.carracing)[setting]


def by_setting(raw: int, lz4: int, zstd: int, dictionary: int) -> dict[str, int]:
    """Transitions, by setting."""
    return dict(zip(SETTINGS, (raw, lz4, zstd, dictionary), strict=True))


FULL: Final = Sizes(
    atari=by_setting(300_000, 1_000_000, 1_000_000, 1_000_000),
    carracing=by_setting(100_000, 100_000, 100_000, 100_000),
    append=8 * 5_000,
    rounds=15,
)
QUICK: Final = Sizes(  # zstd alone is so near to its targets that what is fixed has to weigh little
    atari=by_setting(30_000, 170_000, 550_000, 170_000),
    carracing=by_setting(30_000, 40_000, 80_000, 40_000),
    append=8 * 5_000,
    rounds=5,
)


@dataclass(frozen=True)
class Row:
    """A figure beside what is asked of it.

    `bound` says how: "<=", ">=", "+-" (no further from 0), "in" (between two), or "" for nothing.
    """

    name: str
    value: float
    bound: str = ""
    target: float | tuple[float, float] | None = None
    peer: float | None = None
    """The best of the peers' figures."""

    @property
    def ok(self) -> bool:
        """Whether the target is met, if there is one."""
        if isinstance(self.target, tuple):
            return self.target[0] <= self.value <= self.target[1]
        if self.target is None:
            return True
        if self.bound == "+-":
            return abs(self.value) <= self.target
        return self.value >= self.target if self.bound == ">=" else self.value <= self.target

    def wanted(self) -> str:
        """The target, in words."""
        if isinstance(self.target, tuple):
            return " .. ".join(map(number, self.target))
        return "-" if self.target is None else f"{self.bound} {number(self.target)}"

    def line(self) -> str:
        """The row of the table."""
        peer = "-" if self.peer is None else number(self.peer)
        missed = "" if self.ok else "  MISSED"
        return f"{self.name:<62}{number(self.value):>12}{self.wanted():>20}{peer:>11}{missed}"


def number(value: float) -> str:
    """A number as a person reads it."""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:,.1f}"


Found = Mapping[tuple[str, str], dict[str, Any]]
"""What `benchmarks.fill` found, by game and setting."""


def child(what: str, game: str, setting: str, count: int, *flags: str) -> dict[str, Any]:
    """A figure, measured in a process of its own."""
    print(f"{what}: {game}, {setting}, {count:,}", file=sys.stderr, flush=True)
    asked = (what, "--game", game, "--count", str(count))
    done = subprocess.run(
        [*COMMAND, *asked, "--options", json.dumps(SETTINGS[setting]), *flags],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_bytes(sizes: Sizes) -> Found:
    """Every game in every setting, some at once: bytes do not depend on what else runs."""
    pairs = [(game, setting) for game in GAMES for setting in SETTINGS]
    with ThreadPoolExecutor(JOBS) as pool:
        found = pool.map(lambda pair: child("bytes", *pair, sizes.of(*pair)), pairs)
        return dict(zip(pairs, found, strict=True))


def measure_append(sizes: Sizes) -> Found:
    """The games that are appended, one after the other."""
    settings = dict.fromkeys(("raw", DEFAULT, "zstd"))
    pairs = [(game, setting) for game in APPENDED for setting in settings]
    flags = ("--rounds", str(sizes.rounds))
    return {pair: child("append", *pair, sizes.append, *flags) for pair in pairs}


def bytes_rows(found: Found, best: Mapping[str, float]) -> list[Row]:
    """Bytes a transition by PSS."""
    rows = []
    for setting in SETTINGS:
        each = {game: found[game, setting] for game in GAMES}
        values = over_games({game: one["pss"] / one["held"] for game, one in each.items()})
        for name, value in values.items():
            most = [BYTES.get(setting, {}).get(name)]
            most += [BYTES_DEFAULT.get(name)] if setting == DEFAULT else []
            target = min((limit for limit in most if limit is not None), default=None)
            title = f"{named(setting)}: {name}, bytes a transition"
            rows.append(Row(title, value, "<=", target, best.get(name)))
    return rows


def named(setting: str) -> str:
    """A setting, as rows name it."""
    return f"{setting} (default)" if setting == DEFAULT else setting


def usage_rows(found: Found) -> list[Row]:
    """The memory's own account, beside PSS."""
    rows = []
    for (game, setting), one in found.items():
        most = USAGE_PART * one["pss"] + USAGE_BYTES
        title = f"{named(setting)}: {game}, usage()"
        rows.append(Row(f"{title}, bytes a transition", one["usage"] / one["held"]))
        rows.append(Row(f"{title} less PSS, MB", (one["usage"] - one["pss"]) / MB, "+-", most / MB))
    return rows


def forecast_rows(found: Found) -> list[Row]:
    """What a run would be told that the memory takes, of pictures that are compressed."""
    rows = []
    for (game, setting), one in found.items():
        if one["forecast"] is None:
            continue
        title = f"{named(setting)}: {game}"
        span = (one["low"] / MB, one["high"] / MB)
        rows.append(Row(f"{title}, forecast, bytes a picture", one["forecast"]))
        rows.append(Row(f"{title}, forecast, MB", one["full"] / MB))
        rows.append(Row(f"{title}, PSS within the plan, MB", one["pss"] / MB, "in", span))
        rows.append(
            Row(f"{title}, held of what was asked for, %", 100 * one["held"] / one["asked"])
        )
    return rows


def short_lines(found: Found) -> Iterable[str]:
    """The memories that hold less than they were asked for, which no bound on bytes shows."""
    for (game, setting), one in found.items():
        if one["held"] < ENOUGH * one["asked"]:
            yield (
                f"{named(setting)}: {game}: holds {one['held']:,} of {one['asked']:,} transitions: "
                "the plan left its pictures no more room, so that its PSS cannot be above the plan"
            )


def append_rows(found: Found) -> list[Row]:
    """Steps a second, 8 lanes at once."""
    rows = []
    for (game, setting), one in found.items():
        least = [STEPS.get(setting, 0), STEPS_DEFAULT if setting == DEFAULT else 0]
        target = max(least) if game == APPENDED[0] else 0
        title = f"{named(setting)}: {game}, append, steps/s"
        rows.append(Row(title, one["rate"], ">=", target or None))
        rows.append(Row(f"{title}, as it fills", one["first"]))
    return rows


def private_rows(found: Mapping[str, Any]) -> list[Row]:
    """What a process takes that has a memory of colour frames, beside torch and what it loads."""
    title = f"{named(DEFAULT)}: process with {found['held']:,} of carracing, MB"
    return [Row(title, found["private"] / MB, "<=", PRIVATE_MB)]


def peer_lines(found: Found, others: Peers) -> Iterable[str]:
    """Bytes a transition, ours and the peers', a column a game."""
    yield cells("bytes a transition", GAMES)
    for setting in SETTINGS:
        each = (found[game, setting] for game in GAMES)
        yield cells(named(setting), [number(one["pss"] / one["held"]) for one in each])
    for mode in others[GAMES[0]]:
        figures = [others[game][mode] for game in GAMES]
        for recorded in (False, True):
            if any(one.recorded == recorded for one in figures):
                title = f"{mode} (recorded)" if recorded else mode
                yield cells(
                    title, [cell(one) if one.recorded == recorded else "" for one in figures]
                )


def cell(peer: Peer) -> str:
    """A peer's figure, as the table has it."""
    return "missing" if peer.bytes is None else number(peer.bytes)


def cells(title: str, texts: Sequence[str]) -> str:
    """A line of the table of games."""
    return f"{title:<36}" + "".join(f"{text:>16}" for text in texts)


def as_json(rows: Sequence[Row], others: Peers) -> list[dict[str, Any]]:
    """Rows, and the peers' figures, which have no target."""
    own = [
        {
            "name": row.name,
            "value": row.value,
            "target": row.target,
            "bound": row.bound if row.target is not None else "",
            "ok": row.ok,
            "peer": row.peer,
        }
        for row in rows
    ]
    theirs = [
        {
            "name": f"{mode}: {game}, bytes a transition",
            "value": one.bytes,
            "target": None,
            "ok": True,
            "recorded": one.recorded,
        }
        for game, figures in others.items()
        for mode, one in figures.items()
    ]
    return own + theirs


def measure(sizes: Sizes, again: bool) -> tuple[list[Row], Found, Peers]:
    """Everything, each figure in a process of its own."""
    others = measure_peers(again)
    found = measure_bytes(sizes)
    rows = bytes_rows(found, best_peers(others)) + usage_rows(found) + forecast_rows(found)
    rows += append_rows(measure_append(sizes))
    rows += private_rows(child("private", "carracing", DEFAULT, PRIVATE_COUNT))
    return rows, found, others


def report(rows: Sequence[Row], found: Found, others: Peers) -> int:
    """Prints the tables; gives the exit code."""
    print(*peer_lines(found, others), "", sep="\n")
    print(f"{'':<62}{'value':>12}{'target':>20}{'best peer':>11}")
    print(*(row.line() for row in rows), sep="\n")
    for line in short_lines(found):
        print(line)
    missed = [row.name for row in rows if not row.ok]
    aimed = sum(row.target is not None for row in rows)
    print(
        f"\n{aimed - len(missed)} of {aimed} targets met"
        + "".join(f"\n  missed: {name}" for name in missed)
    )
    return 1 if missed else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints, and writes what was asked for."""
    parser = argparse.ArgumentParser(description="what the replay memory takes")
    parser.add_argument(
        "--quick", action="store_true", help="smaller memories, five minutes on two cores"
    )
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--peers", action="store_true", help="measure the peers that are installed")
    options = parser.parse_args(argv)
    try:
        for game in (*GAMES, *PREVIEWS.values()):
            Recording.load(game)
    except EngramError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    rows, found, others = measure(QUICK if options.quick else FULL, options.peers)
    if options.json:
        options.json.write_text(json.dumps(as_json(rows, others), indent=1) + "\n")
    return report(rows, found, others)


if __name__ == "__main__":
    sys.exit(main())
