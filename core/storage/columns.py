"""Columns: how one named item a row is laid out, written and gathered.

A column is told where a row is in two ways, and uses the one that suits it: by `slots`, its place
in a flat ring, and by lane and 64-bit row counter, which name the row for ever. Columns that keep
chunks instead of rows have no use for slots. Columns know nothing of what they hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..types import Array, ArraySpec

Kind = Literal["packed", "frames", "chunks"]
FrameCodec = Literal["raw", "lz4", "zstd"]
FrameRule = Literal["auto", "none"]
FloatRule = Literal["exact", "keep"]
FRAME_BYTES = 256
_UINT8 = np.dtype(np.uint8)


class Where(NamedTuple):
    """Rows of a ring; a gather's result begins with the shape that the three broadcast to."""

    lanes: NDArray[np.int64]
    rows: NDArray[np.int64]
    slots: NDArray[np.int64]


@dataclass(frozen=True)
class Chunking:
    """How frames are put into chunks: compressed by what, how many, with a dictionary or not.

    Frames that are not compressed are put into chunks only where they are to be `kept`: written
    once, and never in place.
    """

    codec: FrameCodec = "raw"
    frames: int = 16
    dictionary: bool = False
    kept: bool = False

    @property
    def chunked(self) -> bool:
        """Whether frames are put into chunks at all."""
        return self.kept or self.codec != "raw"


UNCHUNKED = Chunking()


@dataclass(frozen=True)
class ColumnPlan:
    """How a column will be stored: known, with its cost, before a byte is taken.

    `spec` is what goes in and comes out; `stored` is the dtype in between, and only ever one that
    gives every value back exactly.
    """

    name: str
    spec: ArraySpec
    kind: Kind
    stored: np.dtype[Any]
    chunking: Chunking = UNCHUNKED

    @property
    def bytes_per_row(self) -> int:
        """Bytes that one row of this column takes, padding of packed rows apart."""
        return self.spec.size * self.stored.itemsize


def plan_column(
    name: str,
    spec: ArraySpec,
    frames: FrameRule = "auto",
    floats: FloatRule = "exact",
    chunking: Chunking = UNCHUNKED,
) -> ColumnPlan:
    """Decides the layout of one column.

    Items of two or more axes and at least 256 numbers are frames, kept apart from the packed rows.
    Float frames hold pixels more often than not, so they are stored as uint8 as long as that is
    exact; `floats='keep'` stores them as they are, at four or eight times the bytes.
    """
    is_frame = frames == "auto" and len(spec.shape) >= 2 and spec.size >= FRAME_BYTES
    if not is_frame or not (spec.dtype in (np.uint8, np.bool_) or spec.dtype.kind == "f"):
        return ColumnPlan(name, spec, "packed", spec.dtype)
    exact = spec.dtype.kind == "f" and floats == "exact"
    kind: Kind = "chunks" if chunking.chunked else "frames"
    return ColumnPlan(name, spec, kind, _UINT8 if exact else spec.dtype, chunking)


class Column(Protocol):
    """One item a row. `plan` says how it is stored and what it costs."""

    plan: ColumnPlan

    def write(self, where: Where, values: Array) -> None:
        """Copies `values`, `[n, *item]`, into the rows; later changes of `values` change nothing.

        Raises UsageError where a value could not be given back exactly.
        """

    def gather(self, where: Where, out: Array | None = None) -> Array:
        """The items of those rows, `[*where, *item]`, copied once: into `out`, or fresh."""

    def usage(self, written: int) -> int:
        """Bytes in use of its own, once so many slots were written."""


def to_stored(plan: ColumnPlan, values: Array) -> Array:
    """`values` in the dtype they are stored in. Raises UsageError where that would change one.

    Floats that were announced as narrower floats are rounded to those: rewards are.
    """
    if values.dtype == plan.stored:
        return values
    if values.dtype.kind == plan.stored.kind == "f" and plan.stored == plan.spec.dtype:
        return values
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            stored = values.astype(plan.stored)
    else:
        stored = values.astype(plan.stored)
    if not (stored == values).all():
        raise UsageError(_inexact(plan))
    return stored


def _inexact(plan: ColumnPlan) -> str:
    if plan.kind == "packed" or plan.stored == plan.spec.dtype:
        return f"'{plan.name}' has a value that is none of the {plan.stored} it was announced as"
    return (
        f"'{plan.name}' holds {plan.spec.dtype} frames that are not whole numbers of 0..255: "
        f"deliver uint8, or set --float_frames keep, at {plan.spec.dtype.itemsize} times the bytes"
    )


class PackedColumn:
    """A field of the packed rows: the small items of a row lie side by side."""

    def __init__(self, plan: ColumnPlan, records: Array) -> None:
        from .kernels import take_field  # numba is loaded where a memory is made, and not before

        assert records.dtype.fields is not None
        self.plan = plan
        self.offset = int(records.dtype.fields[plan.name][1])
        self._field = records[plan.name]
        self._take = take_field
        self._bytes = records.view(np.uint8).reshape(-1)
        self._place = (records.itemsize, self.offset, plan.bytes_per_row)

    def write(self, where: Where, values: Array) -> None:
        """See `Column.write`."""
        self._field[where.slots] = to_stored(self.plan, values)

    def gather(self, where: Where, out: Array | None = None) -> Array:
        """See `Column.gather`."""
        slots = where.slots
        taken = np.empty(slots.shape + self.plan.spec.shape, self.plan.stored)
        flat = taken.reshape(-1).view(np.uint8)
        self._take(self._bytes, *self._place, slots.reshape(-1), flat)
        if out is not None:
            out[...] = taken
            return out
        return taken.astype(self.plan.spec.dtype, copy=False)

    def usage(self, written: int) -> int:
        """See `Column.usage`: the rows are accounted for as a whole, by the ring."""
        return 0


class FrameColumn:
    """Raw frames in an array of their own, one a row."""

    def __init__(self, plan: ColumnPlan, frames: Array) -> None:
        from .frame_kernels import take_frames  # numba, only where a memory is made

        self.plan = plan
        self._frames = frames
        self._take = take_frames
        self._bytes = frames.reshape(-1).view(np.uint8)
        self._size = plan.bytes_per_row

    def write(self, where: Where, values: Array) -> None:
        """See `Column.write`."""
        self._frames[where.slots] = to_stored(self.plan, values)

    def gather(self, where: Where, out: Array | None = None) -> Array:
        """See `Column.gather`."""
        shape, stored = where.slots.shape + self.plan.spec.shape, self.plan.stored
        fits = out is not None and out.dtype == stored and out.shape == shape
        if out is None or not (fits and out.flags.c_contiguous):
            taken = np.empty(shape, stored)
        else:
            taken = out
        flat = taken.reshape(-1).view(np.uint8)
        self._take(self._bytes, self._size, where.slots.reshape(-1), flat)
        if out is None:
            return taken.astype(self.plan.spec.dtype, copy=False)
        if taken is not out:
            out[...] = taken
        return out

    def usage(self, written: int) -> int:
        """See `Column.usage`."""
        return written * self.plan.bytes_per_row


def packed_dtype(plans: Sequence[ColumnPlan]) -> np.dtype[Any]:
    """The record of a row: aligned, widest numbers first, so that only its end is padded."""
    packed = sorted(
        (plan for plan in plans if plan.kind == "packed"),
        key=lambda plan: -plan.stored.alignment,
    )
    return np.dtype([(plan.name, plan.stored, plan.spec.shape) for plan in packed], align=True)
