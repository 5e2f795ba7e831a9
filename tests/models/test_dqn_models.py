import numpy as np
import pytest
import torch

from core.errors import UsageError
from core.types import ArraySpec, DiscreteActions, EnvSpec
from models.dqn import DQNCNN, DQNMLP, Head, Picture, choose_trunk, convolutions, scaled
from models.noisy import NoisyLinear
from models.options import DQNCNNOptions, DQNMLPOptions

torch.set_num_threads(1)
U8, F32 = np.dtype(np.uint8), np.dtype(np.float32)


def env_of(actions: int = 3, **observations: ArraySpec) -> EnvSpec:
    return EnvSpec(observations, DiscreteActions(actions))


def batch_of(env: EnvSpec, size: int, window: int, seed: int = 0) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(seed)
    return {
        name: torch.from_numpy(rng.integers(0, 256, (size, window, *spec.shape)).astype(spec.dtype))
        for name, spec in env.observations.items()
    }


# The dueling head, with as many features, actions and rows as differ from one another.


@pytest.mark.parametrize("dueling", ["off", "avg", "max", "naive"])
def test_the_head_is_its_definition_in_numpy(dueling: str):
    torch.manual_seed(1)
    head = Head(5, 3, dueling).double()
    features = np.random.default_rng(0).normal(size=(7, 5))
    weights = {name: value.numpy() for name, value in head.state_dict().items()}
    advantage = features @ weights["advantage.weight"].T + weights["advantage.bias"]
    if dueling == "off":
        expected = advantage
    else:
        value = features @ weights["value.weight"].T + weights["value.bias"]
        assert value.shape == (7, 1)
        less = {
            "avg": advantage.mean(axis=1, keepdims=True),
            "max": advantage.max(axis=1, keepdims=True),
            "naive": 0.0,
        }
        expected = value + advantage - less[dueling]
    assert np.allclose(head(torch.from_numpy(features)).detach().numpy(), expected)


def test_dueling_by_mean_or_max_fixes_what_the_value_is():
    torch.manual_seed(2)
    features = torch.randn(4, 5)
    for dueling, statistic in (("avg", torch.mean), ("max", torch.amax)):
        head = Head(5, 3, dueling)
        assert torch.allclose(statistic(head(features), 1), head.value(features)[:, 0], atol=1e-6)


@pytest.mark.parametrize("dueling", ["off", "avg", "max", "naive"])
def test_the_head_of_distributions_is_the_head_of_each_number(dueling: str):
    """Its nth numbers are what a head of values gives with the nth number's weights."""
    torch.manual_seed(3)
    head, features = Head(5, 3, dueling, numbers=4), torch.randn(7, 5)
    numbers = head(features)
    assert numbers.shape == (7, 3, 4)
    for n in range(4):
        single = Head(5, 3, dueling)
        single.load_state_dict({key: value[n::4] for key, value in head.state_dict().items()})
        assert torch.allclose(numbers[:, :, n], single(features), atol=1e-6)


@pytest.mark.parametrize("picture", [False, True])
def test_a_network_gives_as_many_numbers_as_its_options_say(picture: bool):
    env = env_of(3, obs=ArraySpec((8, 8) if picture else (4,), U8 if picture else F32))
    network, options = (DQNCNN, DQNCNNOptions) if picture else (DQNMLP, DQNMLPOptions)
    for keys, shape in (
        ({}, (2, 3)),
        ({"distribution": "c51"}, (2, 3, 51)),
        ({"distribution": "qr", "quantiles": 9}, (2, 3, 9)),
    ):
        built = network(options(hidden_sizes=(6,), noisy=True, **keys), env, 1)
        assert built(batch_of(env, 2, 1)).shape == shape
        linear = [layer for layer in built.modules() if isinstance(layer, torch.nn.Linear)]
        assert len(linear) == 2 and all(isinstance(layer, NoisyLinear) for layer in linear)


