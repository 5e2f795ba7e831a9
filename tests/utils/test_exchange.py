"""`export RUN` and `import FILE ROW`: a memory out of a run, and a run begun with it."""

import json
import os
import re
import signal
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import main
from core.checkpoint import Checkpoints
from core.errors import RunFailedError
from core.exchange.episodes import RingEpisodes
from core.exchange.files import open_episodes
from core.exchange.sums import Summed, Sums
from core.memory_log import MemoryLog
from core.run_folder import write_json
from tests.core.exchange.lives import DATA
from tests.harness import (
    CHAIN,
    COUNTER,
    EMPTY,
    Run,
    cli,
    flags,
    never,
    only_folder,
    parts_of,
    rows_of,
    start_cli,
)
from utils.options import CONFIGS

pytestmark = DATA
FAST: dict[str, Any] = {"visdom": "off", "eval_freq": 0, "log_freq": 100, "checkpoint_freq": 0,
                        "eval_limit": 50}  # fmt: skip
ROWS: dict[str, dict[str, Any]] = {
    "chain": {**CHAIN, "num_envs": 3, "memory_limit": 90},
    "pixels": {**COUNTER, "observation": "pixels", "size": 20, "num_envs": 2, "window_length": 3,
               "model_type": "dqn-mlp", "ending": "truncate", "memory_limit": 100},
    "cartpole": {**CONFIGS["dqn_cartpole"], **FAST, "steps": 600, "learn_start": 100},
    "catch": {**CONFIGS["dqn_catch"], **FAST, "steps": 600, "learn_start": 100,
              "memory_limit": 400},
    "disk": {**COUNTER, "observation": "pixels", "size": 20, "num_envs": 2, "window_length": 3,
             "memory_limit": 100, "storage": "disk", "disk_tmpfs": True},
    "acer": {**CONFIGS["acer_cartpole"], **FAST, "steps": 1_600, "replay_start": 200},
    "es": {**CONFIGS["es_cartpole"], **FAST, "steps": 400},
    "empty": EMPTY,
}  # fmt: skip


@pytest.fixture(autouse=True)
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, row in ROWS.items():
        monkeypatch.setitem(CONFIGS, name, row)


@pytest.fixture
def verb(capsys: pytest.CaptureFixture[str]):
    """Calls a verb; gives the exit code, and what was printed to stdout and to stderr."""

    def call(*words: object, **keys: Any) -> tuple[int, str, str]:
        code = main.run([*map(str, words), *flags(**keys)])
        return code, *capsys.readouterr()

    return call


def refused(result: tuple[int, str, str], code: int = 2) -> str:
    """The one line of a refusal."""
    assert (result[0], result[1]) == (code, "")
    assert result[2].startswith("engram: ") and result[2].count("\n") == 1
    return result[2].removeprefix("engram: ").rstrip()


def sums_of(path: Path) -> Sums:
    with closing(open_episodes(path)) as file:
        return Summed(file).sums()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Trained:
    """A finished run of a row, and the file that it was exported to."""

    def __init__(self, runs: Path, row: str, verb, to: str = "hdf5", **keys: Any) -> None:
        self.run = Run(runs, ROWS[row], **keys).go()
        self.path = self.run.folder.path / f"memory.{to}"
        code, self.out, error = verb("export", self.run.folder.path, to=to)
        assert (code, error) == (0, "")


@pytest.mark.parametrize("to", ["hdf5", "minari"])
@pytest.mark.parametrize("row", ["chain", "pixels", "cartpole", "catch", "acer"])
def test_a_run_begun_with_an_export_holds_the_same_and_trains_on(
    tmp_path: Path, verb, row: str, to: str
) -> None:
    done = Trained(tmp_path / "first", row, verb, to)
    code, out, error = verb("import", done.path, row, runs=tmp_path / "second")
    assert (code, error) == (0, "")
    folder = only_folder(tmp_path / "second")
    counted = re.findall(r"([\d,]+ episodes, [\d,]+ steps)", out)
    assert len(counted) == 2 and counted[0] == counted[1]
    assert f"{folder}: {counted[0]} taken from {done.path}; the memory holds " in out
    # what is exported again is what was exported
    assert verb("export", folder, to=to)[0] == 0
    assert sums_of(folder / f"memory.{to}").content == sums_of(done.path).content
    # and it goes on from there
    assert Checkpoints(folder / "checkpoints").load("last", never)["step"] == 0
    assert verb("resume", folder)[0] == 0
    assert int(rows_of(folder / "progress.csv")[-1]["step"]) >= ROWS[row]["steps"]
    result = json.loads((folder / "result.json").read_text())
    assert result["status"] == "finished" and result["updates"] > 0


