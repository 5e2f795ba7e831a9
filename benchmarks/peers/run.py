"""Bytes a transition of the peers' replay memories: measured here, or as recorded before.

    make bench-setup
    python -m benchmarks.peers.run [--peers sb3 cpprb] [--games pong carracing]

measures every mode on every recording and puts the figures into benchmarks/peers.json.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VENVS = ROOT / ".bench" / "venvs"
RECORDINGS = ROOT / ".bench" / "recordings"
RECORDED = ROOT / "benchmarks" / "peers.json"

# Every peer and how it can hold its transitions, its usual way first; see fill_PEER.py
MODES: dict[str, tuple[str, ...]] = {
    "sb3": ("default", "optimized"),
    "tianshou": ("last_frame",),
    "torchrl": ("dense", "compressed", "compressed_flat"),
    "cpprb": ("stack_compress",),
    "dopamine": ("snappy",),
    "reverb": ("stacks", "frames", "frames_chunk64"),
}

# Four stacked frames of carracing are 110,592 bytes, so fewer of them
TRANSITIONS = {
    "pong": 50_000,
    "breakout": 50_000,
    "breakout_random": 50_000,
    "seaquest": 50_000,
    "space_invaders": 50_000,
    "carracing": 10_000,
}


def python_of(peer: str) -> Path:
    """The Python of a peer's own venv."""
    return VENVS / peer / "bin" / "python"


def installed(peer: str) -> bool:
    """Whether `make bench-setup` has made this peer's venv, and finished it."""
    return (VENVS / peer / "ready").exists()


def measure(
    peer: str, mode: str, recording: Path, transitions: int, timeout: float = 900.0
) -> dict[str, Any]:
    """One figure, measured in a process of the peer's venv; `timeout` in seconds.

    Gives {"peer", "mode", "version", "transitions", "bytes_per_transition", "seconds"}, or, where
    that failed, {"peer", "mode", "bytes_per_transition": None, "error": why}.
    """
    if not installed(peer):
        return failure(peer, mode, "it is not installed: make bench-setup")
    command = [
        *(str(python_of(peer)), str(HERE / f"fill_{peer}.py")),
        *("--recording", str(recording.resolve())),
        *("--transitions", str(transitions), "--mode", mode),
    ]
    surroundings = os.environ | {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        done = subprocess.run(
            command, env=surroundings, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return failure(peer, mode, f"it took more than {timeout:g} s")
    if done.returncode:
        return failure(peer, mode, f"exit code {done.returncode}: {reason(done.stderr)}")
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else failure(peer, mode, "it printed no figure")


def failure(peer: str, mode: str, error: str) -> dict[str, Any]:
    """What stands in the place of a figure that could not be had."""
    return {"peer": peer, "mode": mode, "bytes_per_transition": None, "error": error}


def reason(errors: str) -> str:
    """The line of an error output that names the exception, or its last."""
    lines = [line for line in errors.splitlines() if line.strip()] or ["no word of why"]
    return next((line for line in reversed(lines) if "Error: " in line), lines[-1])[:300]


def all_recorded() -> list[dict[str, Any]]:
    """Every figure of peers.json."""
    return json.loads(RECORDED.read_text()) if RECORDED.exists() else []


def recorded(peer: str, mode: str, game: str) -> dict[str, Any] | None:
    """The figure of peers.json for a peer, its mode and a game, if there is one."""
    sought = (peer, mode, game)
    return next((row for row in all_recorded() if key(row) == sought), None)


def key(row: dict[str, Any]) -> tuple[str, str, str]:
    """What tells one figure of peers.json from another."""
    return row["peer"], row["mode"], row["game"]


def record(rows: list[dict[str, Any]]) -> None:
    """Puts figures into peers.json, in the place of older ones of the same peer, mode and game."""
    kept = {key(row): row for row in all_recorded()} | {key(row): row for row in rows}
    places = {name: place for place, name in enumerate([*MODES, *TRANSITIONS])}
    modes = [mode for peer in MODES for mode in MODES[peer]]
    ordered = sorted(
        kept.values(),
        key=lambda row: (places[row["peer"]], modes.index(row["mode"]), places[row["game"]]),
    )
    RECORDED.write_text(json.dumps(ordered, indent=1) + "\n")


def machine() -> str:
    """The processor, its cores and the memory, in a line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    processor = names[0] if names else platform.processor()
    return f"{processor}, {os.cpu_count()} cores, {gigabytes:.0f} GiB"


def main() -> int:
    """Measures what is installed on what is there, one after the other, and records it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", nargs="+", choices=list(MODES), default=list(MODES))
    parser.add_argument("--games", nargs="+", choices=list(TRANSITIONS), default=list(TRANSITIONS))
    options = parser.parse_args()
    todo = [
        (game, peer, mode)
        for game in options.games
        for peer in options.peers
        for mode in MODES[peer]
    ]
    failed = 0
    for game, peer, mode in todo:
        row = measure(peer, mode, RECORDINGS / game, TRANSITIONS[game])
        if "error" in row:
            failed += 1
            print(f"{game:<16}{peer} {mode}: {row['error']}")
            continue
        print(f"{game:<16}{peer + ' ' + mode:<26}{row['bytes_per_transition']:>9,}", flush=True)
        del row["seconds"]
        record([row | {"game": game, "machine": machine(), "date": date.today().isoformat()}])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
