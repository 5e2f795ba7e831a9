"""`python main.py plan ROW`: what a row takes and holds, and whether that fits here."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import main
from core.errors import UsageError
from core.limits import Usable
from core.memory import MemoryContext
from core.memory_watch import private_bytes
from core.options import SharedOptions
from core.rollout import Rollout
from core.sizes import size_of
from core.types import ArraySpec, ContinuousActions, EnvSpec
from tests.harness import CHAIN, EMPTY, Run, cli, flags, parts_of
from utils.advice import of_transitions
from utils.options import CONFIGS

ROW = "row"
FIELDS = (
    "row fits bytes_per_step bytes_full bytes_full_low bytes_full_high tiers other_bytes "
    "usable_bytes max_num_envs holds key remedies advice"
)
PIXELS: dict[str, Any] = {
    **EMPTY, "game": "counter", "observation": "pixels", "size": 84, "memory_limit": 1_000,
}  # fmt: skip
RAW, LZ4 = {"frame_codec": "raw"}, {"frame_codec": "lz4"}
A_STEP = 84 * 84 + 16 + 1  # a raw frame, a packed row of everything else, a counter of draws


@pytest.fixture(autouse=True)
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONFIGS, ROW, EMPTY)
    monkeypatch.setitem(CONFIGS, "pixels", PIXELS)


@pytest.fixture
def plan(capfd: pytest.CaptureFixture[str]):
    """Calls the verb; gives the exit code, and what was printed to stdout and to stderr."""

    def call(*words: str, **keys: Any) -> tuple[int, str, str]:
        code = main.run(["plan", *words, *flags(**keys)])
        return code, *capfd.readouterr()

    return call


def machine_has(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """So many bytes are left beside what this process has taken."""
    monkeypatch.setattr("utils.planning.usable_memory", lambda: Usable(size, "free memory"))


def test_a_plan_is_four_lines(plan) -> None:
    code, out, error = plan(ROW)
    assert (code, error) == (0, "")
    first, second, third, fourth = out.splitlines()
    assert fourth == (
        "capacity: 100,000 rows take 3.7 MB and 1,000,000 take 37.0 MB; 10,000 to 100,000 are "
        "usual where an observation is a few numbers"
    )
    # 18,000 bytes, those that take their place, and three segments of a megabyte of rows that went
    assert re.fullmatch(r"saved with checkpoints: up to 3.2 MB on disk, [\d.]+ [GT]B free", third)
    # an observation of 5 floats, and 16 bytes of everything else
    assert re.fullmatch(
        r"memory when full: 18.5 kB in heap memory, 37 bytes a step, memory_limit 500; it will "
        r"hold 500 steps, \d+ episodes of random play, 62 batches",
        first,
    )
    size = r"[\d.]+ [kMG]?B"
    assert re.fullmatch(
        rf"the rest of the run: {size}, {size} an env; {size} usable \(.+\), "
        r"enough for [\d,]+ envs",
        second,
    )


def test_as_json_it_is_one_object_and_nothing_else(plan) -> None:
    code, out, error = plan(ROW, "--json")
    assert (code, error) == (0, "")
    assert out.count("\n") == 1
    said = json.loads(out)
    assert list(said) == FIELDS.split()
    assert said["row"] == ROW and said["fits"] is True
    assert (said["bytes_per_step"], said["bytes_full"], said["tiers"]) == (
        37, 18_500, {"heap": 18_500, "disk": 3 * 18_500 + 3 * 2**20},
    )  # fmt: skip
    assert said["bytes_full_low"] == said["bytes_full_high"] == 18_500
    assert said["holds"]["steps"] == 500 and said["holds"]["batches"] == 62.5
    assert said["holds"]["hours"] is None, "the toy worlds say no frame rate"
    assert 500 / 5 < said["holds"]["episodes"] < 500 / 2, "of 1 to 4 steps and a closing row"
    assert (said["key"], said["remedies"]) == ("memory_limit", [])
    # each lane needs two rows
    assert said["max_num_envs"] == 250
    assert said["other_bytes"] == pytest.approx(private_bytes(), rel=0.1)
    assert said["usable_bytes"] > said["other_bytes"]


def test_in_a_process_of_its_own_nothing_else_is_printed() -> None:
    done = cli("plan", "random_cartpole", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert said["bytes_full"] == 10_000 * 33
    # 50 steps a second
    assert said["holds"]["hours"] == 10_000 / 50 / 3_600


def test_hours_and_episodes_are_worked_by_hand(plan) -> None:
    said = json.loads(plan("pixels", "--json", episode_length=9)[1])
    assert said["holds"]["episodes"] == 1_000 / 10, "9 steps and a closing row"
    said = json.loads(plan("pixels", "--json", episode_length=0)[1])
    assert said["holds"]["episodes"] is None


def advised(plan, row: str, **keys: Any) -> str:
    """The advice of a row, the same as a line and as a field."""
    said: str = json.loads(plan(row, "--json", **keys)[1])["advice"]
    assert (said in plan(row, **keys)[1].splitlines()) == bool(said)
    return said


def test_the_advice_on_pictures_counts_all_bytes(plan) -> None:
    assert advised(plan, "pixels", **RAW, memory_bytes="1MB") == (
        f"capacity: 100,000 rows take {A_STEP / 10:.1f} MB and 1,000,000 take "
        f"{A_STEP / 1_000:.1f} GB; 100,000 are usual on small boards, 1,000,000 on game screens"
    )


def test_the_advice_on_trajectories_is_in_episodes_and_batches(plan) -> None:
    keys = {"memory_type": "episodic", "trajectory_length": 5, "memory_limit": 4_000}
    # episodes of 9 steps and a closing row; 20 batches of 8 times 5 steps
    wanted = (
        "capacity: 100 to 1,000 episodes of random play are 1,000 to 10,000 rows and take {} to "
        "{}; 20 batches at least: 800 rows, {}"
    )
    sizes = [f"{rows * A_STEP / 1e6:.1f} MB" for rows in (1_000, 10_000, 800)]
    assert advised(plan, "pixels", **RAW, episode_length=9, **keys) == wanted.format(*sizes)
    said = advised(plan, "pixels", **RAW, episode_length=0, **keys)
    assert said == f"capacity: 20 batches at least: 800 rows, {sizes[2]}"


def test_the_advice_on_candidates_is_what_an_update_learns_from(plan) -> None:
    one = advised(plan, "es_cartpole", population=50)
    assert re.fullmatch(
        r"capacity: an update learns from 50 candidates, which take [\d.]+ kB; more are kept to "
        "look at",
        one,
    )
    three = advised(plan, "cem_cartpole", population=50, elite_generations=3)
    assert "learns from 150 candidates" in three
    said = json.loads(plan("es_cartpole", "--json", memory_limit=16)[1])
    assert f"which take {size_of(said['bytes_full'])};" in advised(plan, "es_cartpole")


def test_with_more_environments_than_rows_nothing_is_advised(
    plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("utils.advice.ROWS", (5, 1_000))
    assert advised(plan, ROW, num_envs=3) == ""  # each needs two rows
    assert advised(plan, ROW, num_envs=2).startswith("capacity: 5 rows take ")


def test_continuous_actions_have_an_advice_of_their_own() -> None:
    env = EnvSpec({"obs": ArraySpec((3,), np.dtype(np.float32))}, ContinuousActions((-1,), (1,)))
    context = MemoryContext(env, SharedOptions(), np.random.default_rng(0))
    assert of_transitions(context, lambda rows: f"{rows * 2} B") == (
        "100,000 rows take 200000 B and 1,000,000 take 2000000 B; 1,000,000 are usual with "
        "continuous actions"
    )


def test_flags_change_the_plan(plan) -> None:
    said = json.loads(plan("pixels", "--json", **RAW, memory_limit=300)[1])
    assert (said["bytes_per_step"], said["bytes_full"]) == (A_STEP, 300 * A_STEP)
    said = json.loads(plan("pixels", "--json", **RAW, memory_bytes="1MB")[1])
    assert (said["holds"]["steps"], said["key"]) == (10**6 // A_STEP, "memory_bytes")


def test_what_is_compressed_is_a_range_around_its_forecast(plan) -> None:
    said = json.loads(plan("pixels", "--json", **LZ4, memory_limit=100_000)[1])
    assert said["bytes_full_low"] < said["bytes_full"] < said["bytes_full_high"]
    assert said["bytes_full_high"] < 100_000 * A_STEP / 10
    first = plan("pixels", **LZ4, memory_limit=100_000)[1].splitlines()[0]
    assert re.match(
        r"memory when full: about [\d.]+ MB, between [\d.]+ MB and [\d.]+ MB, in", first
    )


def test_the_same_seed_forecasts_the_same(plan) -> None:
    keys = ("bytes_full", "bytes_full_low", "bytes_full_high", "holds", "bytes_per_step")
    one, two = (json.loads(plan("pixels", "--json", **LZ4)[1]) for _ in range(2))
    assert [one[key] for key in keys] == [two[key] for key in keys]


@pytest.mark.parametrize("json_flag", [(), ("--json",)])
def test_what_does_not_fit_is_exit_2_and_one_line_of_error(plan, json_flag: tuple[str]) -> None:
    code, out, error = plan(ROW, *json_flag, memory_cap="1MB")
    assert code == 2
    assert error.count("\n") == 1
    assert re.match(
        r"engram: memory_limit takes up to 18.5 kB when full: 500 rows x 37 bytes; beside the "
        r"[\d.]+ MB of the rest of the run 0 B are usable \(memory_cap\); set --memory_cap SIZE",
        error,
    )
    if json_flag:
        said = json.loads(out)
        assert (said["fits"], said["usable_bytes"], said["max_num_envs"]) == (False, 10**6, 0)
        assert len(said["remedies"]) >= 1
    else:
        assert "1.0 MB usable (memory_cap), enough for 0 envs" in out


def test_a_cap_lowers_what_is_usable(plan) -> None:
    taken = private_bytes()
    cap = taken // 10**6 + 150
    said = json.loads(plan("pixels", "--json", **RAW, memory_cap=f"{cap}MB")[1])
    assert said["fits"] and said["usable_bytes"] == cap * 10**6
    large = plan("pixels", "--json", **RAW, memory_cap=f"{cap}MB", memory_limit=50_000)
    said = json.loads(large[1])
    assert large[0] == 2 and not said["fits"]
    assert len(said["remedies"]) == 5


def test_a_cap_raises_what_is_usable(plan, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_has(monkeypatch, 50 * 10**6)
    wanted = {"memory_limit": 50_000, **RAW}
    code, out, _ = plan("pixels", "--json", **wanted)
    said = json.loads(out)
    assert code == 2
    assert said["usable_bytes"] == pytest.approx(private_bytes() + 50 * 10**6, abs=20 * 10**6)
    code, out, error = plan("pixels", "--json", **wanted, memory_cap="100GB")
    said = json.loads(out)
    assert (code, error) == (0, "")
    assert said["fits"] and said["usable_bytes"] == 10**11


def test_each_remedy_that_a_plan_names_is_one(plan, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {"memory_limit": 50_000, "memory_cap": f"{private_bytes() // 10**6 + 150}MB"}
    said = json.loads(plan("pixels", "--json", **wanted)[1])
    for remedy in said["remedies"][:-1]:
        # what this process has taken has grown a little since
        monkeypatch.setattr("utils.planning.private_bytes", lambda: said["other_bytes"])
        keys = {**RAW, **wanted, **dict(re.findall(r"--(\w+) ([^\s)]+)", remedy))}
        code, out, error = plan("pixels", "--json", **keys)
        assert (code, error) == (0, ""), remedy
        assert json.loads(out)["holds"]["steps"] > 1_000


@pytest.mark.parametrize(
    ("words", "keys", "line"),
    [
        ([], {}, "usage: python main.py plan ROW [--json] [--key value ...]"),
        ([ROW, "pixels"], {}, "usage: python main.py plan ROW [--json] [--key value ...]"),
        (["dqn_cach"], {}, "no row 'dqn_cach' in CONFIGS; did you mean 'dqn_catch'?"),
        ([ROW], {"memory_limt": 5}, "unknown key 'memory_limt' on the command line; did you mean "
         "'memory_limit'?"),
        ([ROW], {"memory_cap": "much"}, "memory_cap = 'much' on the command line is not allowed: "
         "it takes "),
        ([ROW], {"lr": 1}, "'lr' on the command line is read by "),
        ([ROW, "--jsn"], {}, "--jsn needs a value"),
        ([ROW], {"learn_start": 501}, "learn_start 501 is never reached: with this "
         "memory_limit and num_envs 1 the memory holds at most 499 units"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_with_what_was_meant(
    plan, words: list[str], keys: dict[str, Any], line: str
) -> None:
    code, out, error = plan(*words, **keys)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert error.startswith(f"engram: {line}")


@pytest.mark.parametrize("codec", [RAW, LZ4], ids=["raw", "lz4"])
def test_too_few_memory_bytes_are_refused_with_those_needed(plan, codec: dict[str, str]) -> None:
    code, out, error = plan("pixels", **codec, window_length=4, memory_bytes="20kB")
    assert (code, out) == (2, "")
    found = re.fullmatch(
        r"engram: memory_bytes 20.0 kB is too little for 1 envs: window_length and n_step need 5 "
        r"rows of each; set --memory_bytes (\d+) or more\n",
        error,
    )
    assert found, error
    if codec == RAW:
        assert int(found[1]) == 5 * A_STEP


@pytest.mark.parametrize("codec", [RAW, LZ4], ids=["raw", "lz4"])
def test_a_run_keeps_to_the_bytes_of_its_plan(tmp_path: Path, codec: dict[str, str]) -> None:
    run = Run(tmp_path, PIXELS, **codec, memory_bytes=4_600_000, steps=1_500)
    run.go()
    memory = run.parts.memory
    assert sum(memory.usage().values()) <= 4_600_000
    if codec == RAW:
        assert memory.rows == 4_600_000 // A_STEP


def test_a_run_says_its_plan_before_its_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, CHAIN)
    first, second, third = run.parts.notes
    assert third.startswith("saved with checkpoints: ")
    assert first.startswith("memory when full: ")
    assert second.startswith("the rest of the run: ")
    logs, begin = [], Rollout.begin

    def watched(rollout: Rollout, seeds: list[int]) -> None:
        logs.append(run.log)
        begin(rollout, seeds)

    monkeypatch.setattr(Rollout, "begin", watched)
    run.go()
    assert run.display.lines[:2] == [first, second]
    for line in (first, second):
        assert line in logs[0], "told before the first reset"
        assert run.log.count(line) == 1


def test_a_run_that_does_not_fit_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CONFIGS, ROW, EMPTY)
    assert main.run([ROW, *flags(memory_cap="1MB", runs=tmp_path)]) == 2
    out, error = capsys.readouterr()
    assert out == "" and error.startswith("engram: memory_limit takes up to 18.5 kB")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="memory_cap"):
        parts_of(EMPTY, memory_cap=10**6)


def test_a_memory_that_the_disk_cannot_hold_is_refused(
    plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("utils.planning._disk_free", lambda runs: 1_000)
    code, _, error = plan(ROW)
    assert code == 2
    assert error == (
        "engram: checkpoint_memory saves up to 3.2 MB in the run's folder, and 1.0 kB are free "
        "there; set --runs FOLDER on a larger disk, or --checkpoint_memory false\n"
    )
    assert plan(ROW, checkpoint_memory="false")[0] == 0
