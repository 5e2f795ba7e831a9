"""The rows. Edit one, or add your own, and run `python main.py ROW`.

A row is a plain dict with flat keys; what it leaves out takes the default that
`python main.py ROW --help` shows.
"""

from typing import Any, Final

from pydantic import ByteSize

from core.options import LoopOptions, option

DEFAULT: Final = "dqn_cartpole"

DQN_CARTPOLE: Final[dict[str, Any]] = {
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
}

ACER_CARTPOLE: Final[dict[str, Any]] = {
    "agent_type": "acer",
    "env_type": "gym",
    "game": "CartPole-v1",
    "model_type": "acer-mlp",
    "memory_type": "episodic",
    "memory_limit": 40_000,
    "trajectory_length": 20,
    "num_envs": 8,
    "steps": 500_000,
    "batch_size": 8,
    "learn_start": 0,
    "train_interval": 160,
    "replay_start": 8_000,
    "entropy_coef": 0.0,
    "eval_freq": 10_000,
    "checkpoint_freq": 100_000,
    "log_freq": 5_000,
    "hidden_sizes": (64, 64),
}

PARALLEL: Final[dict[str, Any]] = {
    "runtime": "parallel",
    "storage": "shared",
    "num_collectors": 2,
}

SEARCH_CARTPOLE: Final[dict[str, Any]] = {
    "env_type": "gym",
    "game": "CartPole-v1",
    "model_type": "es-mlp",
    "memory_type": "episode-parameter",
    "memory_limit": 1_000,
    "num_envs": 8,
    "batch_size": 1,
    "learn_start": 0,
    "eval_freq": 5_000,
    "checkpoint_freq": 50_000,
    "log_freq": 1_000,
}

DQN_PONG: Final[dict[str, Any]] = {
    "agent_type": "dqn",
    "env_type": "atari",
    "game": "ALE/Pong-v5",
    "noop_max": 30,
    "fire_reset": True,
    "episodic_life": True,
    "sticky_actions": 0.0,
    "model_type": "dqn-cnn",
    "memory_type": "sequential",
    "memory_limit": 101_000,
    "window_length": 4,
    "steps": 10_000_000,
    "batch_size": 32,
    "learn_start": 100_000,
    "train_interval": 4,
    "lr": 1e-4,
    "gamma": 0.99,
    "clip_reward": 1.0,
    "target_model_update": 1_000,
    "eps_end": 0.01,
    "eps_decay": 1_000_000,
    "eval_freq": 100_000,
    "checkpoint_freq": 100_000,
    "log_freq": 10_000,
}

DQN_CARRACING: Final[dict[str, Any]] = {
    "agent_type": "dqn",
    "env_type": "gym",
    "game": "CarRacing-v3",
    "actions": "discrete",
    "frame_skip": 4,
    "noop_max": 50,
    "model_type": "dqn-cnn",
    "memory_type": "sequential",
    "memory_limit": 100_000,
    "window_length": 4,
    "steps": 200_000,
    "batch_size": 32,
    "learn_start": 5_000,
    "train_interval": 4,
    "lr": 1e-4,
    "gamma": 0.99,
    "target_model_update": 1_000,
    "eps_end": 0.1,
    "eps_decay": 100_000,
    "eval_freq": 20_000,
    "checkpoint_freq": 20_000,
    "log_freq": 1_000,
}

DQN_MINATAR: Final[dict[str, Any]] = {
    "agent_type": "dqn",
    "env_type": "minatar",
    "game": "breakout",
    "model_type": "dqn-cnn",
    "memory_type": "sequential",
    "memory_limit": 100_000,
    "window_length": 1,
    "steps": 10_000_000,
    "batch_size": 32,
    "learn_start": 1_000,
    "train_interval": 4,
    "lr": 2.5e-4,
    "adam_eps": 3.125e-4,
    "gamma": 0.99,
    "loss": "mse",
    "clip_grad": 0.0,
    "target_model_update": 1_000,
    "eps_end": 0.01,
    "eps_decay": 250_000,
    "hidden_sizes": (128,),
    "eval_freq": 50_000,
    "checkpoint_freq": 250_000,
    "log_freq": 5_000,
}

RAINBOW: Final[dict[str, Any]] = {
    "double": True,
    "dueling": "avg",
    "distribution": "c51",
    "noisy": True,
    "n_step": 3,
    "sampler": "prioritized",
    "priority_exponent": 0.5,
    "eps_start": 0.0,
    "eps_end": 0.0,
}

RAINBOW_MINATAR: Final[dict[str, Any]] = {
    **DQN_MINATAR,
    **RAINBOW,
    "loss": "huber",
    "v_min": -100.0,
    "v_max": 100.0,
    "lr": 1e-4,
}

