"""Chunked frames: what goes in comes out, whatever it is, and what it takes."""

import numpy as np
import pytest

from core.errors import CorruptMemoryError
from core.storage.codecs import Zstd
from core.storage.columns import Chunking, plan_column
from core.storage.layout import RAW
from core.storage.plan import plan_store
from core.storage.ring import RingBuffer
from core.types import ArraySpec

SIDE = 64
SPEC = ArraySpec((SIDE, SIDE), np.dtype(np.uint8))
NOISE = np.random.default_rng(0).integers(0, 256, (400, SIDE, SIDE)).astype(np.uint8)


def still(count: int) -> np.ndarray:
    """Frames in which one small square moves over a still picture."""
    frames = np.repeat(NOISE[:1], count, axis=0)
    for number in range(count):
        frames[number, number % 50 : number % 50 + 4, 5:9] = number % 256
    return frames


def ring_of(codec: str, rows: int, lanes: int = 1, **more) -> RingBuffer:
    chunking = Chunking(codec, **more)
    return RingBuffer(plan_store([plan_column("f", SPEC, chunking=chunking)], lanes, rows * lanes))


def write(ring: RingBuffer, frames: np.ndarray) -> None:
    lanes = np.arange(ring.plan.lanes)
    for frame in frames:
        ring.write(ring.make_room(lanes), {"f": np.repeat(frame[None], len(lanes), axis=0)})
        ring.publish(lanes)


def read(ring: RingBuffer, lane: int = 0) -> np.ndarray:
    rows = np.arange(ring.tails[lane], ring.heads[lane])
    return ring.gather("f", ring.where(np.full(len(rows), lane), rows))


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("lanes", [1, 2])
def test_noise_that_nothing_compresses_is_held_in_full(codec: str, lanes: int) -> None:
    ring = ring_of(codec, 300, lanes)
    write(ring, NOISE)
    assert ring.held == 300 * lanes, "no row went to make room for bytes"
    for lane in range(lanes):
        assert np.array_equal(read(ring, lane), NOISE[100:])


@pytest.mark.parametrize(("codec", "dictionary"), [("lz4", False), ("zstd", False), ("zstd", True)])
def test_what_hardly_moves_takes_few_bytes(codec: str, dictionary: bool) -> None:
    frames = still(8_000)
    ring = ring_of(codec, 5_000, dictionary=dictionary)
    write(ring, frames)
    assert np.array_equal(read(ring), frames[3_000:])
    used = ring.usage()["heap"]
    assert used < 5_000 * SPEC.nbytes / 8, "buffers, blocks and priors counted"


def test_bytes_are_used_again() -> None:
    ring = ring_of("lz4", 2_000)
    write(ring, still(4_000))
    before = ring.usage()["heap"]
    write(ring, still(20_000))
    assert ring.usage()["heap"] <= before + 2 * 65_536


def test_a_broken_chunk_is_named() -> None:
    ring = ring_of("lz4", 100)
    write(ring, still(100))
    ring._chunks[0]._arena.bytes[:64] = 255
    with pytest.raises(CorruptMemoryError, match="chunk 0 of lane 0 is broken"):
        read(ring)


def test_a_state_is_taken_over() -> None:
    frames = still(900)
    saved, loaded = ring_of("zstd", 300, dictionary=True), ring_of("zstd", 300, dictionary=True)
    write(saved, frames[:700])
    loaded.load(saved.state())
    for ring in (saved, loaded):
        write(ring, frames[700:])
    assert np.array_equal(read(loaded), frames[600:])
    assert np.array_equal(read(saved), read(loaded))


