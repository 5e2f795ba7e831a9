"""What is written survives a loss of power."""

import os
from pathlib import Path


def flush(path: Path) -> None:
    """Makes a file, or the names in a folder, survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
