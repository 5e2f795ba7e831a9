"""What a run is worth: its best and its last weights on fresh episodes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .evaluate import Evaluation, evaluate
from .recorder import Recorder
from .train import MAX_EVAL_LANES, Parts, Players
from .types import Tree

EPISODES = 100


@dataclass(frozen=True)
class Report:
    """Scores of a finished run; None where it was not finished."""

    best: Evaluation | None = None
    last: Evaluation | None = None
    best_step: int | None = None

    @classmethod
    def of(cls, parts: Parts, recorder: Recorder, limit: int, stop: Callable[[], bool]) -> "Report":
        """Plays greedy episodes that chose nothing: with the best weights, and with the last."""
        last = play(parts, parts.agent.weights(), EPISODES, limit, stop)
        best_step = recorder.best_step
        if best_step is None:
            return cls(last, last, parts.clock.step)
        if last is None:
            return cls(best_step=best_step)
        weights = recorder.checkpoints.load("best", recorder.say)["weights"]
        return cls(play(parts, weights, EPISODES, limit, stop), last, best_step)

    def sentence(self) -> str:
        """The best score, as the run's last line has it."""
        if self.best is None:
            return ""
        score, count = self.best, len(self.best.returns)
        return (
            f", best weights of step {self.best_step:,} return {score.mean:.2f} +- {score.std:.2f} "
            f"over {count} fresh episodes"
        )

    def as_dict(self) -> dict[str, Any]:
        """As `result.json` has it."""
        return {
            "eval_return_mean": self.best.mean if self.best else None,
            "eval_return_std": self.best.std if self.best else None,
            "eval_episodes": len(self.best.returns) if self.best else 0,
            "best_step": self.best_step,
            "last_eval_return_mean": self.last.mean if self.last else None,
        }


def play(
    players: Players, weights: Tree, episodes: int, limit: int, stop: Callable[[], bool]
) -> Evaluation | None:
    """Greedy episodes of some weights, the same ones whatever the weights; None if stopped."""
    if stop():
        return None
    env = players.make_eval_env(min(episodes, MAX_EVAL_LANES))
    try:
        actor = players.agent.actor(
            env.lanes, players.seeds.generator("report", 1), weights=weights
        )
        seeds = players.seeds.integers("report", env.lanes, 0)
        return evaluate(env, actor, seeds, episodes, limit=limit, stop=stop)
    finally:
        env.close()
