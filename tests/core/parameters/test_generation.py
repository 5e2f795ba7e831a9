"""Candidates rebuilt from seeds."""

import numpy as np
import pytest

from core.parameters.generation import Generation, rebuild, seeded_noise

from .candidates import generation


def test_a_candidate_is_mean_plus_sign_times_spread_times_noise() -> None:
    some = generation(count=4, size=1_000)
    assert len(some) == 4
    for index in range(4):
        noise = np.random.Generator(np.random.PCG64(int(some.seeds[index])))
        moved = noise.standard_normal(1_000, np.float32) * some.spread * some.signs[index]
        assert some.candidate(index).dtype == np.float32
        np.testing.assert_array_equal(some.candidate(index), some.mean + moved)


def test_a_pair_lies_around_the_mean() -> None:
    some = generation(count=2, size=500)
    one, two = some.candidate(0), some.candidate(1)
    assert not np.array_equal(one, two)
    np.testing.assert_allclose((one + two) / 2, some.mean, atol=1e-6)


def test_noise_depends_on_the_seed_alone_and_is_standard_normal() -> None:
    np.testing.assert_array_equal(seeded_noise(7, 100), seeded_noise(7, 100))
    assert not np.array_equal(seeded_noise(7, 100), seeded_noise(8, 100))
    assert seeded_noise(7, 3).dtype == np.float32
    many = seeded_noise(2**62, 20_000)
    assert abs(many.mean()) < 0.04
    assert abs(many.std() - 1) < 0.03


def test_the_noise_of_a_candidate_has_no_sign() -> None:
    some = generation(count=4, size=9)
    np.testing.assert_array_equal(some.noise(2), some.noise(3))
    np.testing.assert_array_equal(some.noise(2), seeded_noise(int(some.seeds[2]), 9))
    assert not np.array_equal(some.noise(1), some.noise(2))


@pytest.mark.parametrize("spread", [np.array([0.3], np.float32), np.full(6, 0.3, np.float32)])
def test_one_spread_serves_for_all_numbers(spread: np.ndarray) -> None:
    mean = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(
        rebuild(mean, spread, 5, -1), mean - np.float32(0.3) * seeded_noise(5, 6)
    )


def test_a_saved_generation_is_the_same_and_apart() -> None:
    some = generation(3, count=5)
    state = some.state()
    twin = Generation.of(state)
    assert (twin.number, len(twin)) == (3, 5)
    for index in range(5):
        assert twin.candidate(index).tobytes() == some.candidate(index).tobytes()
    before = some.candidate(0)
    state["mean"][...] = 9
    np.testing.assert_array_equal(some.candidate(0), before)
