"""Options of DQN."""

from typing import ClassVar, Literal

from pydantic import field_validator

from core.agent import AgentOptions
from core.errors import UsageError
from core.memory import MemoryOptions
from core.options import SharedOptions, option
from core.types import Unit


class DQNOptions(AgentOptions):
    """Deep Q-learning, with its usual refinements as keys."""

    reads: ClassVar[frozenset[Unit]] = frozenset({Unit.TRANSITIONS})
    actions: ClassVar[frozenset[str]] = frozenset({"discrete"})
    models: ClassVar[frozenset[str]] = frozenset({"dqn-mlp", "dqn-cnn"})

    lr: float = option(1e-3, gt=0, le=1, help="learning rate of Adam")
    adam_eps: float = option(1e-8, gt=0, help="epsilon of Adam")
    eps_start: float = option(1.0, ge=0, le=1, help="share of random actions at first")
    eps_end: float = option(0.05, ge=0, le=1, help="share of random actions at last")
    eps_decay: int = option(
        10_000, ge=1, unit="env steps", help="steps from eps_start to eps_end, from step 0"
    )
    target_model_update: float = option(
        500,
        gt=0,
        unit="env steps",
        help="1 and up: copy to the target network each so many; below: share moved each update",
    )
    double: bool = option(False, help="the online network chooses the target's action")
    loss: Literal["huber", "mse"] = option(
        "huber", help="loss of the temporal difference, where distribution is none"
    )
    kappa: float = option(
        1.0, ge=0, help="distribution qr: its loss is quadratic within this; 0: nowhere"
    )
    clip_grad: float = option(10.0, ge=0, help="greatest norm of the gradient; 0: any")
    priority: Literal["td", "reducible"] = option(
        "td",
        help="prioritized memories: by the error (c51: divergence, qr: loss), or by how much more "
        "of its loss is left than with the target network",
    )
    clip_reward: float = option(
        0.0, ge=0, help="rewards beyond this, up or down, are learnt as this; 0: as they are"
    )

    @field_validator("target_model_update")
    @classmethod
    def _whole_interval(cls, value: float) -> float:
        if value >= 1 and value != int(value):
            raise ValueError("a share below 1, or a whole number of env steps")
        return value

    def check_memory(self, memory: MemoryOptions) -> None:
        """See `AgentOptions.check_memory`: it tells errors, and where nobody listens only these."""
        if self.priority != "td" and not memory.takes_feedback:
            raise UsageError(f"priority {self.priority} with sampler prioritized alone")

    def check(self, shared: SharedOptions, most_units: int) -> None:
        """See `AgentOptions.check`: a batch holds sums of n rewards, and each would be clipped."""
        if self.clip_reward and shared.n_step > 1:
            raise UsageError(
                f"clip_reward {self.clip_reward:g} clips single rewards, and n_step "
                f"{shared.n_step} sums them first; set --n_step 1 or --clip_reward 0"
            )
