from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core.types import ArraySpec, ContinuousActions, DiscreteActions, EnvSpec
from models.es import ESMLP, flat_inputs
from models.options import ESMLPOptions
from tests.conftest import examples

torch.set_num_threads(1)
OBSERVATIONS = {"obs": ArraySpec((3,), np.dtype(np.float32))}
DISCRETE = EnvSpec(OBSERVATIONS, DiscreteActions(4))
BOX = EnvSpec(OBSERVATIONS, ContinuousActions((-1.0, -2.0), (1.0, 2.0)))


def policy(env: EnvSpec, *hidden: int, window: int = 1) -> ESMLP:
    return ESMLP(ESMLPOptions(hidden_sizes=hidden), env, window)


def outputs(sizes: list[int], parameters: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """One lane, by torch layers filled from the vector: weights row by row, then biases."""
    values = torch.from_numpy(inputs.astype(np.float64))
    begin = 0
    for number, (width, following) in enumerate(pairwise(sizes)):
        layer = torch.nn.Linear(width, following, dtype=torch.float64)
        with torch.no_grad():
            weights = parameters[begin : begin + width * following].reshape(width, following)
            layer.weight.copy_(torch.from_numpy(weights.T.astype(np.float64)))
            begin += width * following
            layer.bias.copy_(torch.from_numpy(parameters[begin : begin + following].copy()))
            begin += following
        values = layer(values)
        if number < len(sizes) - 2:
            values = torch.tanh(values)
    assert begin == len(parameters)
    return values.detach().numpy()


@examples(25)
@given(
    seed=st.integers(0, 2**31),
    hidden=st.lists(st.integers(1, 6), max_size=2),
    lanes=st.integers(1, 6),
    discrete=st.booleans(),
)
def test_each_lane_acts_as_its_own_parameters_say(
    seed: int, hidden: list[int], lanes: int, discrete: bool
):
    env = DISCRETE if discrete else BOX
    net, rng = policy(env, *hidden), np.random.default_rng(seed)
    parameters = rng.standard_normal((lanes, net.size), np.float32)
    inputs = rng.standard_normal((lanes, 3), np.float32)
    actions = net.act(parameters, inputs)
    sizes = [3, *hidden, 4 if discrete else 2]
    for lane in range(lanes):
        expected = outputs(sizes, parameters[lane], inputs[lane])
        if discrete:
            assert expected.max() - expected[actions[lane]] < 1e-4
        else:
            assert np.allclose(actions[lane], np.tanh(expected), atol=1e-5)


def test_discrete_actions_are_the_greatest_output_s_index():
    net = policy(DISCRETE)
    parameters = np.zeros((2, net.size), np.float32)
    parameters[0, -4:] = [0, 5, 1, 2]  # the biases
    parameters[1, :12].reshape(3, 4)[1, 3] = 1.0  # from the second input to the last action
    actions = net.act(parameters, np.array([[1, 1, 1], [0, 9, 0]], np.float32))
    assert actions.tolist() == [1, 3] and actions.dtype == np.int64


def test_continuous_actions_are_in_the_agent_s_unit():
    net, rng = policy(BOX, 5), np.random.default_rng(0)
    parameters = rng.standard_normal((50, net.size), np.float32) * 20
    actions = net.act(parameters, rng.standard_normal((50, 3), np.float32))
    assert actions.shape == (50, 2) and actions.dtype == np.float32
    assert np.abs(actions).max() <= 1.0 and np.abs(actions).max() > 0.9


def test_a_lane_s_action_depends_on_no_other_lane():
    """Bit for bit: that is what makes a result the same whatever the number of lanes."""
    net, rng = policy(BOX, 16, 16, window=2), np.random.default_rng(0)
    parameters = rng.standard_normal((9, net.size), np.float32)
    inputs = rng.standard_normal((9, 6), np.float32)
    together = net.act(parameters, inputs)
    for lane in range(9):
        alone = net.act(parameters[lane : lane + 1], inputs[lane : lane + 1])
        assert np.array_equal(alone[0], together[lane])
    shared = net.act(np.broadcast_to(parameters[0], parameters.shape), inputs)
    copied = net.act(np.tile(parameters[0], (9, 1)), inputs)
    assert np.array_equal(shared, copied)


@pytest.mark.parametrize(("hidden", "size"), [((), 3 * 4 + 4), ((5,), 3 * 5 + 5 + 5 * 4 + 4)])
def test_sizes_are_counted(hidden: tuple[int, ...], size: int):
    net = policy(DISCRETE, *hidden)
    assert (net.size, net.inputs) == (size, 3)
    assert net.initial(np.random.default_rng(0)).shape == (size,)


def test_it_begins_with_unit_vectors_and_a_small_last_layer():
    net = policy(DISCRETE, 6)
    start = net.initial(np.random.default_rng(0))
    assert start.dtype == np.float32
    first, last = start[:18].reshape(3, 6), start[24:48].reshape(6, 4)
    assert np.allclose(np.linalg.norm(first, axis=0), 1.0, atol=1e-5)
    assert np.allclose(np.linalg.norm(last, axis=0), 0.01, atol=1e-6)
    assert not start[18:24].any() and not start[48:].any()
    assert np.array_equal(start, net.initial(np.random.default_rng(0)))
    assert not np.array_equal(start, net.initial(np.random.default_rng(1)))


def test_columns_lie_side_by_side_and_bytes_are_scaled():
    stacks = {
        "obs.eye": np.array([[[0, 255]], [[51, 102]]], np.uint8),
        "obs.body": np.array([[[1.5], [-2.0]], [[300.0], [4.0]]], np.float32),
    }
    flat = flat_inputs(stacks)
    assert flat.dtype == np.float32
    assert np.allclose(flat, [[0, 1, 1.5, -2.0], [0.2, 0.4, 300.0, 4.0]])