def test_a_memory_on_disk_is_filled_too(tmp_path: Path, verb) -> None:
    done = Trained(tmp_path / "first", "pixels", verb)
    assert verb("import", done.path, "disk", runs=tmp_path / "second")[0] == 0
    folder = only_folder(tmp_path / "second")
    for _ in range(2):  # an export changes nothing
        assert verb("export", folder, "--overwrite", to="hdf5")[0] == 0
        assert sums_of(folder / "memory.hdf5").content == sums_of(done.path).content
    assert verb("resume", folder)[0] == 0
    assert verb("export", folder, "--overwrite", to="hdf5")[0] == 0
    assert sums_of(folder / "memory.hdf5").content != sums_of(done.path).content
    done.path.write_bytes(done.path.read_bytes()[:-1])
    refused(verb("import", done.path, "disk", runs=tmp_path / "third"), 1)
    assert not (tmp_path / "third").exists()


def test_what_was_imported_is_learnt_from_at_once(tmp_path: Path, verb) -> None:
    done = Trained(tmp_path, "cartpole", verb)
    assert verb("import", done.path, "cartpole", runs=tmp_path / "second", steps=300)[0] == 0
    folder = only_folder(tmp_path / "second")
    assert verb("resume", folder)[0] == 0
    first = rows_of(folder / "progress.csv")[0]
    fresh = rows_of(done.run.folder.progress)[0]
    assert int(first["step"]) == int(fresh["step"]) == 100
    assert int(first["memory_len"]) > 600 > int(fresh["memory_len"])


def test_an_export_is_one_line(tmp_path: Path, verb) -> None:
    done = Trained(tmp_path, "chain", verb)
    content = sums_of(done.path).content
    line = rf"{re.escape(str(done.path))}: \d+ episodes, \d+ steps, read again and the same; "
    assert re.fullmatch(rf"{line}content {content}\n", done.out)


def test_a_smaller_memory_says_what_it_still_holds(tmp_path: Path, verb) -> None:
    done = Trained(tmp_path, "pixels", verb)
    code, out, _ = verb(
        "import", done.path, "pixels", runs=tmp_path / "second", memory_limit=40, learn_start=10
    )
    assert code == 0
    # 50 rows a lane, of which each seven steps end an episode; and then 20
    taken, held = re.findall(r"(\d+) episodes, (\d+) steps", out)
    assert int(taken[1]) > 80 and int(held[1]) <= 40
    assert int(held[0]) >= 2


def test_episodes_without_a_lane_to_begin_are_said_to_be_left_out(tmp_path: Path, verb) -> None:
    endless = {"episode_length": 0, "eval_freq": 0, "eval_limit": 10}
    done = Trained(tmp_path, "pixels", verb, **endless)
    keys = {**endless, "num_envs": 1, "runs": tmp_path / "second"}
    code, out, _ = verb("import", done.path, "pixels", **keys)
    assert code == 0
    assert "2 episodes, 98 steps taken from" in out
    assert ", but for 1 episodes, 49 steps that lost their first rows and would each" in out
    assert "the memory holds 1 episodes, 49 steps" in out


def test_a_run_killed_as_it_saved_is_exported_as_its_checkpoint_has_it(
    tmp_path: Path, verb
) -> None:
    done = Trained(tmp_path, "chain", verb)
    memory = parts_of(ROWS["chain"]).memory
    with closing(MemoryLog(memory, done.run.folder.replay)) as log:
        assert log.load(never_said) is not None
        memory.writer().start({"obs": np.zeros((3, 5), np.float32)})
        log.commit({"step": 10_000})  # and no checkpoint
    content = sums_of(done.path).content
    assert Summed(RingEpisodes(memory.ring, done.run.parts.env.spec)).sums().content != content
    assert verb("export", done.run.folder.path, "--overwrite", to="hdf5")[0] == 0
    assert sums_of(done.path).content == content


def never_said(line: str) -> None:
    raise AssertionError(line)


