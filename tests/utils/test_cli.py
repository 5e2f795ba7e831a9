import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import main
from core.errors import UsageError
from tests.harness import CHAIN, ROOT, Run, cli, environment, flags, only_folder, python, rows_of
from utils.cli import split_arguments
from utils.describe import shown
from utils.factory import TABLES, options_class
from utils.options import CONFIGS, DEFAULT
from utils.settings import BASES, resolve

FAST = {"steps": 600, "learn_start": 100, "eval_freq": 0, "visdom": "off"}
SEED_ROW = {
    "agent_type": "dqn",
    "env_type": "gym",
    "game": "CartPole-v0",
    "model_type": "dqn-mlp",
    "memory_type": "sequential",
    "memory_limit": 100000,
    "window_length": 1,
}


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command line that ends with exit code 2."""
    assert main.run(list(arguments)) == 2
    out, error = capsys.readouterr()
    assert out == "" and error.count("\n") == 1 and error.startswith("engram: ")
    return error.removeprefix("engram: ").rstrip()


# Words and flags.


@pytest.mark.parametrize(
    ("arguments", "words", "given"),
    [
        ([], [], {}),
        (["row", "--lr", "1e-3"], ["row"], {"lr": "1e-3"}),
        (["row", "--lr=1e-3"], ["row"], {"lr": "1e-3"}),
        (["--lr", "1", "row", "--game=a=b"], ["row"], {"lr": "1", "game": "a=b"}),
        (["--seed", "-5"], [], {"seed": "-5"}),
        (["--hidden_sizes="], [], {"hidden_sizes": ""}),
        (["test", "run", "--weights", "last"], ["test", "run"], {"weights": "last"}),
    ],
)
def test_words_and_flags_are_told_apart(arguments: list[str], words: list[str], given: dict):
    assert split_arguments(arguments) == (words, given)


@pytest.mark.parametrize("arguments", [["--lr"], ["--lr", "--seed", "1"], ["row", "--lr"]])
def test_a_flag_needs_a_value(arguments: list[str]):
    with pytest.raises(UsageError, match="--lr needs a value"):
        split_arguments(arguments)


def test_a_flag_given_twice_is_refused():
    with pytest.raises(UsageError, match="--lr is given twice"):
        split_arguments(["--lr", "1", "--lr=2"])


# What is refused, with one line and exit code 2.


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["dqn_cartpol"], "no row or verb 'dqn_cartpol'; did you mean 'dqn_cartpole'?"),
        (["tset", "x"], "no row or verb 'tset'; did you mean 'test'?"),
        (["train", "dqn_cach"], "no row 'dqn_cach' in CONFIGS; did you mean 'dqn_catch'?"),
        (["dqn_catch", "dqn_cartpole"], "one row at a time: 'dqn_catch', and then 'dqn_cartpole'"),
        (["--gama", "1"], "unknown key 'gama' on the command line; did you mean 'gamma'?"),
        (["--steps", "1.5"], "steps = '1.5' on the command line is not allowed: it takes a whole "
         "number 1 and up in env steps"),
        (["--agent_type", "dpn"], "agent_type knows no 'dpn'; did you mean 'dqn'?"),
        (["--batch_size", "1e6"], "batch_size 1000000 is never reached: with this memory_limit "
         "and num_envs 1 the memory holds at most 99999 units"),
        (["--learn_start", "60000"], "learn_start 60000 is never reached within steps 50000"),
        (["--game", "CartPole-v9"], "gymnasium knows no game 'CartPole-v9'; did you mean "
         "'CartPole-v1'?"),
        (["--game", "CratPole-v1"], "gymnasium knows no game 'CratPole-v1'; did you mean "
         "'CartPole-v1'?"),
        (["--game", "ALE/Pong-v5"], "'ALE/Pong-v5' is a game of Atari: set --env_type atari"),
        (["--game", "nowhere:Foo-v0"], "'nowhere:Foo-v0' needs the module 'nowhere', which is "
         "missing"),
        (["--game", ":Foo-v0"], "':Foo-v0' names no module before its colon"),
        (["--model_type", "dqn-cnn"], "dqn-cnn takes one picture, and the env observes "
         "{'obs': (4,)}; set --model_type dqn-mlp"),
        (["list", "rows"], "usage: python main.py list"),
        (["test"], "usage: python main.py test RUN [--weights best|last] [--episodes N]"),
        (["test", "x", "--episodes", "ten"], "episodes = 'ten' on the command line is not allowed: "
         "it takes a whole number 1 and up in episodes"),
        (["dqn_cartpole", "--help", "--lr"], "--lr needs a value"),
        (["dqn_cach", "--help"], "no row 'dqn_cach' in CONFIGS; did you mean 'dqn_catch'?"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_with_what_was_meant(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
):
    assert refused(capsys, *arguments) == line


@pytest.mark.parametrize("missing", [True, False])
def test_an_unknown_run_is_refused_with_the_nearest_of_all(
    missing: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    names = [] if missing else [f"row-{number}" for number in range(9)] + ["abc-20260101-s1"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    line = refused(capsys, "test", "abc-20260101-s2", "--runs", str(tmp_path))
    if missing:
        assert line == f"no run 'abc-20260101-s2': {tmp_path}/ holds none yet"
    else:
        assert line == "no run 'abc-20260101-s2'; did you mean 'abc-20260101-s1'?"
        line = refused(capsys, "test", "zzz", "--runs", str(tmp_path))
        assert line == "no run 'zzz'; choose from: row-4, row-5, row-6, row-7, row-8"


def test_a_run_whose_config_is_broken_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{")
    line = refused(capsys, "test", "mine", "--runs", str(tmp_path))
    assert line.startswith("mine has no readable config.json: ")


def test_runs_that_cannot_be_written_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setitem(CONFIGS, DEFAULT, CHAIN)
    line = refused(capsys, "--runs", str(tmp_path / "file"))
    assert line == f"runs '{tmp_path / 'file'}' cannot hold a run: File exists"


def test_a_row_named_like_a_verb_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(CONFIGS, "test", CONFIGS["dqn_cartpole"])
    for arguments in (["test"], ["dqn_cartpole"]):
        line = refused(capsys, *arguments)
        assert line == "row 'test' in CONFIGS is named like a verb; rename it"


def test_a_syntax_error_in_the_rows_is_one_line(tmp_path: Path):
    for name in ("main.py", "utils", "core", "agents", "models"):
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / name)
    rows = tmp_path / "utils" / "options.py"
    rows.write_text(rows.read_text().replace('"steps": 50_000,', '"steps" 50_000,'))
    done = cli("list", cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"engram: {rows}, line ")


def test_an_interrupt_before_a_run_is_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(main.VERBS, "list", interrupt)
    assert main.run(["list"]) == 130
    assert capsys.readouterr().err == "engram: interrupted\n"


def test_refusals_reach_the_shell():
    done = cli("dqn_cartpole", "--memory-limit", "5")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == (
        "engram: unknown key 'memory-limit' on the command line; did you mean 'memory_limit'?\n"
    )


# Pages.


@pytest.mark.parametrize("row", CONFIGS)
def test_help_of_a_row_lists_exactly_its_keys(row: str, capsys: pytest.CaptureFixture[str]):
    assert main.run([row, "--help"]) == 0
    page = capsys.readouterr().out
    listed = [line.split()[0].removeprefix("--") for line in page.splitlines() if "  --" in line]
    settings = resolve(row, CONFIGS[row], {})
    assert sorted(listed) == sorted(settings.flat())
    for part in (settings.run, settings.agent, settings.env, settings.model, settings.memory):
        for key, field in type(part).model_fields.items():
            head = f"  --{key}  {field.description}\n"
            assert head in page
            takes = page.partition(head)[2].partition("\n")[0]
            default = "required" if field.is_required() else shown(field.default)
            assert f"(default {default}" in takes
            unit = (field.json_schema_extra or {}).get("unit", "")
            assert not unit or f"in {unit} (" in takes
            changes = (field.json_schema_extra or {})["changes"]
            assert takes.endswith("; may change on resume") == changes
            if key in CONFIGS[row]:
                assert f", here {shown(CONFIGS[row][key])})" in takes


def test_help_shows_ranges(capsys: pytest.CaptureFixture[str]):
    main.run(["dqn_cartpole", "-h"])
    page = capsys.readouterr().out
    assert "a whole number 1 and up, up to 64 in frames (default 1, here 1)" in page
    assert "one of off, avg, max, naive (default off)" in page


def test_help_follows_a_component_chosen_by_flag(capsys: pytest.CaptureFixture[str]):
    main.run(["dqn_cartpole", "--model_type", "dqn-cnn", "--help"])
    assert "  --trunk" in capsys.readouterr().out


def test_help_alone_shows_verbs_and_rows(capsys: pytest.CaptureFixture[str]):
    assert main.run(["--help"]) == 0
    page = capsys.readouterr().out
    for verb, function in main.VERBS.items():
        assert f"python main.py {verb} " in page and str(function.__doc__) in page
    assert all(row in page for row in CONFIGS)


def test_list_shows_rows_and_every_component(capsys: pytest.CaptureFixture[str]):
    assert main.run(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line and line[0] == " "] == [
        *CONFIGS,
        *(name for part in BASES for name in TABLES[f"{part}_type"]),
    ]
    for part in BASES:
        for name, entry in TABLES[f"{part}_type"].items():
            about = (options_class(entry).__doc__ or "").partition("\n")[0]
            assert any(line.split()[:1] == [name] and line.endswith(about) for line in lines)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """For a child that finds our modules compiled, as a second start does."""
    cache = {"PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("compiled"))}
    env = {key: value for key, value in environment().items() if key != "PYTHONDONTWRITEBYTECODE"}
    for words in (["list"], ["dqn_cartpole", "--help"]):
        subprocess.run([sys.executable, "main.py", *words], cwd=ROOT, env=env | cache, check=True)
    return env | cache


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["list"], 0), (["--help"], 0), (["dqn_cartpole", "--help"], 0), (["dqn_cartpol"], 2),
     (["dqn_cartpole", "--gama", "1"], 2)],
    ids=["list", "help", "row help", "row typo", "key typo"],
)  # fmt: skip
def test_what_builds_nothing_answers_within_half_a_second(
    arguments: list[str], code: int, compiled: dict[str, str]
):
    # the processor's seconds and the best of a few, since other work may hold the machine;
    # nothing here waits for anything, so that on an idle one they are the wall's
    seconds = []
    while len(seconds) < 5 and min(seconds, default=1.0) > 0.5:
        child = subprocess.Popen(
            [sys.executable, "main.py", *arguments],
            cwd=ROOT,
            env=compiled,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == code
        seconds.append(usage.ru_utime + usage.ru_stime)
    assert min(seconds) <= 0.5


def test_what_builds_nothing_loads_neither_torch_nor_visdom():
    found = python(
        "import io, sys, contextlib, main\n"
        "out, error = contextlib.redirect_stdout, contextlib.redirect_stderr\n"
        "with out(io.StringIO()), error(io.StringIO()):\n"
        "    codes = [main.run(words) for words in (['list'], ['--help'],"
        " ['dqn_cartpole', '--help'], ['dqn_cartpol'], ['dqn_cartpole', '--gama', '1'])]\n"
        "heavy = ('torch', 'visdom', 'gymnasium', 'numba', 'matplotlib')\n"
        "print(codes, [h for h in heavy if h in sys.modules])\n"
    )
    assert found == "[0, 0, 0, 2, 2] []\n"


# Running.


def test_the_seeds_row_trains_verbatim(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(CONFIGS, "dqn_cartpole", SEED_ROW)
    assert main.run(["dqn_cartpole", *flags(**FAST, runs=tmp_path)]) == 0
    folder = only_folder(tmp_path)
    result = json.loads((folder / "result.json").read_text())
    assert result["status"] == "finished" and result["steps"] == 600
    assert result["updates"] == 501  # one a step from step 100 on
    options = json.loads((folder / "config.json").read_text())["options"]
    assert {key: options[key] for key in SEED_ROW} == SEED_ROW
    assert str(folder) in capsys.readouterr().out
    assert (folder / "curves.png").read_bytes()[:4] == b"\x89PNG"


def test_train_without_a_row_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(CONFIGS, DEFAULT, CHAIN)
    for words in ([], ["train"]):
        assert main.run([*words, "--runs", str(tmp_path)]) == 0
    folders = sorted(tmp_path.iterdir())
    assert [folder.name.split("-")[0] for folder in folders] == [DEFAULT] * 2
    assert rows_of(folders[0] / "progress.csv")[-1]["step"] == "400"


@pytest.mark.parametrize("which", ["best", "last"])
def test_test_plays_a_runs_weights(which: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = Run(tmp_path, CHAIN).go()
    name = run.folder.path.name
    line = ["test", name, "--episodes", "7", "--weights", which, "--runs", str(tmp_path)]
    assert main.run(line) == 0
    out = capsys.readouterr().out
    step = run.result["best_step"] if which == "best" else 400
    assert out.startswith(f"{name}: {which} weights, step {step}: return ")
    assert out.endswith(" over 7 episodes\n")


def test_test_plays_the_episodes_that_the_result_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = Run(tmp_path, CHAIN).go()
    assert main.run(["test", str(run.folder.path)]) == 0
    score = f"{run.result['eval_return_mean']:.2f} +- {run.result['eval_return_std']:.2f}"
    assert f"return {score} over 100 episodes" in capsys.readouterr().out


def test_the_house_runs_from_another_folder(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "main.py"), "list"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "dqn_cartpole" in done.stdout


@pytest.mark.parametrize(
    ("keys", "module", "install"),
    [
        ({"game": "LunarLander-v3"}, "Box2D", "pip install -r requirements-box2d.txt"),
        ({"game": "HalfCheetah-v5"}, "mujoco", 'pip install "gymnasium[mujoco]"'),
    ],
)
def test_an_env_whose_package_is_missing_names_the_command_that_installs_it(
    keys: dict[str, str], module: str, install: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    for loaded in [
        name for name in sys.modules if name.startswith(f"gymnasium.envs.{module.lower()}")
    ]:
        monkeypatch.delitem(sys.modules, loaded)
    assert refused(capsys, *flags(**keys)) == f"'{keys['game']}' needs a package: {install}"
