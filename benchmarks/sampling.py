"""How fast full memories are read, ours and the peers', in turns, one thread each.

    make bench-setup                                   (once, for the peers)
    python -m benchmarks.recordings                    (once)
    python -m benchmarks.sampling [--quick] [--only GROUP ...] [--rounds N] [--json FILE]

A group has one memory of ours or more and those of the peers, each in a process of its own
(`benchmarks.sample_ours`, `benchmarks/peers/sample_*.py`), filled one after the other beyond what
they hold. Then, round by round, each of them runs each loop. Rates are units a second of the
processor, all threads of a process together; a ratio is the median over the rounds of ours through
that of the peer whose median is best.

- raw, compressed, prioritized: transitions of a game, stacks of four. `uniform N` and `prioritized
  N` are batches of N as the memory gives them, the latter with the errors told. `input N` goes on
  to float32 tensors of `obs` and `next_obs` for a network. `take N` is what numpy needs to copy
  the same rows of raw frames, and nothing else.
- windows_raw, windows_compressed: 16 windows of 20 steps with stacks of four; units are steps.
- vectors: 17 floats and 6 actions, held 100,000 and 1,000,000 times.
- update: a Nature-DQN update of row dqn_pong, with one batch for ever, with sampled ones, and with
  ones read ahead; what sampling adds, in percent. What is read ahead is timed by the clock, for it
  takes another core, which has to be free.

A peer that is not installed, or that fails, is named and left out. The exit code is 1 where a bar
is missed.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.fill import PREVIEWS
from benchmarks.peers.run import machine
from benchmarks.recordings import DEFAULT as RECORDINGS
from benchmarks.recordings import Recording
from benchmarks.workers import OURS, Worker, WorkerError, command
from core.errors import EngramError

ROUNDS: Final = 9
QUICK_ROUNDS, QUICK_PART = 2, 10
"""Of `--quick`: rounds, and a part of everything else so small."""
PICTURES: Final = 50_000
ADDED, ADDED_AHEAD = 5.0, 1.0
"""Most percent that sampling adds to an update; 1 is about what two rounds of one differ by."""

Side = tuple[str, str]
"""Who holds a memory, and its mode: what the worker calls the way it is held."""


@dataclass(frozen=True)
class Group:
    """Memories that are read in turns."""

    what: str
    """What is held; see `benchmarks.sample_ours`."""
    count: int
    """Units of each memory."""
    loops: tuple[str, ...]
    ours: Mapping[str, Mapping[str, float]]
    """Our modes, and the least ratio to the fastest peer by loop."""
    peers: tuple[Side, ...] = ()
    own: tuple[str, ...] = ()
    """Loops of ours alone."""
    length: int = 1
    """Steps of a unit."""
    seconds: float = 0.4
    """Of a loop in a round, about."""
    game: str = ""
    """The one game that it can be of."""

    def sides(self) -> Iterator[tuple[Side, tuple[str, ...]]]:
        """Who has a memory, ours first, and the loops that read it."""
        for mode in self.ours:
            yield (OURS, mode), (*self.loops, *self.own)
        for side in self.peers:
            yield side, self.loops

    def smaller(self) -> "Group":
        """For a look at whether it works."""
        return replace(self, count=self.count // QUICK_PART, seconds=self.seconds / QUICK_PART)


def of_vectors(count: int, sampler: str, bar: float) -> Group:
    """Vectors, so many of them."""
    peers = ("cpprb", "tianshou", "torchrl", *(("sb3",) if sampler == "uniform" else ()))
    loop = f"{sampler} 256"
    sides = tuple((peer, sampler) for peer in peers)
    return Group("vectors", count, (loop,), {sampler: {loop: bar}}, sides)


UNIFORM: Final = ("uniform 32", "uniform 256")
COMPRESSED: Final = dict.fromkeys(UNIFORM, 2.5)
WINDOWS: Final = "windows 16"
GROUPS: Final[Mapping[str, Group]] = {
    "raw": Group(
        "pictures",
        PICTURES,
        (*UNIFORM, "input 32", "input 256"),
        {"raw": {"uniform 32": 1.4, "uniform 256": 1.5}},
        (
            ("cpprb", "stack_compress"),
            ("sb3", "default"),
            ("tianshou", "last_frame"),
            ("torchrl", "dense"),
        ),
        own=("take 32", "take 256"),
    ),
    "compressed": Group(
        "pictures",
        PICTURES,
        UNIFORM,
        {"lz4": COMPRESSED, "zstd": COMPRESSED, "lz4 disk": {}},
        (
            ("dopamine", "snappy"),
            ("torchrl", "compressed_flat"),
            ("reverb", "stacks"),
            ("reverb", "frames"),
        ),
    ),
    "prioritized": Group(
        "pictures",
        PICTURES,
        ("prioritized 32", "prioritized 256"),
        {"raw prioritized": {"prioritized 32": 1.5, "prioritized 256": 1.5}},
        tuple((peer, "prioritized") for peer in ("cpprb", "tianshou", "torchrl")),
    ),
    "windows_raw": Group(
        "windows",
        PICTURES,
        (WINDOWS,),
        {"raw": {WINDOWS: 1.0}},
        (("torchrl", "slices"),),
        length=20,
    ),
    "windows_compressed": Group(
        "windows",
        PICTURES,
        (WINDOWS,),
        {"lz4": {WINDOWS: 3.0}},
        (("reverb", "stacks"), ("reverb", "frames")),
        length=20,
    ),
    "vectors_100k": of_vectors(100_000, "uniform", 1.5),
    "vectors_1m": of_vectors(1_000_000, "uniform", 1.5),
    "vectors_prioritized_100k": of_vectors(100_000, "prioritized", 1.5),
    "vectors_prioritized_1m": of_vectors(1_000_000, "prioritized", 1.5),
    "update": Group(
        "update",
        PICTURES,
        ("still 1", "sampled 1", "ahead 1"),
        {"dqn_pong": {}},
        seconds=2.0,
        game="pong",
    ),
}
"""Vectors of 100,000 rows nearly fit a cache; a million do not."""


class Figure(NamedTuple):
    """Units a second, of the processor and of the clock."""

    cpu: float
    wall: float


@dataclass
class Found:
    """What the rounds of a group gave."""

    rates: dict[tuple[Side, str], list[Figure]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """Why, by side and loop."""

    def median(self, side: Side, loop: str) -> float:
        """Units a second of the processor."""
        return statistics.median(one.cpu for one in self.rates[side, loop])

    def drop(self, side: Side, why: str) -> None:
        """Leaves one out. Raises WorkerError where it is ours."""
        if side[0] == OURS:
            raise WorkerError(f"{name_of(side)}: {why}")
        self.left_out[name_of(side)] = why
        self.rates = {key: rates for key, rates in self.rates.items() if key[0] != side}


def name_of(side: Side) -> str:
    """A memory, as rows name it."""
    return " ".join(side)


def started(group: Group, game: str, found: Found, stack: ExitStack) -> dict[Side, Worker]:
    """Fills the memories one after the other; the loops that work get their place in `found`."""
    workers: dict[Side, Worker] = {}
    for side, loops in group.sides():
        given = {"what": group.what, "mode": side[1], "count": group.count, "loops": loops}
        place = {"folder": str((RECORDINGS / game).resolve()), "length": group.length}
        print(f"fills {name_of(side)}", file=sys.stderr, flush=True)
        try:
            worker = Worker(command(side[0]), given | place)
            stack.callback(worker.close)
            told = worker.ready()
        except WorkerError as error:
            found.drop(side, str(error))
            continue
        workers[side] = worker
        found.versions[side[0]] = told["version"]
        found.rates |= {(side, loop): [] for loop in told["loops"]}
        for loop, why in told["failed"].items():
            if side[0] == OURS:
                raise WorkerError(f"{name_of(side)}, {loop}: {why}")
            found.left_out[f"{name_of(side)}, {loop}"] = why
    return workers


def measure(group: Group, game: str, rounds: int) -> Found:
    """Every loop of every memory of a group, `rounds` times in turn. Raises WorkerError."""
    found = Found()
    with ExitStack() as stack:
        workers = started(group, game, found, stack)
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            for loop in (*group.loops, *group.own):
                for side, worker in workers.items():
                    if (side, loop) not in found.rates:
                        continue
                    try:
                        one = worker.ask(loop, group.seconds)
                    except WorkerError as error:
                        found.drop(side, str(error))
                        continue
                    figure = Figure(one["units"] / one["cpu"], one["units"] / one["wall"])
                    found.rates[side, loop].append(figure)
    return found


def rows_of(name: str, group: Group, found: Found) -> list[dict[str, Any]]:
    """Rates, and ratios beside their bars."""
    size = {"count": group.count}
    rows = []
    for (side, loop), figures in found.rates.items():
        rates = [one.cpu for one in figures]
        told = {"spread": f"{min(rates):,.0f} to {max(rates):,.0f}"}
        told["version"] = found.versions[side[0]]
        title = f"{name}: {name_of(side)}, {loop}, {'steps' if group.length > 1 else 'units'}/s"
        rows.append(row(title, found.median(side, loop), None) | size | told)
    if group.what == "update":
        return rows + [one | size for one in added(name, group, found)]
    for mode, bars in group.ours.items():
        for loop in group.loops:
            rows.append(against(name, mode, loop, bars.get(loop), found) | size)
    return rows


def against(name: str, mode: str, loop: str, bar: float | None, found: Found) -> dict[str, Any]:
    """The ratio of one of ours to the fastest peer; without a value where there is none."""
    ours: Side = (OURS, mode)
    theirs = [side for side, other in found.rates if other == loop and side[0] != OURS]
    if not theirs:
        return row(f"{name}: {name_of(ours)} / no peer, {loop}", None, bar)
    best = max(theirs, key=lambda side: found.median(side, loop))
    pairs = zip(found.rates[ours, loop], found.rates[best, loop], strict=True)
    ratio = statistics.median(one.cpu / other.cpu for one, other in pairs)
    return row(f"{name}: {name_of(ours)} / {name_of(best)}, {loop}", ratio, bar)


def added(name: str, group: Group, found: Found) -> Iterator[dict[str, Any]]:
    """Percent of an update that sampling adds to it."""
    (mode,) = group.ours
    still, sampled, ahead = (found.rates[(OURS, mode), loop] for loop in group.loops)
    pairs = zip(still, sampled, strict=True)
    share = statistics.median(100 * (one.cpu / other.cpu - 1) for one, other in pairs)
    yield row(f"{name}: sampling adds, % of its time", share, ADDED, "<=")
    pairs = zip(still, ahead, strict=True)
    share = statistics.median(100 * (one.wall / other.wall - 1) for one, other in pairs)
    yield row(f"{name}: sampling ahead adds, % by the clock", share, ADDED_AHEAD, "<=")


def row(name: str, value: float | None, bar: float | None, bound: str = ">=") -> dict[str, Any]:
    """A figure beside its bar, as it is written down; one that could not be had is not missed."""
    met = bar is None or value is None or (value >= bar if bound == ">=" else value <= bar)
    own = {"name": name, "value": value, "target": bar, "bound": bound if bar else ""}
    return own | {"ok": met}


def line(one: Mapping[str, Any]) -> str:
    """A row of the table."""
    value = "-" if one["value"] is None else f"{one['value']:,.{0 if 'spread' in one else 2}f}"
    bar = f"{one['bound']} {one['target']}" if one["target"] else "-"
    missed = "" if one["ok"] else "  MISSED"
    return f"{one['name']:<78}{value:>12}{bar:>9}  {one.get('spread', '')}{missed}"


def report(rows: Sequence[Mapping[str, Any]]) -> int:
    """Says what was missed; gives the exit code."""
    missed = [one["name"] for one in rows if not one["ok"]]
    aimed = [one for one in rows if one["target"] and one["value"] is not None]
    print(f"\n{len(aimed) - len(missed)} of {len(aimed)} bars met")
    print(*(f"  missed: {name}\n" for name in missed), sep="", end="")
    return 1 if missed else 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What the command asks for."""
    parser = argparse.ArgumentParser(description="how fast full memories are read")
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--game", default="seaquest", help="of the pictures")
    parser.add_argument("--rounds", type=int, help="so many")
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of everything, two rounds: does it work"
    )
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints, and writes what was asked for."""
    asked = arguments(argv)
    rounds = asked.rounds or (QUICK_ROUNDS if asked.quick else ROUNDS)
    print(f"{machine()}; one thread each; {rounds} rounds")
    rows: list[dict[str, Any]] = []
    try:
        for name in asked.only:
            group = GROUPS[name].smaller() if asked.quick else GROUPS[name]
            game = group.game or asked.game
            for needed in (game, PREVIEWS.get(game, game)) if group.what != "vectors" else ():
                Recording.load(needed)
            found = measure(group, game, rounds)
            rows += (mine := rows_of(name, group, found))
            told = "vectors" if group.what == "vectors" else f"transitions of {game}"
            print(f"\n{name}: {group.count:,} {told}, {group.seconds:g} s a loop")
            print(*map(line, mine), sep="\n")
            for who, why in found.left_out.items():
                print(f"{name}: left out: {who}: {why}", flush=True)
                rows.append(row(f"{name}: {who}", None, None) | {"left_out": why})
    except EngramError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except WorkerError as error:
        print(error, file=sys.stderr)
        return 1
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