CONFIGS: Final[dict[str, dict[str, Any]]] = {
    # rl-baselines3-zoo, hyperparams/dqn.yml, CartPole-v1 (500.0 +- 0.0 at 50k steps, one seed)
    "dqn_cartpole": DQN_CARTPOLE,
    # the same, by priority: exponents of Schaul et al. (2016), proportional variant
    "dqn_cartpole_prioritized": {**DQN_CARTPOLE, "sampler": "prioritized"},
    # stable-baselines zoo, hyperparams/dqn.yml, LunarLander-v2 (269.0 +- 41.1 at 200k steps, one
    # seed), with the defaults of Stable-Baselines 2: double, dueling with a hidden layer in each of
    # value and advantage, layers normalised, beta from 0.4
    "dqn_lunarlander": {
        "agent_type": "dqn",
        "env_type": "gym",
        "game": "LunarLander-v3",
        "model_type": "dqn-mlp",
        "memory_type": "sequential",
        "memory_limit": 100_000,
        "sampler": "prioritized",
        "steps": 200_000,
        "batch_size": 32,
        "learn_start": 1_000,
        "lr": 1e-3,
        "target_model_update": 500,
        "double": True,
        "dueling": "avg",
        "streams": "own",
        "layer_norm": True,
        "eps_decay": 20_000,
        "hidden_sizes": (64,),
        "eval_freq": 5_000,
        "checkpoint_freq": 20_000,
        "log_freq": 1_000,
    },
    # stable-baselines zoo, hyperparams/acer.yml, CartPole-v1 (498.6 +- 23.9 at 500k steps), with
    # the defaults of Stable-Baselines 2: 20 steps, 5,000 steps of memory an env, 4 replays
    "acer_cartpole": ACER_CARTPOLE,
    # the same with environments stepped by two processes, which wait for each other: the window
    # that is learnt from on policy is then all of what was played since, and no more
    "acer_cartpole_parallel": {**ACER_CARTPOLE, **PARALLEL, "lockstep": True},
    "acer_cartpole_no_replay": {**ACER_CARTPOLE, "replay_ratio": 0.0},
    "acer_cartpole_no_trust_region": {**ACER_CARTPOLE, "trust_region": False},
    "acer_cartpole_no_bias_correction": {**ACER_CARTPOLE, "bias_correction": False},
    # no published setting for this size: derived from Salimans et al. (2017) and ARS (Mania et al.
    # 2018), whose linear policies solve CartPole within 50k steps
    "es_cartpole": {
        **SEARCH_CARTPOLE,
        "agent_type": "es",
        "steps": 200_000,
        "population": 16,
        "sigma": 0.1,
        "lr": 0.05,
        "normalize_obs": True,
    },
    # keras-rl's cem_cartpole example (100k steps), with elites from whole generations; 16
    # candidates without added spread for long collapse early on two seeds of five
    "cem_cartpole": {
        **SEARCH_CARTPOLE,
        "agent_type": "cem",
        "steps": 100_000,
        "population": 32,
        "extra_generations": 30,
        "normalize_obs": True,
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
    # rl-baselines3-zoo, hyperparams/dqn.yml, atari (20.60 +- 0.61 at 10M steps, one seed), with the
    # wrapper it uses: the preprocessing of Mnih et al. (2015), and no sticky actions. It holds
    # 100,000 transitions: here the rows that close episodes come on top
    "dqn_pong": DQN_PONG,
    # the same from the console's memory, through the network of pytorch-rl's pong-ram (jingweiz
    # 2017): three layers of 256. No score of either is published
    "dqn_pong_ram": {
        **DQN_PONG,
        "env_type": "atari-ram",
        "model_type": "dqn-mlp",
        "hidden_sizes": (256, 256, 256),
    },
    # the same while four environments are stepped, and their frames compressed, by two processes
    "dqn_pong_parallel": {**DQN_PONG, **PARALLEL, "num_envs": 4},
    # the same as dqn_pong (358.3 +- 62.0 at 10M steps, one seed)
    "dqn_breakout": {**DQN_PONG, "game": "ALE/Breakout-v5"},
    # Hessel et al. (2018), table 1, in env steps of 4 frames: 80,000 frames before learning, a copy
    # of the target every 32,000, noise and no epsilon, a hidden layer in each of value and
    # advantage. Pong's rewards need no clipping
    "rainbow_pong": {
        **DQN_PONG,
        **RAINBOW,
        "streams": "own",
        "clip_reward": 0.0,
        "memory_limit": 1_000_000,
        "steps": 50_000_000,
        "learn_start": 20_000,
        "lr": 6.25e-5,
        "adam_eps": 1.5e-4,
        "target_model_update": 8_000,
        "eval_freq": 250_000,
        "checkpoint_freq": 250_000,
    },
    # a published DQN on CarRacing (702.8 over 100 episodes after 2,000, one run): 4 frames a step
    # and in a stack, 50 idle frames for the zoom of the start, 100,000 transitions, 5,000 before
    # learning, batches of 32; its decay of epsilon over half the run and its copies of the target,
    # of 2M steps, are divided by ten. It has RMSprop at 2.5e-4, two convolutions and 84 x 84 grey
    # pixels, and learns each step: here Adam as in Pong, three, and the pixels as they are
    "dqn_carracing": DQN_CARRACING,
    "dqn_carracing_grey": {**DQN_CARRACING, "greyscale": "luma", "resize": 48},
    # Dopamine's MinAtar settings, as in Revisiting Rainbow (Obando-Ceron and Castro 2021)
    "dqn_minatar_breakout": DQN_MINATAR,
    "dqn_minatar_asterix": {**DQN_MINATAR, "game": "asterix"},
    "dqn_minatar_freeway": {**DQN_MINATAR, "game": "freeway"},
    "dqn_minatar_seaquest": {**DQN_MINATAR, "game": "seaquest"},
    "dqn_minatar_space_invaders": {**DQN_MINATAR, "game": "space_invaders"},
    # Revisiting Rainbow's settings for MinAtar, with all of Rainbow's parts (Hessel et al. 2018);
    # value and advantages share the hidden layer, as there
    "rainbow_minatar_breakout": RAINBOW_MINATAR,
    "rainbow_minatar_asterix": {**RAINBOW_MINATAR, "game": "asterix"},
    "rainbow_minatar_freeway": {**RAINBOW_MINATAR, "game": "freeway"},
    "rainbow_minatar_seaquest": {**RAINBOW_MINATAR, "game": "seaquest"},
    "rainbow_minatar_space_invaders": {**RAINBOW_MINATAR, "game": "space_invaders"},
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
    memory_cap: ByteSize = option(
        ByteSize(0),
        changes=True,
        help="what the run's process may take in all, as 12GB; 0: what the system says is left",
    )
