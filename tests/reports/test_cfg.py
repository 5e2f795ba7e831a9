"""Reports CFG-01 to CFG-06: configuration and seeds."""

import shutil
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

import main
from core.checkpoint import Checkpoints
from core.seeding import SeedTree
from core.train import train
from tests.harness import CHAIN, ROOT, Run, cli, flags, only_folder, rows_of
from utils.options import CONFIGS


def refused(*arguments: str, within: float = 10.0, cwd: Path = ROOT) -> str:
    """What is said where a command line is refused in time, in one line and without traceback."""
    begun = time.perf_counter()
    done = cli(*arguments, cwd=cwd)
    assert time.perf_counter() - begun < within
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
    return done.stderr


def test_cfg_01_a_misspelt_key_stops_the_run_with_the_nearest_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    # pass: exit != 0 within 5 s; the bad key, the closest valid key, and where it was read
    said = refused("dqn_cartpole", "--memry_limit", "500", within=5.0)
    assert "'memry_limit' on the command line; did you mean 'memory_limit'?" in said
    row = {**CONFIGS["dqn_cartpole"], "learn_strt": 100, "runs": str(tmp_path)}
    monkeypatch.setitem(CONFIGS, "mine", row)
    begun = time.perf_counter()
    assert main.run(["mine"]) == 2
    assert time.perf_counter() - begun < 5.0
    said = capsys.readouterr().err
    assert "'learn_strt' in row 'mine'; did you mean 'learn_start'?" in said
    assert list(tmp_path.iterdir()) == []


