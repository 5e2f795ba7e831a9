"""The compiled loops: against the lz4 package, against numpy, and against bytes that are none."""

import lz4.block
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from core.storage import encode_kernels, kernels, layout
from core.storage.kernels import copy_exact, copy_wild
from core.storage.layout import LZ4, RAW, SLACK, frame_bound, length_width, stream_bound

from ...conftest import examples

GUARD = 77


def slack(data: bytes) -> np.ndarray:
    """Bytes with room behind them that decoders may read."""
    return np.frombuffer(data + bytes([GUARD]) * SLACK, np.uint8).copy()


def decode(data: bytes, room: int, need: int | None = None) -> tuple[int, bytes]:
    """What the decoder says, and what it wrote, with guards behind the room it was given."""
    guarded = np.full(room + SLACK + 64, GUARD, np.uint8)
    packed = slack(data)
    _, there = kernels.lz4_decode(
        packed, 0, len(data), guarded[: room + SLACK], 0, room + 1 if need is None else need
    )
    assert (guarded[room + SLACK :] == GUARD).all()
    return there, guarded[: max(there, 0)].tobytes()


@examples(60)
@given(st.binary(max_size=3_000), st.integers(1, 40))
def test_our_lz4_decoder_agrees_with_the_library(data: bytes, repeats: int) -> None:
    data = data * repeats
    assert decode(lz4.block.compress(data, store_size=False), len(data)) == (len(data), data)


@pytest.mark.parametrize("period", [*range(1, 40), 255, 270, 300])
def test_matches_that_overlap_themselves_are_repeated(period: int) -> None:
    data = bytes(range(256))[:period] * (2_000 // period) + b"the end, which never matches"
    assert decode(lz4.block.compress(data, store_size=False), len(data)) == (len(data), data)


@examples(60)
@given(st.binary(max_size=600), st.lists(st.integers(0, 4_000), min_size=1, max_size=6))
def test_a_block_is_decoded_as_far_as_is_needed_and_goes_on(data: bytes, needs: list[int]) -> None:
    data = data * 7
    packed = slack(lz4.block.compress(data, store_size=False))
    end = len(packed) - SLACK
    out = np.zeros(len(data) + SLACK, np.uint8)
    at = there = 0
    for need in sorted(needs):
        at, there = kernels.lz4_decode(packed, at, end, out, there, need)
        assert there >= min(need, len(data))
        assert out[:there].tobytes() == data[:there]


def test_no_more_is_decoded_than_is_needed() -> None:
    data = b"".join(bytes([x]) * 40 for x in range(100))
    assert decode(lz4.block.compress(data, store_size=False), len(data), need=50)[0] < 100


def test_a_block_without_room_is_refused() -> None:
    data = bytes(range(256)) * 4
    packed = lz4.block.compress(data, store_size=False)
    assert decode(packed, len(data))[0] == len(data)
    assert decode(packed, len(data) - 1)[0] == -1


@pytest.mark.parametrize("unit", [1, 40])
def test_a_match_without_room_is_refused(unit: int) -> None:
    data = bytes(range(unit)) * (2_000 // unit)
    packed = lz4.block.compress(data, store_size=False)
    for room in (100, 1_000, len(data) - 1):
        assert decode(packed, room)[0] == -1


@pytest.mark.parametrize(
    "block",
    [
        bytes([0x10]),  # a literal that is not there
        bytes([0xF0]),  # a long literal without its length
        bytes([0xF0, 255]),
        bytes([0x10, 1, 1]),  # half an offset
        bytes([0x10, 1, 0, 0]),  # back by nothing
        bytes([0x10, 1, 2, 0]),  # back before the beginning
        bytes([0x1F, 1, 1, 0]),  # a long match without its length
    ],
)
def test_a_block_that_is_none_is_refused(block: bytes) -> None:
    assert decode(block, 100)[0] == -1


@examples(200)
@given(st.binary(max_size=200), st.integers(0, 300))
def test_no_bytes_make_the_decoders_read_or_write_elsewhere(data: bytes, room: int) -> None:
    there, _ = decode(data, room)
    assert -1 <= there <= room
    guarded = np.full(room + 64, GUARD, np.uint8)
    assert kernels.patch_frame(slack(data), 0, len(data), guarded, room) in (0, -1)
    assert (guarded[room:] == GUARD).all()


def story(count: int, size: int, seed: int, change: float) -> tuple[np.ndarray, np.ndarray]:
    """A base, and frames of which each changes the one before."""
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 256, size).astype(np.uint8)
    frames = np.empty((count, size), np.uint8)
    last = base
    for number in range(count):
        noise = rng.integers(0, 256, size).astype(np.uint8)
        frames[number] = last = np.where(rng.random(size) < change, noise, last)
    return base, frames


def encode(frames: np.ndarray, base: np.ndarray) -> np.ndarray:
    count, size = frames.shape
    stream = np.full(stream_bound(count, size) + 8, GUARD, np.uint8)
    words, base_words = frames.view(np.uint64), base.view(np.uint64)
    end = encode_kernels.encode_frames(frames, base, words, base_words, stream, length_width(size))
    assert end <= count * (frame_bound(size) + length_width(size))
    assert (stream[end:] == GUARD).all()
    return stream[:end]


FORMS = ("stream", "lz4", "raw")
STORIES = {
    "count": st.integers(1, 9),
    "size": st.integers(1, 90).map(lambda words: words * 8),
    "seed": st.integers(0, 2**32),
    "change": st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.01, 1.0])),
}


