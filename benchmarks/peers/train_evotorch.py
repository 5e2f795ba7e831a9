"""SNES of evotorch on CartPole, one actor."""

from contextlib import suppress

import torch
from evotorch.algorithms import SNES
from evotorch.neuroevolution import GymNE
from pace import EnoughError, Pace, report, settings


def main() -> None:
    """Searches for as long as is measured."""
    given = settings()
    torch.set_num_threads(1)
    torch.manual_seed(given["seed"])
    width = given["hidden_sizes"][0]
    problem = GymNE(
        given["game"],
        f"Linear(obs_length, {width}) >> Tanh() >> Linear({width}, act_length)",
        num_actors=1,
        observation_normalization=False,
    )
    searcher = SNES(problem, stdev_init=given["sigma"], popsize=given["population"])
    pace = Pace(given["begin"], given["end"])
    with suppress(EnoughError):
        while True:
            searcher.step()
            pace.at(int(searcher.status["total_interaction_count"]), searcher.step_count)
    report("evotorch", "evotorch", torch.get_num_threads(), pace)


if __name__ == "__main__":
    main()