def test_cfg_02_a_key_in_the_wrong_place_or_of_the_wrong_type_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    # pass: each rejected with key, section and expected type; no traceback
    cases = [
        ({"trunk": "nature"}, ["'trunk'", "in row 'mine'", "read by model dqn-cnn"]),
        ({"memory-limit": 500}, ["'memory-limit'", "in row 'mine'", "did you mean 'memory_limit'"]),
        ({"steps": "50000"}, ["steps = '50000'", "in row 'mine'", "takes a whole number"]),
        ({"model": {"lr": 0.1}}, ["'model'", "in row 'mine'"]),
    ]
    for wrong, expected in cases:
        monkeypatch.setitem(CONFIGS, "mine", {**CONFIGS["dqn_cartpole"], **wrong})
        assert main.run(["mine"]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and all(part in said for part in expected), said
    for name in ("main.py", "utils", "core", "agents", "models"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    rows = tmp_path / "utils" / "options.py"
    rows.write_text(rows.read_text() + "\nCONFIGS = {'unfinished': \n")
    said = refused("dqn_cartpole", cwd=tmp_path)
    assert f"{rows}, line " in said


def test_cfg_03_an_agent_that_cannot_act_in_an_env_is_refused_with_those_that_can(
    capsys: pytest.CaptureFixture[str],
):
    # pass: refusal within 10 s naming both spaces and at least one fitting agent
    said = refused("dqn_cartpole", "--game", "Pendulum-v1")
    assert "'dqn' takes discrete actions" in said
    assert "'Pendulum-v1' has Box(1,) (continuous)" in said
    assert "empty" in said.partition("fitting agents: ")[2]
    # an agent that reads another unit than the memory gives
    assert main.run(["dqn_cartpole", "--memory_type", "tests.utils.thirdparty:Trajectories"]) == 2
    said = capsys.readouterr().err
    assert "'dqn' reads transitions" in said and "gives trajectories" in said
    assert "sequential" in said.partition("fitting memories: ")[2]


def cartpole(seed: int) -> dict[str, object]:
    return {
        **CONFIGS["dqn_cartpole"],
        "seed": seed,
        "steps": 3_000,
        "eval_freq": 1_000,
        "eval_episodes": 3,
        "visdom": "off",
    }


def weight_hash(folder: Path) -> int:
    weights = Checkpoints(folder / "checkpoints").load("last", pytest.fail)["weights"]
    return zlib.crc32(b"".join(weights[name].tobytes() for name in sorted(weights)))


@pytest.mark.timeout(300)  # some 10 s on an idle machine
def test_cfg_04_runs_of_one_seed_are_identical(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    # pass: equal return lists and weight hash for equal seeds; different for the other
    monkeypatch.setattr("core.report.EPISODES", 2)  # what comes after training is not the matter
    returns, hashes = [], []
    for number, seed in enumerate((1, 1, 2)):
        monkeypatch.setitem(CONFIGS, "row", cartpole(seed))
        runs = tmp_path / str(number)
        assert main.run(["row", "--runs", str(runs)]) == 0
        folder = only_folder(runs)
        columns = ("return_mean", "eval_return_mean", "loss", "episodes")
        rows = rows_of(folder / "progress.csv")
        returns.append([[row[name] for name in columns] for row in rows])
        hashes.append(weight_hash(folder))
    assert len(returns[0]) == 6
    assert returns[0] == returns[1] != returns[2]
    assert hashes[0] == hashes[1] != hashes[2]


def test_cfg_05_lanes_do_not_share_a_seed(tmp_path: Path):
    # pass: first observations and first 20 actions differ between workers; the set is the same
    # in both runs (lanes here: the collectors of a later step are such lanes)
    row = {key: value for key, value in CHAIN.items() if key != "size"}
    firsts, actions = [], []
    for _ in range(2):
        run = Run(tmp_path, row, env_type="gym", game="CartPole-v1", num_envs=4)
        rollout = run.rollout()
        firsts.append({obs.tobytes() for obs in rollout._obs["obs"]})
        acted = []
        original = run.parts.env.step

        def step(chosen: np.ndarray, *, acted=acted, original=original):
            acted.append(chosen.copy())
            return original(chosen)

        run.parts.env.step = step
        for clock in range(50):
            rollout.step(clock)
        actions.append({lane.tobytes() for lane in np.array(acted[:20]).T})
    assert len(firsts[0]) == len(actions[0]) == 4
    assert firsts[0] == firsts[1] and actions[0] == actions[1]
    # env, exploration, sampling, evaluation and initialisation draw from branches of their own
    tree = SeedTree(1)
    purposes = ("env", "explore", "sampler", "eval", "init", "report")
    assert len({int(tree.generator(p).integers(2**60)) for p in purposes}) == len(purposes)
    assert len(set(tree.integers("env", 1_000))) == 1_000


@pytest.mark.parametrize("model", ["dqn-cnn", "dqn-mlp"])
@pytest.mark.parametrize("picture", ["16x16x1", "40x40", "84x84x3"])
def test_cfg_06_a_picture_of_any_size_works(picture: str, model: str, tmp_path: Path):
    # pass: works, or a named message with the minimum size; never a raw kernel error
    row = {key: value for key, value in CHAIN.items() if key not in ("size", "hidden_sizes")}
    run = Run(
        tmp_path,
        {**row, "hidden_sizes": (8,)},
        env_type="gym",
        game=f"tests.faults.worlds:Picture{picture}-v0",
        model_type=model,
        window_length=2,
        memory_limit=200,
        steps=100,
        eval_freq=0,
        train_interval=10,
    )
    recorder, rollout = run.recorder(), run.rollout()
    train(run.parts, rollout, run.options, recorder, lambda: False)
    recorder.close()
    assert run.parts.agent.updates == 6
    run.parts.memory.check()


@pytest.mark.parametrize(
    ("picture", "said"),
    [
        ("2x30", "a picture of 2x30 is too small for trunk 'minatar', which takes 3x3 and up"),
        ("2x16x16x3", "dqn-cnn takes one picture, and the env observes {'obs': (2, 16, 16, 3)}"),
        # one pixel wide, so no picture at all
        ("10x1x3", "a picture of 10x1 is too small for trunk 'minatar', which takes 3x3 and up"),
    ],
)
def test_cfg_06_a_picture_that_cannot_work_is_refused_with_the_least_size(
    picture: str, said: str, capsys: pytest.CaptureFixture[str]
):
    keys = {"game": f"tests.faults.worlds:Picture{picture}-v0", "model_type": "dqn-cnn"}
    assert main.run(["dqn_cartpole", *flags(**keys)]) == 2
    assert said in capsys.readouterr().err


def test_cfg_06_a_trunk_too_large_is_refused_with_the_least_size(
    capsys: pytest.CaptureFixture[str],
):
    keys = {"game": "tests.faults.worlds:Picture16x16x1-v0", "model_type": "dqn-cnn"}
    assert main.run(["dqn_cartpole", *flags(**keys, trunk="nature")]) == 2
    said = capsys.readouterr().err
    assert "16x16 is too small for trunk 'nature', which takes 36x36 and up" in said
