"""The rows. Edit one, or add your own, and run `python main.py ROW`.

A row is a plain dict with flat keys; what it leaves out takes the default that
`python main.py ROW --help` shows.
"""

from typing import Any, Final

from core.options import LoopOptions, option

DEFAULT: Final = "dqn_cartpole"

CONFIGS: Final[dict[str, dict[str, Any]]] = {
    # rl-baselines3-zoo, hyperparams/dqn.yml, CartPole-v1 (500.0 +- 0.0 at 50k steps, one seed)
    "dqn_cartpole": {
        "agent_type": "dqn",
        "env_type": "gym",
        "game": "CartPole-v1",
        "model_type": "dqn-mlp",
        "memory_type": "sequential",
        "memory_limit": 100_000,
        "window_length": 1,
        "steps": 50_000,
        "batch_size": 64,
        "learn_start": 1_000,
        "train_interval": 256,
        "updates": 128,
        "lr": 2.3e-3,
        "gamma": 0.99,
        "target_model_update": 10,
        "eps_end": 0.04,
        "eps_decay": 8_000,
        "hidden_sizes": (256, 256),
    },
    # acts at random: tries an environment, and gives the floor of its results
    "random_cartpole": {
        "agent_type": "empty",
        "env_type": "gym",
        "game": "CartPole-v1",
        "model_type": "none",
        "memory_type": "sequential",
        "memory_limit": 10_000,
        "steps": 10_000,
    },
    # pixels without a screen: a ball falls down a board of 10 x 5 (the task of bsuite)
    "dqn_catch": {
        "agent_type": "dqn",
        "env_type": "toy",
        "game": "catch",
        "model_type": "dqn-cnn",
        "memory_type": "sequential",
        "memory_limit": 20_000,
        "window_length": 1,
        "steps": 10_000,
        "num_envs": 4,
        "train_interval": 4,
        "lr": 5e-4,
        "target_model_update": 500,
        "eps_decay": 5_000,
        "hidden_sizes": (64,),
    },
}


class RunOptions(LoopOptions):
    """The run's own keys: which components, and where it goes."""

    agent_type: str = option(help="what learns: a name of `python main.py list`")
    env_type: str = option(help="family of the environment")
    model_type: str = option(help="the agent's network")
    memory_type: str = option(help="what the agent learns from")
    runs: str = option("runs", help="folder that the run's own folder is made in")
