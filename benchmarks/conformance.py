"""Which rules the peers' memories keep, and how many pairs at the edges are wrong: the table.

    make bench-setup
    python -m benchmarks.conformance [--peers sb3 cpprb] [--draws 2000] [--json FILE]

Each memory is held to the rules of `core.conformance` in a process of its peer's venv, set up as
its documents have it for the purpose (`benchmarks/peers/conform_PEER.py`); ours in this one's.
Prints Markdown tables; `--json` keeps all figures. A peer that is not installed is named.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.run import HERE, ROOT, installed, python_of
from core.conformance.rules import RULES

MODES: Final[dict[str, tuple[str, ...]]] = {
    "engram": ("sequential", "prioritized", "episodic"),
    "sb3": ("default", "optimized", "n_step"),
    "tianshou": ("default", "last_frame", "prioritized"),
    "torchrl": ("dense", "n_step"),
    "cpprb": ("default", "next_of", "stack_compress", "n_step", "prioritized"),
    "dopamine": ("snappy",),
}
SECONDS: Final = 900.0


def hold(peer: str, mode: str, draws: int) -> dict[str, Any]:
    """What came of one memory; where its process fails, {"peer", "mode", "error": why}."""
    if peer != "engram" and not installed(peer):
        return {"peer": peer, "mode": mode, "error": "it is not installed: make bench-setup"}
    python = sys.executable if peer == "engram" else str(python_of(peer))
    command = [python, str(HERE / f"conform_{peer}.py"), "--mode", mode, "--draws", str(draws)]
    surroundings = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    try:
        done = subprocess.run(
            command, env=surroundings, capture_output=True, text=True, timeout=SECONDS, check=True
        )
    except subprocess.TimeoutExpired:
        return {"peer": peer, "mode": mode, "error": f"not done in {SECONDS:.0f} s"}
    except subprocess.CalledProcessError as failed:
        lines = failed.stderr.strip().splitlines() or ["it failed without a word"]
        return {"peer": peer, "mode": mode, "error": lines[-1]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def edges(found: dict[str, Any]) -> str:
    """A memory's line of the table of pairs."""
    cells = [_wrong(found[name]) for name in ("frames", "stacks")]
    outcomes = [verdict["outcome"] for verdict in found["verdicts"].values()]
    counts = [str(outcomes.count(outcome)) for outcome in ("kept", "broken", "not offered")]
    name = f"{found['peer']} {found['version']}".strip()
    return f"| {name} | {found['how']} | " + " | ".join([*cells, *counts]) + " |"


def _wrong(pairs: dict[str, Any] | None) -> str:
    return "not offered" if pairs is None else f"{pairs['wrong']:,} of {pairs['of']:,}"


def breaches(found: dict[str, Any]) -> list[str]:
    """A memory's lines of the table of broken rules."""
    names = {rule.number: rule.name for rule in RULES}
    return [
        f"| {found['peer']} {found['mode']} | {number} {names[number]} "
        f"| {verdict['figure']} | {verdict['first'] if ' of ' in verdict['figure'] else ''} |"
        for number, verdict in found["verdicts"].items()
        if verdict["outcome"] == "broken"
    ]


def tables(every: Sequence[dict[str, Any]]) -> str:
    """The tables of all memories."""
    whole = [found for found in every if "error" not in found]
    lines = [
        "| memory | set up as | wrong pairs | with stacks of 4 | kept | broken | not offered |",
        "|---|---|---|---|---|---|---|",
        *map(edges, whole),
        "",
        "| memory | rule it breaks | how often | the first |",
        "|---|---|---|---|",
        *(line for found in whole for line in breaches(found)),
    ]
    lines += [f"\n{x['peer']} {x['mode']}: {x['error']}" for x in every if "error" in x]
    return "\n".join(lines)


def rules() -> str:
    """The rules, a line each."""
    lines = ["| rule | says | of |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {rule} | {rule.line} | {rule.of} |" for rule in RULES)])


def main() -> None:
    """Holds every memory that is asked for to the rules, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--draws", type=int, default=2_000)
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--rules", action="store_true", help="only list the rules")
    asked = parser.parse_args()
    if asked.rules:
        print(rules())
        return
    every = [hold(peer, mode, asked.draws) for peer in asked.peers for mode in MODES[peer]]
    print(tables(every))
    if asked.json:
        asked.json.write_text(json.dumps(every, indent=1) + "\n")


if __name__ == "__main__":
    main()