def unpack(frames, base, cut, places, form, harm=None) -> tuple[int, np.ndarray]:
    """Frames at `places` of one chunk, by the loop that its form takes."""
    count, size = frames.shape
    bases = np.concatenate([base, np.zeros(SLACK, np.uint8)])[None]
    targets = np.arange(len(places))[::-1].copy()
    out = np.full(len(places) * cut + 32, GUARD, np.uint8)
    room = np.zeros(stream_bound(count, size), np.uint8)
    work = np.zeros(size + SLACK, np.uint8)
    width = length_width(size)
    stream = encode(frames, base)
    if form == "stream":
        if harm is not None:
            stream = harm(stream.copy())
        room[: len(stream)] = stream
        code = kernels.unpack_chunk(
            room, 0, 0, room, len(stream), bases[0], places, targets, out, cut, work, width
        )
    else:
        blob = frames.tobytes() if form == "raw" else lz4.block.compress(stream, store_size=False)
        if harm is not None:
            blob = harm(np.frombuffer(blob, np.uint8).copy()).tobytes()
        arena = np.concatenate([np.zeros(5, np.uint8), slack(blob)])
        one = np.array([5]), np.array([5 + len(blob)])
        forms = np.array([RAW if form == "raw" else LZ4], np.uint8)
        code = kernels.unpack_chunks(
            arena, *one, forms, np.zeros(1, np.uint8), bases, np.array([0, len(places)]),
            places, targets, out, cut, room, work, width,
        )  # fmt: skip
    assert (out[len(places) * cut :] == GUARD).all()
    return code, out[: len(places) * cut].reshape(-1, cut)[::-1]


@examples(80)
@given(data=st.data(), form=st.sampled_from(FORMS), **STORIES)
def test_any_frames_are_rebuilt_in_every_form(data, form, count, size, seed, change) -> None:
    base, frames = story(count, size, seed, change)
    places = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=6).map(sorted))
    cut = size - data.draw(st.integers(0, 7))  # frames are padded to whole words
    code, found = unpack(frames, base, cut, np.array(places), form)
    assert code in (0, -1)
    assert code == (0 if form == "stream" else -1)
    assert np.array_equal(found, frames[places, :cut])


@examples(80)
@given(data=st.data(), form=st.sampled_from(FORMS[:2]), **STORIES)
def test_harmed_chunks_are_broken_or_give_some_frames(
    data, form, count, size, seed, change
) -> None:
    base, frames = story(count, size, seed, change)

    def harm(blob: np.ndarray) -> np.ndarray:
        for _ in range(data.draw(st.integers(1, 4))):
            place = data.draw(st.integers(0, len(blob) - 1))
            blob[place] = data.draw(st.integers(0, 255))
        return blob[: data.draw(st.integers(0, len(blob)))]

    code, _ = unpack(frames, base, size, np.arange(count), form, harm)
    assert code in (0, -1)


@pytest.mark.parametrize("form", FORMS[:2])
def test_a_cut_chunk_is_broken(form) -> None:
    base, frames = story(6, 80, 3, 0.5)
    code, _ = unpack(frames, base, 80, np.arange(6), form, lambda blob: blob[:-12])
    assert code == (-1 if form == "stream" else 0)  # the loop names group 0


