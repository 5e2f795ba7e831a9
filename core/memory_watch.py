"""What the run's own process really takes, as the system counts it."""

from pathlib import Path

import psutil

STATUS = Path("/proc/self/status")
PRIVATE = ("RssAnon:", "RssShmem:")


def private_bytes() -> int:
    """Anonymous and shared memory of this process; file pages (page cache) are not a cost.

    Where the system does not tell those apart, the unique set size.
    """
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return int(psutil.Process().memory_full_info().uss)
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(PRIVATE))


class MemoryWatch:
    """The newest and the greatest reading."""

    def __init__(self) -> None:
        self.peak = 0

    def read(self) -> int:
        """Reads now."""
        now = private_bytes()
        self.peak = max(self.peak, now)
        return now