@pytest.mark.parametrize("norm", [False, True])
def test_hidden_layers_are_their_definition_in_numpy(norm: bool):
    torch.manual_seed(4)
    env = env_of(3, obs=ArraySpec((4,), F32))
    network = DQNMLP(DQNMLPOptions(hidden_sizes=(6, 5), layer_norm=norm), env, 1)
    for layer in network.modules():
        if isinstance(layer, torch.nn.LayerNorm):
            torch.nn.init.normal_(layer.weight)
            torch.nn.init.normal_(layer.bias)
    weights = {name: value.numpy() for name, value in network.state_dict().items()}
    obs = batch_of(env, 7, 1)
    out, step = obs["obs"].numpy().reshape(7, 4), 3 if norm else 2
    for place in (0, step):
        out = out @ weights[f"body.{place}.weight"].T + weights[f"body.{place}.bias"]
        if norm:
            out = out - out.mean(1, keepdims=True)
            out = out / np.sqrt((out**2).mean(1, keepdims=True) + 1e-5)
            out = out * weights[f"body.{place + 1}.weight"] + weights[f"body.{place + 1}.bias"]
        out = np.maximum(out, 0)
    out = out @ weights["head.advantage.weight"].T + weights["head.advantage.bias"]
    assert np.allclose(network(obs).detach().numpy(), out, atol=1e-3)
    assert bool(network.plain_layers()) is not norm


@pytest.mark.parametrize("picture", [False, True])
def test_streams_of_their_own_share_no_hidden_layer(picture: bool):
    """The head's two streams, each alone, are what the network gives; the mean is the value's."""
    torch.manual_seed(5)
    env = env_of(3, obs=ArraySpec((8, 8) if picture else (4,), U8 if picture else F32))
    network, options = (DQNCNN, DQNCNNOptions) if picture else (DQNMLP, DQNMLPOptions)
    built = network(options(hidden_sizes=(6,), dueling="avg", streams="own"), env, 1)
    obs = batch_of(env, 7, 1)
    values, inputs = built(obs), []
    hook = built.head.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    built(obs)
    hook.remove()
    assert len(built.body) == 0
    value, advantage = built.head.value(inputs[0]), built.head.advantage(inputs[0])
    expected = value + advantage - advantage.mean(1, keepdim=True)
    assert torch.allclose(values, expected, atol=1e-4)
    for stream, outputs in ((built.head.value, 1), (built.head.advantage, 3)):
        linear = [layer for layer in stream.modules() if isinstance(layer, torch.nn.Linear)]
        assert [layer.out_features for layer in linear] == [6, outputs]


def test_streams_without_dueling_are_refused():
    with pytest.raises(ValueError, match="streams with dueling avg, max or naive alone"):
        DQNMLPOptions(streams="own")


# Scaling.


def test_bytes_are_scaled_by_255_and_floats_are_not():
    frames = torch.arange(256, dtype=torch.uint8)
    assert torch.equal(scaled(frames), torch.arange(256) / 255)
    assert frames.dtype == torch.uint8 and int(frames[-1]) == 255
    floats = torch.tensor([0.0, 0.5, 300.0])
    assert torch.equal(scaled(floats), floats)
    assert scaled(floats.double()).dtype == torch.float32


def seen_by_first_layer(network: torch.nn.Module, obs: dict[str, torch.Tensor]) -> torch.Tensor:
    """What enters the first layer that has weights."""
    kept: list[torch.Tensor] = []
    layer = next(m for m in network.modules() if isinstance(m, torch.nn.Linear | torch.nn.Conv2d))
    hook = layer.register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0].detach()))
    network(obs)
    hook.remove()
    return kept[0]


def test_a_cnn_scales_its_pixels_once():
    env = env_of(obs=ArraySpec((16, 16), U8))
    network = DQNCNN(DQNCNNOptions(), env, 1)
    seen = seen_by_first_layer(network, {"obs": torch.full((2, 1, 16, 16), 255, dtype=torch.uint8)})
    assert torch.equal(seen, torch.ones(2, 1, 16, 16))