def test_out_and_overwrite(tmp_path: Path, verb) -> None:
    done = Trained(tmp_path, "chain", verb)
    run, path = done.run.folder.path, tmp_path / "deep" / "data.h5"
    assert verb("export", run, to="hdf5", out=path)[0] == 0
    assert sums_of(path) == sums_of(done.path)
    line = refused(verb("export", run, to="hdf5", out=path))
    assert line == f"'{path}' is there already: set --out, or --overwrite"
    assert verb("export", run, "--overwrite", to="hdf5", out=path)[0] == 0
    assert verb("export", run.name, to="minari", runs=run.parent)[0] == 0
    assert names(path.parent) == ["data.h5"]


@pytest.mark.parametrize(
    ("words", "keys", "line"),
    [
        ([], {"to": "hdf5"}, "usage: python main.py export RUN --to minari|hdf5 [--out PATH] "
         "[--overwrite] [--runs FOLDER]"),
        (["x"], {}, "'to' is missing on the command line: it takes one of minari, hdf5"),
        (["x"], {"to": "csv"}, "to = 'csv' on the command line is not allowed: it takes one of "
         "minari, hdf5"),
        (["x"], {"to": "hdf5", "steps": 1}, "unknown key 'steps' on the command line"),
        (["nowhere"], {"to": "hdf5"}, "no run 'nowhere'"),
    ],
)  # fmt: skip
def test_an_export_of_nothing_is_one_line(
    tmp_path: Path, verb, words: list[str], keys: dict[str, Any], line: str
) -> None:
    assert refused(verb("export", *words, **keys, runs=tmp_path)).startswith(line)


def test_a_run_without_steps_in_its_memory_is_refused(tmp_path: Path, verb) -> None:
    run = Run(tmp_path, ROWS["es"]).go()
    line = refused(verb("export", run.folder.path, to="hdf5"))
    assert line == (
        f"the memory of run '{run.folder.path.name}', 'episode-parameter', keeps no steps of "
        "episodes"
    )


def test_a_run_that_did_not_save_its_memory_is_refused(tmp_path: Path, verb) -> None:
    run = Run(tmp_path, CHAIN, checkpoint_memory=False).go()
    line = refused(verb("export", run.folder.path, to="hdf5"))
    assert line.endswith("did not save its memory, so that there is none to export")
    assert "replay" not in names(run.folder.path)


def test_a_run_that_goes_on_is_refused(tmp_path: Path, verb) -> None:
    run = Run(tmp_path, CHAIN).go()
    status = {**run.status, "state": "running", "pid": os.getpid()}
    write_json(run.folder.live / "status.json", status)
    line = refused(verb("export", run.folder.path, to="hdf5"))
    assert f"is still running, as process {os.getpid()}: stop it first" in line
    # the same number of a process that began after the run's last word
    os.utime(run.folder.live / "status.json", (1, 1))
    assert verb("export", run.folder.path, to="hdf5")[0] == 0


@pytest.mark.parametrize("to", ["hdf5", "minari"])
def test_a_killed_export_leaves_nothing_that_looks_whole(tmp_path: Path, verb, to: str) -> None:
    run = Run(
        tmp_path, ROWS["chain"], memory_limit=9_000, steps=2_500, learn_start=2_500, eval_freq=0
    ).go()
    folder, path = run.folder.path, run.folder.path / f"memory.{to}"
    child = start_cli("export", str(folder), "--to", to)
    end = time.monotonic() + 60
    while not list(folder.glob(".memory*")) and child.poll() is None and time.monotonic() < end:
        time.sleep(0.002)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    assert child.returncode == -signal.SIGKILL, "it was too fast to be killed"
    assert not path.exists()
    assert verb("export", folder, to=to)[0] == 0
    sums_of(path)


FIELDS = (
    "obs is float32[5] there and uint8[20, 20] here; "
    "action is Discrete(2) there and Discrete(3) here"
)


def test_data_of_another_space_is_refused_field_by_field(tmp_path: Path, verb) -> None:
    done = Trained(tmp_path / "first", "chain", verb)
    line = refused(verb("import", done.path, "pixels", runs=tmp_path / "second"))
    assert line == f"'{done.path}' does not fit row 'pixels': {FIELDS}"
    assert not (tmp_path / "second").exists()


