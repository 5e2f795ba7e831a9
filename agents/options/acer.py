"""Options of ACER."""

from typing import ClassVar, Literal

from core.agent import AgentOptions
from core.errors import UsageError
from core.options import SharedOptions, option
from core.types import Unit


class ACEROptions(AgentOptions):
    """Actor-critic with experience replay: Retrace, bias correction, a trust region."""

    reads: ClassVar[frozenset[Unit]] = frozenset({Unit.TRAJECTORIES})
    actions: ClassVar[frozenset[str]] = frozenset({"discrete"})
    models: ClassVar[frozenset[str]] = frozenset({"acer-mlp"})

    lr: float = option(7e-4, gt=0, le=1, help="learning rate of RMSprop at first")
    lr_decay: Literal["linear", "constant"] = option(
        "linear", help="to 0 at the end of the run, or not at all"
    )
    rmsprop_decay: float = option(0.99, ge=0, lt=1, help="decay of the mean square")
    rmsprop_eps: float = option(1e-5, gt=0, help="epsilon, inside the square root")
    clip_grad: float = option(10.0, ge=0, help="greatest norm of the gradient; 0: any")
    entropy_coef: float = option(0.01, ge=0, help="weight of the policy's entropy")
    q_coef: float = option(0.5, ge=0, help="weight of the loss of the action values")
    clip_trace: float = option(10.0, gt=0, help="c: importance weights are truncated here")
    bias_correction: bool = option(True, help="add what the truncation left out")
    trust_region: bool = option(True, help="stay near the average policy")
    trust_delta: float = option(1.0, gt=0, help="how near: greatest k . z of a sample")
    average_decay: float = option(
        0.99, ge=0, le=1, help="share of the average policy that stays at each update"
    )
    replay_ratio: float = option(
        4.0, ge=0, unit="updates", help="replayed updates per on-policy one, on average (Poisson)"
    )
    replay_start: int = option(
        0, ge=0, unit="units", help="what the memory holds before the first replayed update"
    )

    def check(self, shared: SharedOptions, most_units: int) -> None:
        """See `AgentOptions.check`: what replay waits for has to come."""
        if self.replay_ratio and self.replay_start > most_units:
            raise UsageError(
                f"replay_start {self.replay_start} is never reached: the memory holds at most "
                f"{most_units} units"
            )
        if self.replay_ratio and self.replay_start > shared.steps:
            raise UsageError(
                f"replay_start {self.replay_start} is never reached within steps {shared.steps}"
            )