def test_an_mlp_sees_the_stack_flat_bytes_scaled_and_floats_untouched():
    env = env_of(obs=ArraySpec((2,), F32), pixels=ArraySpec((3,), U8))
    network = DQNMLP(DQNMLPOptions(hidden_sizes=(4,)), env, 2)
    obs = {
        "obs": torch.tensor([[[1.5, -2.0], [3.0, 400.0]]]),
        "pixels": torch.tensor([[[0, 51, 255], [255, 0, 0]]], dtype=torch.uint8),
    }
    seen = seen_by_first_layer(network, obs)
    expected = [1.5, -2.0, 3.0, 400.0, 0.0, 0.2, 1.0, 1.0, 0.0, 0.0]
    assert torch.allclose(seen, torch.tensor([expected]))


# Layouts and stacks: the channels are colours times window, and nothing moves within a frame.

LAYOUTS = {"HW": (16, 18), "HWC": (16, 18, 3), "CHW": (3, 16, 18)}


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_picture_keeps_its_content_in_every_layout(layout: str, window: int):
    spec = ArraySpec(LAYOUTS[layout], U8)
    picture = Picture(spec, window)
    colours = 1 if layout == "HW" else 3
    assert picture.layout == layout
    assert picture.channels == colours * window and picture.sides == (16, 18)
    stack = np.random.default_rng(0).integers(0, 256, (2, window, *spec.shape))
    out = picture(torch.from_numpy(stack)).numpy()
    assert out.shape == (2, colours * window, 16, 18)
    for frame in range(window):
        for colour in range(colours):
            single = {
                "HW": lambda f: stack[:, f],
                "HWC": lambda f, c=colour: stack[:, f, :, :, c],
                "CHW": lambda f, c=colour: stack[:, f, c],
            }[layout](frame)
            assert np.array_equal(out[:, frame * colours + colour], single)


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dueling", ["off", "avg"])
def test_a_cnn_values_every_layout(layout: str, window: int, dueling: str):
    env = env_of(5, obs=ArraySpec(LAYOUTS[layout], U8))
    network = DQNCNN(DQNCNNOptions(dueling=dueling, hidden_sizes=(8,)), env, window)
    values = network(batch_of(env, 2, window))
    assert values.shape == (2, 5) and values.dtype == torch.float32


def test_the_same_picture_in_another_layout_has_the_same_values():
    colour = np.random.default_rng(3).integers(0, 256, (2, 4, 16, 18, 3)).astype(np.uint8)
    values = []
    for layout, axes in (("HWC", None), ("CHW", -1)):
        torch.manual_seed(0)
        env = env_of(obs=ArraySpec(LAYOUTS[layout], U8))
        stack = torch.from_numpy(colour if axes is None else np.moveaxis(colour, axes, 2).copy())
        values.append(DQNCNN(DQNCNNOptions(hidden_sizes=(8,)), env, 4)({"obs": stack}))
    assert torch.equal(*values)


def test_a_picture_is_joined_by_the_other_columns():
    env = env_of(2, **{"obs.view": ArraySpec((16, 16), U8), "obs.speed": ArraySpec((2,), F32)})
    torch.manual_seed(0)
    network = DQNCNN(DQNCNNOptions(hidden_sizes=(8,)), env, 3)
    obs = batch_of(env, 4, 3)
    values = network(obs)
    assert values.shape == (4, 2)
    for name in obs:
        moved = {**obs, name: torch.zeros_like(obs[name])}
        assert not torch.equal(network(moved), values), f"{name} is not seen"


def test_an_mlp_sees_every_column_and_every_frame():
    env = env_of(2, **{"obs.a": ArraySpec((2,), F32), "obs.b": ArraySpec((3,), F32)})
    network = DQNMLP(DQNMLPOptions(hidden_sizes=(16,)), env, 2)
    obs = batch_of(env, 4, 2)
    values = network(obs)
    for name in obs:
        for frame in range(2):
            moved = {key: value.clone() for key, value in obs.items()}
            moved[name][:, frame] += 1.0
            assert not torch.equal(network(moved), values)


def test_no_hidden_layer_is_a_linear_network():
    env = env_of(3, obs=ArraySpec((4,), F32))
    network = DQNMLP(DQNMLPOptions(hidden_sizes=()), env, 1)
    assert sum(isinstance(m, torch.nn.Linear) for m in network.modules()) == 1
    assert network(batch_of(env, 5, 1)).shape == (5, 3)