def test_extras_are_part_of_the_space(tmp_path: Path, verb) -> None:
    done = Trained(tmp_path / "first", "acer", verb)
    line = refused(verb("import", done.path, "cartpole", runs=tmp_path / "second"))
    assert re.search(r"does not fit row 'cartpole': \w+ is float32\[2\] there and missing", line)


def test_a_damaged_file_begins_no_run(tmp_path: Path, verb) -> None:
    done = Trained(tmp_path / "first", "chain", verb)
    content = done.path.read_bytes()
    done.path.write_bytes(content[: len(content) // 2])
    line = refused(verb("import", done.path, "chain", runs=tmp_path / "second"), 1)
    assert line.startswith(f"'{done.path}' is damaged: ")
    assert not (tmp_path / "second").exists()


def test_a_changed_number_begins_no_run(tmp_path: Path, verb) -> None:
    import h5py

    done = Trained(tmp_path / "first", "chain", verb)
    with h5py.File(done.path, "a") as file:
        file["steps/reward"][5] += 1
    line = refused(verb("import", done.path, "chain", runs=tmp_path / "second"), 1)
    assert line == f"'{done.path}' is damaged: its sums are not those of what was written"
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize(
    ("words", "keys", "line"),
    [
        (["data.h5"], {}, "usage: python main.py import FILE ROW [--key value ...]"),
        (["data.h5", "chian"], {}, "no row 'chian' in CONFIGS; did you mean 'chain'?"),
        (["data.h5", "chain"], {"lrr": 1}, "unknown key 'lrr' on the command line"),
        (["data.h5", "chain"], {}, "no file 'data.h5'"),
        (["main.py", "chain"], {}, "'main.py' is no export of episodes"),
        (["data.h5", "es"], {}, "the memory of row 'es', 'episode-parameter', keeps no steps"),
        (["data.h5", "chain"], {"checkpoint_memory": "false"}, "checkpoint_memory false would"),
    ],
)
def test_an_import_of_nothing_is_one_line(
    tmp_path: Path, verb, words: list[str], keys: dict[str, Any], line: str
) -> None:
    assert refused(verb("import", *words, **keys, runs=tmp_path / "runs")).startswith(line)
    assert not (tmp_path / "runs").exists()


def test_an_import_that_fails_leaves_no_run(
    tmp_path: Path, verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = Trained(tmp_path / "first", "chain", verb)

    def full(*_: object) -> None:
        raise RunFailedError("the disk takes no more")

    monkeypatch.setattr("core.runtime.serial.save", full)
    code, _, error = verb("import", done.path, "chain", runs=tmp_path / "second")
    assert (code, error) == (1, "engram: the disk takes no more\n")
    assert names(tmp_path / "second") == []


@pytest.mark.parametrize("words", [["export", "x", "--to", "minari"], ["import", "runs", "chain"]])
def test_a_missing_package_is_one_line(
    verb, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    run = Run(tmp_path, CHAIN)  # a folder that is found, and that looks like a dataset
    words = [{"x": run.folder.path, "runs": run.folder.path}.get(word, word) for word in words]
    line = refused(verb(*words))
    assert line == "an export needs the package 'minari': pip install -r requirements-data.txt"


def test_help_of_the_verbs(verb) -> None:
    code, out, _ = verb("export", "--help")
    assert code == 0
    assert out.startswith("python main.py export RUN [--key value ...]\n")
    assert all(f"  --{key}  " in out for key in ("to", "out", "overwrite", "runs"))
    assert verb("import", "data.h5", "chain", "--help")[1] == verb("chain", "--help")[1]


def test_in_processes_of_their_own(tmp_path: Path) -> None:
    keys = flags(**FAST, runs=tmp_path, steps=500, learn_start=100)
    assert cli("dqn_cartpole", *keys).returncode == 0
    folder = only_folder(tmp_path)
    done = cli("export", str(folder), "--to", "minari")
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    runs = tmp_path / "second"
    keys = flags(runs=runs, learn_start=100)
    done = cli("import", str(folder / "memory.minari"), "dqn_cartpole", *keys)
    assert (done.returncode, done.stderr) == (0, "")
    again = only_folder(runs)
    assert done.stdout.endswith(f"it begins with: python main.py resume {again}\n")
    done = cli("resume", str(again), *flags(visdom="off", steps=300, eval_freq=0))
    assert done.returncode == 0, done.stderr
    assert "going on from step 0" in done.stdout
