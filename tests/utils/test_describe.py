import pytest

from agents.options.dqn import DQNOptions
from core.envs.options import ToyOptions
from models.options import DQNMLPOptions
from utils.describe import Takes, parse, shown, truth, whole
from utils.options import RunOptions

RUN, DQN = RunOptions.model_fields, DQNOptions.model_fields
MLP, TOY = DQNMLPOptions.model_fields, ToyOptions.model_fields


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (RUN["steps"], "a whole number 1 and up in env steps"),
        (RUN["window_length"], "a whole number 1 and up, up to 64 in frames"),
        (RUN["gamma"], "a number 0 and up, up to 1"),
        (RUN["seed"], "a whole number 0 and up, below 4,294,967,296"),
        (RUN["agent_type"], "a name"),
        (DQN["lr"], "a number above 0, up to 1"),
        (DQN["double"], "true or false"),
        (DQN["loss"], "one of huber, mse"),
        (MLP["hidden_sizes"], "whole numbers of 1 and up, separated by commas in units"),
        (TOY["game"], "one of counter, chain, catch"),
    ],
)
def test_what_an_option_takes_in_words(field, words: str):
    assert str(Takes.of(field)) == words


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        (RUN["steps"], "20000", 20_000),
        (RUN["steps"], "20_000", 20_000),
        (RUN["steps"], "1e6", 1_000_000),
        (RUN["steps"], "2.5e3", 2_500),
        (RUN["seed"], "-3", -3),
        (RUN["agent_type"], "1e6", "1e6"),
        (DQN["lr"], "1e-3", 0.001),
        (DQN["lr"], "1", 1.0),
        (DQN["eps_decay"], "1_0", 10),
        (DQN["target_model_update"], "1_000.5", 1000.5),
        (DQN["double"], "true", True),
        (DQN["double"], "No", False),
        (MLP["hidden_sizes"], "64", (64,)),
        (MLP["hidden_sizes"], "64,1e2,3_2", (64, 100, 32)),
        (MLP["hidden_sizes"], "64, 32,", (64, 32)),
        (MLP["hidden_sizes"], "", ()),
        (DQN["loss"], "mse", "mse"),
    ],
)
def test_a_flags_text_as_what_the_option_takes(field, text: str, value):
    parsed = parse(text, field)
    assert parsed == value and type(parsed) is type(value)


@pytest.mark.parametrize("text", ["", "ten", "1.5", "inf", "-inf", "1e400", "nan", "0x10", "1e-1"])
def test_what_is_no_whole_number_is_refused(text: str):
    with pytest.raises(ValueError):
        whole(text)


@pytest.mark.parametrize("text", ["", "maybe", "2", "tru"])
def test_what_is_neither_true_nor_false_is_refused(text: str):
    with pytest.raises(ValueError):
        truth(text)


@pytest.mark.parametrize("text", ["64,x", "64;32", "1.5"])
def test_what_is_no_list_of_whole_numbers_is_refused(text: str):
    with pytest.raises(ValueError):
        parse(text, MLP["hidden_sizes"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (RUN["steps"], 1_000_000),
        (DQN["lr"], 2.3e-3),
        (DQN["adam_eps"], 1e-8),
        (DQN["double"], True),
        (DQN["double"], False),
        (MLP["hidden_sizes"], (256, 64)),
        (MLP["hidden_sizes"], ()),
        (DQN["loss"], "huber"),
    ],
)
def test_a_value_is_shown_as_a_flag_would_say_it(field, value):
    assert parse(shown(value), field) == value
