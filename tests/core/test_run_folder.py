import json
import math
from importlib.metadata import version
from pathlib import Path

import pytest

from core.errors import UsageError
from core.run_folder import FIRST_COLUMNS, Progress, RunFolder, versions, write_json
from tests.harness import rows_of

COLUMNS = (
    "step episodes wall_seconds steps_per_second return_mean length_mean eval_return_mean loss "
    "q_mean epsilon updates memory_len memory_bytes private_bytes "
    "sample_age sample_distinct never_drawn memory_return_mean"
)


def test_the_columns_are_those_of_every_run_then_the_agents_own(tmp_path: Path):
    assert tuple(COLUMNS.split()) == FIRST_COLUMNS
    progress = Progress(tmp_path / "p.csv", ("td_error_mean", "grad_norm"))
    progress.close()
    head = (tmp_path / "p.csv").read_text().strip()
    assert head == ",".join(COLUMNS.split()) + ",td_error_mean,grad_norm"


def test_rows_are_there_as_soon_as_they_are_written(tmp_path: Path):
    progress = Progress(tmp_path / "p.csv", ("own",))
    progress.append({"step": 5, "loss": 1 / 3, "own": None, "epsilon": 1.0, "updates": 10**12})
    (row,) = rows_of(tmp_path / "p.csv")
    assert row["step"] == "5" and row["own"] == "" and row["return_mean"] == ""
    assert row["loss"] == "0.33333333" and row["epsilon"] == "1" and row["updates"] == str(10**12)
    with pytest.raises(KeyError, match="no column"):
        progress.append({"step": 6, "lost": 1})
    assert len(rows_of(tmp_path / "p.csv")) == 1
    progress.close()


def test_a_folder_is_named_after_row_time_and_seed(tmp_path: Path):
    folder = RunFolder.create(tmp_path / "deep" / "runs", "my_row", 7)
    row, day, clock, seed = folder.path.name.split("-")
    assert (row, seed) == ("my_row", "s7") and len(day) == 8 and len(clock) == 6
    assert folder.live.is_dir() and folder.checkpoints.is_dir()


def test_runs_of_one_second_get_folders_of_their_own(tmp_path: Path):
    folders = [RunFolder.create(tmp_path, "row", 1) for _ in range(5)]
    assert len({folder.path for folder in folders}) == 5
    assert len(list(tmp_path.iterdir())) == 5


def test_a_place_that_is_no_folder_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    for runs in (tmp_path / "file", tmp_path / "file" / "runs", Path("/proc/runs")):
        with pytest.raises(UsageError, match=f"runs '{runs}' cannot hold a run: "):
            RunFolder.create(runs, "row", 1)


def test_a_run_is_found_by_path_and_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = RunFolder.create(tmp_path, "row", 1)
    made.write_config("row", {"steps": 5, "hidden_sizes": (4, 4)})
    for name in (str(made.path), made.path.name):
        assert RunFolder.find(tmp_path, name).path == made.path
    assert made.config() == {"row": "row", "options": {"steps": 5, "hidden_sizes": [4, 4]}}
    with pytest.raises(UsageError, match=f"no run 'rwo-1'.*'{made.path.name}'|choose from"):
        RunFolder.find(tmp_path, "rwo-1")


def test_the_versions_of_what_can_change_a_result_are_written(tmp_path: Path):
    folder = RunFolder.create(tmp_path, "row", 1)
    folder.write_config("row", {})
    written = json.loads((folder.path / "versions.json").read_text())
    assert written == versions()
    assert written["torch"] == version("torch") and written["python"].startswith("3.")
    assert {"numpy", "gymnasium", "machine"} <= set(written)


def test_json_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.json"
    write_json(path, {"old": 1})

    class Unwritable:
        pass

    with pytest.raises(TypeError):
        write_json(path, {"new": Unwritable()})
    assert json.loads(path.read_text()) == {"old": 1}
    write_json(path, {"new": 2})
    assert json.loads(path.read_text()) == {"new": 2}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]

    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("gone")))
    with pytest.raises(OSError, match="gone"):
        write_json(path, {"newer": 3})
    assert json.loads(path.read_text()) == {"new": 2}


def test_what_json_cannot_say_becomes_null(tmp_path: Path):
    content = {"a": math.nan, "b": {"c": [math.inf, 1.5, (2, -math.inf)]}, "d": "NaN"}
    write_json(tmp_path / "a.json", content)
    text = (tmp_path / "a.json").read_text()
    strict = json.loads(text, parse_constant=pytest.fail)
    assert strict == {"a": None, "b": {"c": [None, 1.5, [2, None]]}, "d": "NaN"}


def test_the_log_is_the_runs_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folders = [RunFolder.create(tmp_path, "row", 1) for _ in range(2)]
    loggers = [folder.logger() for folder in folders]
    for number, logger in enumerate(loggers):
        logger.info(f"line {number}")
        logger.handlers[0].close()
    texts = [(folder.path / "log.txt").read_text() for folder in folders]
    assert texts[0].endswith(" line 0\n") and texts[1].endswith(" line 1\n")
    assert texts[0].count("\n") == 1
    assert capsys.readouterr() == ("", "")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # open as it died
def test_a_kill_while_a_run_is_taken_up_loses_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "progress.csv"
    first = Progress(path)
    for step in (10, 20, 30):
        first.append({"step": step})
    first.close()
    before = rows_of(path)

    def killed(self: Progress, cells: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Progress, "_write", killed)
        Progress(path, until=20)
    assert len(before) == 3
    assert rows_of(path) == before
