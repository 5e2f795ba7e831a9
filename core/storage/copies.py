"""Copies of sixteen bytes at once, for compiled loops: what is short costs one instruction.

They read and write past the end of what is wanted, so that buffers have `SLACK` bytes to spare.
"""

from typing import Any

from numba import njit

from .layout import SLACK
from .machine import copy16

Bytes = Any


@njit(cache=True, nogil=True)
def copy_wild(out: Bytes, to: int, data: Bytes, at: int, count: int) -> None:
    """Copies `count` bytes, and up to 15 more. Within one array, `at` lies 16 before `to`, or more.

    Both arrays have `SLACK` bytes behind what is wanted.
    """
    done = 0
    while done < count:
        copy16(out, to + done, data, at + done)
        done += SLACK


@njit(cache=True, nogil=True)
def copy_exact(out: Bytes, to: int, data: Bytes, at: int, count: int) -> None:
    """Copies `count` bytes and nothing else."""
    whole = count // SLACK * SLACK
    for done in range(0, whole, SLACK):
        copy16(out, to + done, data, at + done)
    for done in range(whole, count):
        out[to + done] = data[at + done]