@pytest.mark.parametrize("size", [10**6, 5])
def test_a_chunk_that_unpacks_to_another_size_is_broken(size: int) -> None:
    ring = ring_of("zstd", 100)
    write(ring, NOISE[:100] // 8)
    column = ring._chunks[0]
    blob = np.frombuffer(column._coder.priors.codec(0).compress(np.zeros(size, np.uint8)), np.uint8)
    entry = column._entries[0, 2]
    assert len(blob) < entry["length"]
    column._arena.bytes[entry["offset"] :][: len(blob)] = blob
    column._entries["length"][0, 2] = len(blob)
    with pytest.raises(CorruptMemoryError, match="chunk 2 of lane 0 is broken"):
        read(ring)


@pytest.mark.parametrize("codec", ["raw", "lz4", "zstd"])
@pytest.mark.parametrize("shape", [(3, SIDE, SIDE), (9, SIDE, SIDE), (8, SIDE * SIDE), (8, SIDE)])
def test_what_is_to_be_filled_has_the_shape_of_what_is_read(codec: str, shape) -> None:
    ring = ring_of(codec, 60)
    write(ring, still(60))
    where = ring.where(np.zeros(8, np.int64), np.arange(50, 58))
    with pytest.raises(ValueError):
        ring.gather("f", where, np.zeros(shape, np.uint8))


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_what_cannot_be_filled_directly_is_copied_into(codec: str) -> None:
    ring, frames = ring_of(codec, 60), still(60)
    write(ring, frames)
    where = ring.where(np.zeros(8, np.int64), np.arange(50, 58))
    wide = np.zeros((8, SIDE, SIDE * 2), np.uint8)
    for out in (wide[:, :, ::2], np.zeros((8, SIDE, SIDE), np.float32)):
        assert ring.gather("f", where, out) is out
        assert np.array_equal(out, frames[50:58])


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize(
    ("field", "value"),
    [("offset", 10**13), ("offset", -1), ("length", 10**6), ("length", 0), ("chunk", 7),
     ("prior", 200), ("form", 0), ("form", 3)],
)  # fmt: skip
def test_a_broken_index_is_named_before_it_is_followed(codec: str, field: str, value: int) -> None:
    ring = ring_of(codec, 100)
    write(ring, still(100))
    ring.check()
    good = copied(ring.state())
    ring._chunks[0]._entries[field][0, 3] = value
    with pytest.raises(CorruptMemoryError, match="the index of chunk 3 of lane 0 is broken"):
        ring.check()
    bad = copied(ring.state())
    with pytest.raises(CorruptMemoryError, match="the index of chunk 3"):
        ring_of(codec, 100).load(bad)
    ring.load(good)
    ring.check()


def test_the_newest_closed_chunk_is_looked_at_too() -> None:
    ring = ring_of("lz4", 100)
    write(ring, still(100))
    ring._chunks[0]._entries["prior"][0, 5] = 9
    with pytest.raises(CorruptMemoryError, match="the index of chunk 5 of lane 0 is broken"):
        ring.check()


def test_only_a_raw_chunk_is_as_long_as_its_frames() -> None:
    ring = ring_of("lz4", 100)
    write(ring, NOISE[:100])
    assert ring._chunks[0]._entries["form"][0, 2] == RAW
    ring._chunks[0]._entries["form"][0, 2] = 3
    with pytest.raises(CorruptMemoryError, match="the index of chunk 2"):
        ring.check()


@pytest.mark.parametrize("saved_after", [40, 100, 250, 400])
def test_what_is_being_learnt_goes_on_where_it_was(saved_after: int) -> None:
    frames = still(900)
    one, two = (ring_of("zstd", 600, dictionary=True) for _ in range(2))
    write(one, frames[:saved_after])
    two.load(copied(one.state()))
    for ring in (one, two):
        write(ring, frames[saved_after:])
    priors = [ring._chunks[0]._coder.priors for ring in (one, two)]
    assert np.array_equal(priors[0].bases, priors[1].bases)
    assert priors[0].newest == priors[1].newest == 1
    assert one.usage() == two.usage()


def test_a_header_that_promises_too_much_is_not_believed() -> None:
    codec = Zstd()
    packed = np.frombuffer(codec.compress(np.zeros(10**6, np.uint8)), np.uint8)
    assert len(codec.decompress(packed, 10**6)) == 10**6
    assert len(codec.decompress(packed, 10**6 - 1)) == 0


def copied(tree):
    """A tree whose arrays are its own."""
    if isinstance(tree, dict):
        return {name: copied(part) for name, part in tree.items()}
    return tree.copy() if isinstance(tree, np.ndarray) else tree