def test_a_frame_of_equal_bytes_takes_its_length_alone() -> None:
    base, frames = story(4, 80, 0, 0.0)
    assert encode(frames, base).tolist() == [0, 0] * 4


def test_runs_are_what_the_page_says() -> None:
    base, frames = np.zeros(24, np.uint8), np.zeros((2, 24), np.uint8)
    frames[:, 3:5] = 9
    frames[1, 20] = 7
    frames[1, 10:12], frames[1, 14] = 5, 6  # two equal bytes between: one run
    assert encode(frames, base).tolist() == [
        *(4, 0), *(3, 2, 9, 9),
        *(10, 0), *(10, 5, 5, 5, 0, 0, 6), *(5, 1, 7),
    ]  # fmt: skip


@pytest.mark.parametrize("gap", [3, 4, 5])
def test_a_run_goes_on_over_fewer_equal_bytes_than_four(gap: int) -> None:
    base, frames = np.zeros(32, np.uint8), np.zeros((1, 32), np.uint8)
    frames[0, [7, 8 + gap]] = 1
    stream = encode(frames, base)
    assert stream[3] == (gap + 2 if gap < 4 else 1)


def test_a_run_takes_all_between_two_changed_bytes_of_a_word() -> None:
    base, frames = np.zeros(32, np.uint8), np.zeros((1, 32), np.uint8)
    frames[0, [8, 15]] = 1, 2
    assert encode(frames, base).tolist() == [10, 0, 8, 8, 1, 0, 0, 0, 0, 0, 0, 2]


@pytest.mark.parametrize("number", [0, 127, 128, 300, 16_383, 16_384, 2**31])
def test_varints_come_back(number: int) -> None:
    out = np.zeros(8, np.uint8)
    end = encode_kernels.put_varint(out, 1, number)
    assert kernels.get_varint(out, 1, end) == (number, end)
    assert kernels.get_varint(out, 1, end - 1) == (-1, end - 1), "cut"


@pytest.mark.parametrize("width", [2, 4])
def test_numbers_of_fixed_width_come_back(width: int) -> None:
    out = np.zeros(8, np.uint8)
    encode_kernels.put_number(out, 1, 0xABCD, width)
    assert kernels.get_number(out, 1, width) == 0xABCD
    assert out.tolist() == [0, 0xCD, 0xAB, 0, 0, 0, 0, 0]


def test_the_width_of_a_length_holds_any_frame() -> None:
    for size in (8, 40_000, 52_392, 52_400, 60_000, 1 << 20):
        assert frame_bound(size) < 256 ** length_width(size)
    assert length_width(84 * 84) == length_width(96 * 96 * 3) == 2
    assert length_width(210 * 160 * 3) == 4


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 40])
def test_copies(count: int) -> None:
    data = np.arange(100, dtype=np.uint8)
    exact, wild = np.zeros(100, np.uint8), np.zeros(100, np.uint8)
    copy_exact(exact, 3, data, 7, count)
    assert exact[3 : 3 + count].tolist() == data[7 : 7 + count].tolist()
    assert not exact[3 + count :].any()
    assert not exact[:3].any()
    copy_wild(wild, 3, data, 7, count)
    assert wild[3 : 3 + count].tolist() == data[7 : 7 + count].tolist()
    assert not wild[3 + count + SLACK :].any()


@njit
def ends(word: int) -> tuple[int, int]:
    return encode_kernels.first_byte(word), encode_kernels.last_byte(word)


@examples(100)
@given(st.binary(min_size=8, max_size=8).filter(any))
def test_the_first_and_the_last_byte_of_a_word(data: bytes) -> None:
    word = np.frombuffer(data, np.uint64)[0]
    there = [place for place, byte in enumerate(data) if byte]
    assert ends(word) == (there[0], there[-1])
    number = np.uint64(word)
    assert (encode_kernels._first_byte(number), encode_kernels._last_byte(number)) == (
        there[0],
        there[-1],
    )


def test_the_constants_that_are_compiled_in_are_those_of_the_layout() -> None:
    assert (kernels.SLACK, kernels.RAW) == (layout.SLACK, layout.RAW)