# Sizes.


@pytest.mark.parametrize(
    ("sides", "trunk"),
    [((3, 3), "minatar"), ((10, 5), "minatar"), ((35, 200), "minatar"), ((36, 36), "nature")],
)
def test_the_trunk_follows_the_picture(sides: tuple[int, int], trunk: str):
    assert choose_trunk("auto", sides) == trunk
    # the least sides named in the messages are the least that the layers can take
    assert convolutions(1, trunk)(torch.zeros(1, 1, *sides)).shape[0] == 1


def test_the_sizes_named_are_the_least():
    for trunk, side in (("nature", 35), ("minatar", 2)):
        with pytest.raises(RuntimeError):
            convolutions(1, trunk)(torch.zeros(1, 1, side, side))


def test_natures_trunk_is_that_of_the_paper():
    sizes = [m.weight.shape for m in convolutions(4, "nature") if hasattr(m, "weight")]
    assert sizes == [(32, 4, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3)]
    assert convolutions(4, "nature")(torch.zeros(1, 4, 84, 84)).shape == (1, 64 * 7 * 7)


def test_a_picture_too_small_is_refused_with_the_least_size():
    with pytest.raises(UsageError, match=r"2x9 is too small for trunk 'minatar'.* 3x3 and up"):
        choose_trunk("auto", (2, 9))
    with pytest.raises(UsageError, match=r"16x16 is too small for trunk 'nature'.* 36x36 and up"):
        DQNCNN(DQNCNNOptions(trunk="nature"), env_of(obs=ArraySpec((16, 16), U8)), 1)


@pytest.mark.parametrize(
    "observations",
    [
        {"obs": ArraySpec((4,), F32)},
        {"obs.a": ArraySpec((8, 8), U8), "obs.b": ArraySpec((8, 8), U8)},
        {"obs": ArraySpec((2, 8, 8, 3), U8)},
    ],
    ids=["none", "two", "four axes"],
)
def test_a_cnn_refuses_what_is_not_one_picture(observations: dict[str, ArraySpec]):
    with pytest.raises(UsageError, match=r"takes one picture.*set --model_type dqn-mlp"):
        DQNCNN(DQNCNNOptions(), env_of(**observations), 1)


# What makes a network of pictures faster.

PICTURE = env_of(obs=ArraySpec((40, 40), U8), more=ArraySpec((2,), F32))


def picture_network(**options: bool) -> DQNCNN:
    torch.manual_seed(4)
    return DQNCNN(DQNCNNOptions(hidden_sizes=(8,), **options), PICTURE, 3)


def test_channels_last_changes_where_numbers_lie_and_not_what_they_are():
    plain, other = picture_network(), picture_network(channels_last=True)
    assert other.trunk[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert plain.state_dict().keys() == other.state_dict().keys()
    obs = batch_of(PICTURE, 5, 3)
    assert torch.allclose(plain(obs), other(obs), atol=1e-5)
    slopes = [torch.autograd.grad(one(obs).sum(), list(one.parameters())) for one in (plain, other)]
    for one, two in zip(*slopes, strict=True):
        assert torch.allclose(one, two, rtol=1e-4, atol=1e-4)


def test_bfloat16_is_near_and_gives_float32_to_weights_of_float32():
    plain, coarse = picture_network(), picture_network(bfloat16=True)
    obs = batch_of(PICTURE, 5, 3)
    exact, near = plain(obs), coarse(obs)
    assert near.dtype == torch.float32 and not torch.equal(exact, near)
    assert torch.allclose(exact, near, rtol=0.05, atol=0.05)
    assert {p.dtype for p in coarse.parameters()} == {torch.float32}
    slopes = torch.autograd.grad(near.sum(), list(coarse.parameters()))
    assert {slope.dtype for slope in slopes} == {torch.float32}
    with torch.inference_mode():  # acting is exact
        assert torch.equal(coarse(obs), plain(obs))
