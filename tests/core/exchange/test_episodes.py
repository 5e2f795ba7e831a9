"""What is handed over of a memory: every held row, and nothing else, by the slow twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.exchange import episodes
from core.exchange.episodes import RingEpisodes
from core.exchange.space import Space
from core.types import ArraySpec, ContinuousActions, DiscreteActions
from tests.conftest import examples
from tests.oracles.test_sequential_oracle import LIVES, worlds
from tests.oracles.worlds import CODES, STEP, TERMINATE, World

from .lives import assert_hands_over, lived, source_of, wanted

U8, F32 = np.dtype(np.uint8), np.dtype(np.float32)
SPACE = Space(
    {"obs.image": ArraySpec((4, 3), U8), "obs.state": ArraySpec((2,), F32)},
    DiscreteActions(3),
    {"behaviour": ArraySpec((3,), F32)},
)


@examples(150)
@given(worlds(), LIVES)
def test_every_held_row_is_handed_over(world: World, life: bytes) -> None:
    twin = lived(world, life)
    assert_hands_over(source_of(twin.memory), wanted(world, twin.history))


@given(st.integers(1, 300))
def test_an_episode_comes_in_pieces_of_a_size(size: int) -> None:
    world = World("pixels", extras="policy", lanes=2, capacity=60)
    twin = lived(world, bytes(60))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(episodes, "PIECE_BYTES", size * source_of(twin.memory).space.row_bytes)
        source = source_of(twin.memory)
        assert_hands_over(source, wanted(world, twin.history))
        for number in range(len(source.held)):
            assert max(len(piece["obs"]) for piece in source.pieces(number)) <= size


def test_rows_are_read_as_they_lie_in_the_ring() -> None:
    code = {code: at for at, code in enumerate(CODES)}
    life = bytes([code[STEP]] * 7 + [code[TERMINATE]] + [code[STEP]] * 5)
    twin = lived(World(capacity=10), life)
    ring = twin.memory.ring
    cut, newest = RingEpisodes(ring, twin.world.env).held
    # rows 0..8 and 9..14; the ten newest are held, rows 5..14
    assert (cut.first_row, cut.age, cut.steps, cut.ended) == (5, 5, 3, "terminated")
    assert (newest.first_row, newest.age, newest.steps, newest.ended) == (9, 0, 5, "open")
    where = ring.where(np.zeros(4, np.int64), np.arange(5, 9))
    (piece,) = source_of(twin.memory).pieces(0)
    assert piece["obs"].tobytes() == ring.gather("obs", where).tobytes()
    assert piece["reward"].tobytes() == ring.gather("reward", where)[:3].tobytes()
    assert piece["terminal"].tolist() == [False, False, True]


def test_a_space_survives_json() -> None:
    box = Space(SPACE.observations, ContinuousActions((-1.0, 0.1), (1.0, 1 / 3)), {})
    for space in (SPACE, box):
        again = Space.from_json(space.as_json())
        assert again == space
        assert again.differences(space, "here", "there") == []


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            Space({"obs": ArraySpec((4,), F32)}, SPACE.actions, SPACE.extras),
            [
                "obs.image is uint8[4, 3] here and missing there",
                "obs.state is float32[2] here and missing there",
                "obs is missing here and float32[4] there",
            ],
        ),
        (
            Space(SPACE.observations, DiscreteActions(4), SPACE.extras),
            ["action is Discrete(3) here and Discrete(4) there"],
        ),
        (
            Space(SPACE.observations, ContinuousActions((0.0,), (2.0,)), SPACE.extras),
            ["action is Discrete(3) here and Box(1,) of [0.0] to [2.0] there"],
        ),
        (
            Space(SPACE.observations, SPACE.actions, {"behaviour": ArraySpec((4,), F32)}),
            ["behaviour is float32[3] here and float32[4] there"],
        ),
    ],
)
def test_spaces_differ_field_by_field(other: Space, said: list[str]) -> None:
    assert SPACE.differences(other, "here", "there") == said
