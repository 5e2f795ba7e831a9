"""How many threads numpy's products take."""

import ctypes
from contextlib import suppress

import numpy as np

SETTERS = ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads")
"""What the OpenBLAS that numpy brings calls it, and one that a system brings."""


def limit_threads(threads: int) -> None:
    """Lets numpy's products take so many threads, where its library can be told.

    By itself it takes every core, also for products so small that threads only cost.
    """
    library = ctypes.CDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]
    for setter in SETTERS:
        with suppress(AttributeError):
            getattr(library, setter)(threads)
            return
