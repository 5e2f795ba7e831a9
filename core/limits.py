"""How much memory this process may still take: the least of what the system says."""

import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from .memory_watch import private_bytes

UNLIMITED: Final = 1 << 60  # cgroup v1 says "no limit" by a number near 2^63


@dataclass(frozen=True)
class Usable:
    """Bytes that may still be taken, and what says so."""

    bytes: int
    by: str


def usable_memory(root: Path = Path("/")) -> Usable:
    """The least of free memory, the control group's limits (v1 and v2) and the process's own.

    `root` is where /proc and /sys are looked for.
    """
    return min(_bounds(root), key=lambda bound: bound.bytes)


def _bounds(root: Path) -> Iterator[Usable]:
    yield Usable(int(psutil.virtual_memory().available), "free memory")
    yield from _cgroups(root)
    mapped = int(psutil.Process().memory_info().vms)
    bounds = ((resource.RLIMIT_AS, "ulimit -v", mapped), (resource.RLIMIT_DATA, "ulimit -d", 0))
    for kind, name, taken in bounds:
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            yield Usable(max(soft - max(taken, private_bytes()), 0), name)


def _cgroups(root: Path) -> Iterator[Usable]:
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    mount = root / "sys/fs/cgroup"
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            folders = _upwards(mount, path)
            files = ("memory.max", "memory.current", "memory.stat")
        elif "memory" in controllers.split(","):
            folders = _upwards(mount / "memory", path)
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat")
        else:
            continue
        for folder in folders:
            yield from _limit(folder, *files)


def _upwards(mount: Path, path: str) -> list[Path]:
    """A group's folder and those above it; in a container only the mount itself may be there."""
    folder = mount / path.strip("/")
    return [folder, *(parent for parent in folder.parents if parent.is_relative_to(mount))]


def _limit(folder: Path, limit: str, usage: str, stat: str) -> Iterator[Usable]:
    try:
        most = int((folder / limit).read_text())
        used = int((folder / usage).read_text())
    except (OSError, ValueError):  # not there, or "max"
        return
    if most < UNLIMITED:
        yield Usable(max(most - used + _reclaimable(folder / stat), 0), f"cgroup {limit}")


def _reclaimable(stat: Path) -> int:
    """Page cache that the system gives back before it refuses memory."""
    try:
        fields = dict(line.split() for line in stat.read_text().splitlines())
    except (OSError, ValueError):
        return 0
    return int(fields.get("total_inactive_file", fields.get("inactive_file", 0)))
