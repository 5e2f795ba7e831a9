"""What frames will take, judged by a few of them, against what they then take."""

import numpy as np
import pytest

from core.envs.options import ToyOptions
from core.envs.toy import make
from core.preview import preview
from core.seeding import SeedTree
from core.storage.columns import Chunking, plan_column
from core.storage.forecast import forecast_bytes
from core.storage.plan import plan_store
from core.storage.ring import RingBuffer
from core.types import Array, ArraySpec

SIDE = 64
FRAME = SIDE * SIDE
RNG = np.random.default_rng(0)
NOISE = RNG.integers(0, 256, (512, SIDE, SIDE)).astype(np.uint8)
CODECS = [("lz4", False), ("zstd", False), ("zstd", True)]


def forecast(frames: Array, codec: str = "lz4", dictionary: bool = False, chunk: int = 16) -> float:
    chunking = Chunking(codec, chunk, dictionary)
    spec = ArraySpec(frames.shape[1:], frames.dtype)
    return forecast_bytes(plan_column("f", spec, chunking=chunking), frames)


def squares(count: int, *, of: int = 12) -> Array:
    """Squares of different greys that drift over a picture, each its own way."""
    frames = np.repeat(NOISE[:1] // 64 * 64, count, axis=0)
    rng = np.random.default_rng(1)
    for grey, (top, left, down, right) in enumerate(rng.integers(-3, 60, (of, 4))):
        for at, frame in enumerate(frames):
            y, x = (top + at * down // 9) % 58, (left + at * right // 9) % 58
            frame[y : y + 6, x : x + 6] = 20 * grey
    return frames


def played(game: str, size: int) -> Array:
    """Frames of a toy world, played at random."""
    options = ToyOptions(game=game, size=size, observation="pixels")
    return preview(make(options, 1), SeedTree(1), ["obs"]).frames["obs"]


def filled(frames: Array, codec: str, dictionary: bool = False) -> tuple[float, float]:
    """Bytes that a frame takes in a full ring, by its blobs and by the pages of its arena."""
    spec = ArraySpec(frames.shape[1:], frames.dtype)
    plan = plan_column("f", spec, chunking=Chunking(codec, 16, dictionary))
    ring, lane = RingBuffer(plan_store([plan], 1, len(frames))), np.zeros(1, np.int64)
    for frame in frames:
        ring.write(ring.make_room(lane), {"f": frame[None]})
        ring.publish(lane)
    (column,) = ring._chunks
    lengths = column._entries["length"][0, : (len(frames) - 1) // 16]
    return lengths.sum() / (16 * len(lengths)), column._arena.used / len(frames)


@pytest.mark.parametrize(("codec", "dictionary"), CODECS)
def test_noise_takes_the_frame_as_it_is(codec: str, dictionary: bool) -> None:
    assert forecast(NOISE, codec, dictionary) == FRAME


@pytest.mark.parametrize(("codec", "dictionary"), CODECS)
def test_what_stands_still_costs_next_to_nothing(codec: str, dictionary: bool) -> None:
    still = np.repeat(NOISE[:1], 512, axis=0)
    assert 0 < forecast(still, codec, dictionary) < FRAME / 200


def test_what_is_learnt_from_is_not_measured() -> None:
    still = np.zeros_like(NOISE[:256])
    assert forecast(np.concatenate([NOISE[:256], still])) < FRAME / 2
    assert forecast(np.concatenate([still, NOISE[:256]])) == FRAME


@pytest.mark.parametrize("chunk", [2, 16, 40])
def test_of_fewer_frames_than_two_chunks_nothing_is_known(chunk: int) -> None:
    still = np.repeat(NOISE[:1], 2 * chunk, axis=0)
    assert forecast(still[:-1], chunk=chunk) == FRAME
    assert forecast(still, chunk=chunk) < FRAME


@pytest.mark.parametrize("count", [1, 15])
def test_nor_of_less_than_one(count: int) -> None:
    assert forecast(NOISE[:count]) == FRAME


def test_a_frame_is_counted_with_its_padding() -> None:
    assert forecast(NOISE[:, :15, :19]) == 288  # 285, to whole words
    assert forecast(NOISE[:16, :15, :19]) == 288


def test_bools_and_whole_floats_are_judged_as_they_are_stored() -> None:
    bits = NOISE < 8
    assert forecast(bits) == forecast(bits.astype(np.uint8))
    pictures = squares(128)
    assert forecast(pictures.astype(np.float32)) == forecast(pictures)


def test_a_better_codec_is_expected_to_take_less() -> None:
    frames = squares(1_024)
    lz4, zstd, trained = (forecast(frames, codec, dictionary) for codec, dictionary in CODECS)
    assert trained < 0.95 * zstd < 0.95 * 0.95 * lz4
    assert lz4 < FRAME / 5


def lived(game: str, size: int, count: int) -> Array:
    """So many frames of a toy world, played otherwise than a preview plays it."""
    env = make(ToyOptions(game=game, size=size, observation="pixels"), 1)
    rng = np.random.default_rng(5)
    frames = [env.reset([5])["obs"][0].copy()]
    while len(frames) < count:
        step = env.step(rng.integers(0, 3, 1))
        frames.append(step.next_obs["obs"][0].copy())
        if step.started[0]:
            frames.append(step.obs["obs"][0].copy())
    return np.array(frames[:count])


WORLDS = {
    "squares": lambda: (squares(1_024), squares(6_000)),
    "counter": lambda: (played("counter", 84), lived("counter", 84, 4_000)),
    "catch": lambda: (played("catch", 64), lived("catch", 64, 6_000)),
}


@pytest.mark.parametrize("world", sorted(WORLDS))
@pytest.mark.parametrize(("codec", "dictionary"), CODECS)
def test_a_full_memory_takes_what_was_forecast(world: str, codec: str, dictionary: bool) -> None:
    few, many = WORLDS[world]()
    expected = forecast(few, codec, dictionary)
    blobs, pages = filled(many, codec, dictionary)
    # a dictionary of few frames serves those few better than the many that come
    within = 0.35 if dictionary else 0.25
    assert blobs == pytest.approx(expected, rel=within)
    assert pages == pytest.approx(expected, rel=within, abs=65_536 / len(many))
