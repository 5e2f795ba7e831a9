"""What DQN tells a prioritized memory: temporal differences, or what of a loss is left to learn."""

from typing import Any

import numpy as np
import pytest
import torch

from agents.maths.values import reducible_loss, td_loss
from core.errors import RunFailedError, UsageError
from tests.agents.test_dqn import Lab, batch_of
from tests.harness import CHAIN, EMPTY, parts_of, settings_of
from utils.assemble import check

PRIORITIZED: dict[str, Any] = {"sampler": "prioritized"}


class Listening:
    """Gives the batch it was told to, and keeps what it is told of it."""

    takes_feedback = True

    def __init__(self) -> None:
        self.batch = {**batch_of(), "id": np.arange(100, 116)}
        self.told: list[tuple[np.ndarray, np.ndarray]] = []

    def sample(self, batch_size: int, *, columns=None):
        return {name: array.copy() for name, array in self.batch.items()}

    def feedback(self, ids: np.ndarray, errors: np.ndarray) -> None:
        self.told.append((ids, errors))


def lab_of(**options: Any) -> Lab:
    lab = Lab(**options)
    lab.memory = Listening()
    # the two networks have to differ
    with torch.no_grad():
        for parameter in lab.agent._online.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.manual_seed(1)))
    lab.clock.step = 1
    return lab


def errors_of(lab: Lab) -> tuple[np.ndarray, np.ndarray]:
    """The temporal differences of the online and of the target network, by the definition."""
    batch = {name: torch.from_numpy(array) for name, array in lab.memory.batch.items()}
    place = (torch.arange(16), batch["action"])
    with torch.no_grad():
        best = lab.agent._target({"obs": batch["next_obs"]}).max(dim=1).values
        target = batch["reward"] + batch["discount"] * best
        values = [
            net({"obs": batch["obs"]})[place] for net in (lab.agent._online, lab.agent._target)
        ]
    online, older = (target - value for value in values)
    return online.numpy(), older.numpy()


def huber(error: np.ndarray) -> np.ndarray:
    return np.where(np.abs(error) <= 1, error**2 / 2, np.abs(error) - 0.5)


def test_it_tells_temporal_differences_of_before_the_update() -> None:
    lab = lab_of()
    wanted, _ = errors_of(lab)
    lab.learn(2)
    ((ids, errors),) = lab.memory.told
    assert ids.tolist() == list(range(100, 116))
    np.testing.assert_allclose(errors, wanted, rtol=1e-4, atol=1e-5)
    assert errors.shape == (16,) and errors.dtype == np.float32


@pytest.mark.parametrize("loss", ["huber", "mse"])
def test_it_tells_what_of_the_loss_is_left_to_learn(loss: str) -> None:
    lab = lab_of(priority="reducible", loss=loss)
    online, older = errors_of(lab)
    kind = huber if loss == "huber" else np.square
    lab.learn(2)
    ((_, errors),) = lab.memory.told
    wanted = np.maximum(kind(online) - kind(older), 0)
    np.testing.assert_allclose(errors, wanted, rtol=1e-3, atol=1e-5)
    assert (errors == 0).any() and (errors > 0).any()


def test_the_measure_changes_no_update_of_its_own() -> None:
    one, two = lab_of(), lab_of(priority="reducible")
    assert one.learn(2) == two.learn(2)
    assert all((one.online[name] == two.online[name]).all() for name in one.online)


def test_errors_that_are_no_numbers_are_not_told() -> None:
    lab = lab_of()
    lab.memory.batch["reward"][3] = np.nan
    with pytest.raises(RunFailedError, match="reward"):
        lab.learn(2)
    assert lab.memory.told == []


def test_reducible_loss_by_hand() -> None:
    error, older = torch.tensor([3.0, 0.5, -2.0, 0.0]), torch.tensor([1.0, -1.0, 2.0, 0.0])
    assert td_loss(error, "huber").tolist() == [2.5, 0.125, 1.5, 0.0]
    for kind, left in (("mse", [8.0, 0.0, 0.0, 0.0]), ("huber", [2.0, 0.0, 0.0, 0.0])):
        assert reducible_loss(td_loss(error, kind), td_loss(older, kind)).tolist() == left
    for wrong in (older[:, None], older[:2]):
        with pytest.raises(ValueError, match="losses"):
            reducible_loss(error, wrong)
    with pytest.raises(ValueError, match="losses"):
        reducible_loss(error[:, None], older[:, None])


def test_a_run_weighs_and_learns_and_beta_rises_with_the_clock() -> None:
    parts = parts_of(CHAIN, **PRIORITIZED, importance_exponent=0.2)
    sampler = parts.memory._priorities
    for step, beta in ((0, 0.2), (200, 0.6), (400, 1.0)):
        parts.clock.step = step
        assert sampler.importance == pytest.approx(beta)
    parts.env.close()


def test_a_measure_without_a_prioritized_memory_is_refused() -> None:
    with pytest.raises(UsageError, match="priority reducible with sampler prioritized alone"):
        check(settings_of(CHAIN, priority="reducible"))
    check(settings_of(CHAIN, priority="reducible", **PRIORITIZED))
    check(settings_of(CHAIN, **PRIORITIZED))
    check(settings_of(CHAIN))


def test_an_agent_without_errors_is_refused() -> None:
    with pytest.raises(UsageError, match="set --sampler uniform"):
        check(settings_of(EMPTY, **PRIORITIZED))
    check(settings_of(EMPTY))
