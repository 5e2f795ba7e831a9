"""The sampling benchmark: workers are told apart, ratios are of one round, what fails is named."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from benchmarks import sample_ours, sampling, workers
from benchmarks.peers import serve
from benchmarks.peers.run import HERE
from benchmarks.sampling import GROUPS, OURS, Figure, Found, Group, Side
from benchmarks.workers import Worker, WorkerError

from .test_memory import recording

WORKS = {"uniform", "input", "prioritized", "take", "windows", "still", "sampled", "ahead"}


def pairs(tape: Any, rows: list[int], stack: int = 4) -> serve.Pair:
    """Units as they have to be: stacks of a recording's rows, and of the rows after them."""

    def stacked(row: int) -> np.ndarray:
        first = row
        while first and not tape.closing[first - 1]:
            first -= 1
        return tape.frames[[max(row - back, first) for back in range(stack)][::-1]]

    return tuple(np.stack([stacked(row + after) for row in rows]) for after in (0, 1))


@pytest.fixture(name="tape")
def _tape():
    return recording((30, 50, 40))


def test_units_of_the_recording_pass(tape):
    rows = np.flatnonzero(~tape.closing).tolist()
    serve.check(tape, pairs(tape, rows[:40]))
    serve.check(tape, pairs(tape, rows[-40:]))
    flat = SimpleNamespace(**serve.vectors())
    serve.check(flat, pairs(flat, [0, 5, 998, 999, 1_001], stack=1))


def test_an_observation_that_was_never_written_is_seen(tape):
    obs, next_obs = pairs(tape, list(range(20)))
    obs[7, -1, 3, 3] ^= 1
    with pytest.raises(RuntimeError, match="never written"):
        serve.check(tape, (obs, next_obs))


@pytest.mark.parametrize("wrong", ["reversed", "successors"])
def test_units_that_are_put_together_wrongly_are_seen(tape, wrong: str):
    obs, next_obs = pairs(tape, list(range(1, 29)))
    if wrong == "reversed":  # of stacks; the newest frame has to be the last
        obs = np.concatenate([obs[:, -2::-1], obs[:, -1:]], axis=1)
    else:
        next_obs = np.roll(next_obs, 1, axis=0)
    with pytest.raises(RuntimeError, match="units are as they were written"):
        serve.check(tape, (obs, next_obs))


def test_a_few_successors_may_be_wrong(tape):
    obs, next_obs = pairs(tape, list(range(20)))
    next_obs[:2] = 0
    serve.check(tape, (obs, next_obs))
    next_obs[2] = 0
    with pytest.raises(RuntimeError, match="only 17 of 20"):
        serve.check(tape, (obs, next_obs))


@pytest.mark.parametrize("change", [lambda x: x.astype(np.float32), lambda x: x[..., :8]])
def test_units_of_another_kind_are_seen(tape, change):
    with pytest.raises(RuntimeError, match="not uint8"):
        serve.check(tape, tuple(map(change, pairs(tape, [1, 2, 3]))))


def test_blocks_are_transitions_over_and_over():
    tape = SimpleNamespace(**serve.vectors())
    found = list(serve.blocks(tape, 45_000, 7_000))
    assert [len(block["obs"]) for block in found] == [7_000] * 6 + [3_000]
    whole = {name: np.concatenate([block[name] for block in found]) for name in found[0]}
    for at in (0, 999, 1_000, 20_000, 44_999):
        row = at % 20_000 // 1_000 * 1_001 + at % 1_000
        assert np.array_equal(whole["obs"][at], tape.frames[row])
        assert np.array_equal(whole["next_obs"][at], tape.frames[row + 1])
        assert whole["over"][at] == (at % 1_000 == 999)
        assert whole["terminated"][at] == (at % 2_000 == 999)


def test_calls_are_counted_and_timed_apart_from_the_warming_up(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    fake = SimpleNamespace(process_time=lambda: clock.now, perf_counter=lambda: 2 * clock.now)
    monkeypatch.setattr(serve, "time", fake)

    def work() -> None:
        clock.now += 0.25

    calls, cpu, wall = serve.measured(work, 4.0)  # a second warms up: four calls
    assert (calls, cpu, wall) == (12, 3.0, 6.0)
    assert serve.measured(work, 0.0) == (3, 0.75, 1.5)


def test_a_worker_answers_line_by_line(monkeypatch, capsys, tape):
    def broken(size: int) -> serve.Work:
        raise KeyError("next")

    works = {"uniform": lambda size: lambda: size, "input": broken}
    reads = serve.Reads(works, lambda size: pairs(tape, list(range(size))[:29]), length=20)
    asked = json.dumps({"loop": "uniform 16", "seconds": 0.001}) + "\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(asked * 2))
    serve.serve("numpy", tape, reads, {"loops": ["uniform 16", "input 32"]})
    first, *answers = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["ready"] is True
    assert (first["version"], first["loops"]) == (np.__version__, ["uniform 16"])
    assert first["failed"] == {"input 32": "KeyError: 'next'"}
    assert len(answers) == 2
    assert all(one["units"] % 320 == 0 and one["cpu"] > 0 < one["wall"] for one in answers)


def script(folder: Path, text: str) -> list[str]:
    path = folder / "worker.py"
    path.write_text(f"import json, sys\n{text}")
    return [sys.executable, str(path)]


ECHO = """
print("a library says hello")
print(json.dumps({"given": json.loads(sys.argv[1])}), flush=True)
for line in sys.stdin:
    print(json.dumps({"asked": json.loads(line)}), flush=True)
"""


def test_a_worker_is_told_and_asked(tmp_path: Path):
    worker = Worker(script(tmp_path, ECHO), {"count": 3})
    try:
        assert worker.ready() == {"given": {"count": 3}}
        for loop in ("uniform 32", "input 32"):
            assert worker.ask(loop, 0.5) == {"asked": {"loop": loop, "seconds": 0.5}}
    finally:
        worker.close()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise ValueError('no room')", "exit code 1: ValueError: no room"),
        ("sys.exit(3)", "exit code 3: no word of why"),
    ],
)
def test_a_worker_that_ends_says_why(tmp_path: Path, text: str, why: str):
    worker = Worker(script(tmp_path, text), {})
    try:
        with pytest.raises(WorkerError, match=why):
            worker.ready()
        with pytest.raises(WorkerError, match=why):
            worker.ask("uniform 32", 0.1)
    finally:
        worker.close()


def test_a_worker_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(workers, "FILLING", 0.2)
    worker = Worker(script(tmp_path, "import time; time.sleep(60)"), {})
    try:
        with pytest.raises(WorkerError, match=r"more than 0\.2 s"):
            worker.ready()
    finally:
        worker.close()


def test_a_peer_that_is_not_installed_has_no_command(monkeypatch):
    monkeypatch.setattr(workers, "installed", lambda peer: peer == "sb3")
    assert workers.command("sb3")[-1].endswith("sample_sb3.py")
    with pytest.raises(WorkerError, match="make bench-setup"):
        workers.command("cpprb")


@pytest.mark.parametrize("name", GROUPS)
def test_what_is_measured_is_there(name: str):
    group = GROUPS[name]
    assert all((HERE / f"sample_{peer}.py").exists() for peer, _ in group.peers)
    loops = (*group.loops, *group.own)
    assert {loop.split()[0] for loop in loops} <= WORKS
    assert all(bars.keys() <= set(group.loops) for bars in group.ours.values())
    assert len(set(group.sides())) == len(list(group.sides()))
    small = group.smaller()
    assert (small.count * 10, small.loops, small.ours) == (group.count, group.loops, group.ours)


class Scripted:
    """In place of a worker: rates by who and loop, that grow threefold from round to round."""

    rates: ClassVar[dict[str, float]] = {}
    dies: ClassVar[str] = ""

    def __init__(self, words: list[str], given: dict[str, Any]) -> None:
        self._who, self._given, self._asked = words[0], given, 0

    def ready(self) -> dict[str, Any]:
        return {"version": "1.0", "loops": list(self._given["loops"]), "failed": {}}

    def ask(self, loop: str, seconds: float) -> dict[str, Any]:
        self._asked += 1
        if self._who == self.dies and self._asked == 2:
            raise WorkerError("exit code 1: it broke")
        units = self.rates[self._who] * 3.0**self._asked * seconds
        return {"units": units, "cpu": seconds, "wall": 2 * seconds}

    def close(self) -> None:
        pass


@pytest.fixture(name="scripted")
def _scripted(monkeypatch):
    """Two peers and ours, in place of the groups; gives what can be changed."""
    group = Group("vectors", 9, ("uniform 256",), {"uniform": {"uniform 256": 1.5}},
                  (("fast", "x"), ("slow", "y")))  # fmt: skip
    monkeypatch.setattr(sampling, "GROUPS", {"small": group})
    monkeypatch.setattr(sampling, "Worker", Scripted)
    monkeypatch.setattr(sampling, "command", lambda who: [who])
    monkeypatch.setattr(Scripted, "rates", {OURS: 300.0, "fast": 200.0, "slow": 20.0})
    monkeypatch.setattr(Scripted, "dies", "")
    return Scripted


@pytest.mark.parametrize(("ours", "code"), [(300.0, 0), (299.0, 1)])
def test_the_ratio_is_to_the_fastest_peer_within_rounds(scripted, tmp_path, ours, code):
    scripted.rates[OURS] = ours
    place = tmp_path / "rows.json"
    assert sampling.main(["--rounds", "3", "--json", str(place)]) == code
    rows = {row["name"]: row for row in json.loads(place.read_text())}
    assert rows["small: fast x, uniform 256, units/s"]["value"] == 1_800  # of the second round
    ratio = rows["small: ours uniform / fast x, uniform 256"]
    assert ratio["value"] == pytest.approx(ours / 200)
    assert (ratio["target"], ratio["ok"], ratio["count"]) == (1.5, code == 0, 9)
    assert not any("slow y," in name and "ours" in name for name in rows)


def test_a_peer_that_breaks_is_named_and_left_out(scripted, capsys, tmp_path):
    scripted.dies = "fast"
    place = tmp_path / "rows.json"
    assert sampling.main(["--rounds", "3", "--json", str(place)]) == 0
    assert "small: left out: fast x: exit code 1: it broke" in capsys.readouterr().out
    rows = {row["name"]: row for row in json.loads(place.read_text())}
    assert rows["small: fast x"]["left_out"] == "exit code 1: it broke"
    assert rows["small: ours uniform / slow y, uniform 256"]["value"] == pytest.approx(15)
    assert not any("fast x," in name for name in rows)


def test_ours_that_breaks_is_an_error(scripted, capsys):
    scripted.dies = OURS
    assert sampling.main(["--rounds", "3"]) == 1
    assert "ours uniform: exit code 1: it broke" in capsys.readouterr().err


def test_without_peers_there_is_no_ratio(scripted, monkeypatch, capsys):
    def command(who: str) -> list[str]:
        if who != OURS:
            raise WorkerError("it is not installed: make bench-setup")
        return [who]

    monkeypatch.setattr(sampling, "command", command)
    assert sampling.main(["--rounds", "1"]) == 0
    out = capsys.readouterr().out
    assert "small: left out: slow y: it is not installed: make bench-setup" in out
    assert "0 of 0 bars met" in out


def update_found(sampled: float, ahead: float) -> Found:
    side: Side = (OURS, "dqn_pong")
    rates = {"still 1": (100.0, 100.0), "sampled 1": (sampled, 1.0), "ahead 1": (1.0, ahead)}
    return Found({(side, loop): [Figure(*one)] for loop, one in rates.items()}, {OURS: ""})


@pytest.mark.parametrize(
    ("sampled", "ahead", "missed"),
    [(96, 99.5, []), (95, 99.5, [0]), (96, 98.5, [1]), (104, 104, [])],
)
def test_what_sampling_adds_has_its_bars(sampled: float, ahead: float, missed: list[int]):
    found = update_found(sampled, ahead)
    *_, first, second = sampling.rows_of("update", GROUPS["update"], found)
    assert first["value"] == pytest.approx(100 * (100 / sampled - 1))
    assert second["value"] == pytest.approx(100 * (100 / ahead - 1))
    assert [at for at, one in enumerate((first, second)) if not one["ok"]] == missed


def test_a_missing_recording_is_one_line_and_exit_code_2(monkeypatch, tmp_path: Path, capsys):
    load = sampling.Recording.load
    monkeypatch.setattr(sampling.Recording, "load", lambda game: load(game, tmp_path))
    assert sampling.main(["--only", "raw"]) == 2
    assert capsys.readouterr().err.startswith("there is no recording of seaquest; make one with")


def given(what: str, mode: str, **more: Any) -> dict[str, Any]:
    return {"what": what, "mode": mode, "count": 100, "folder": "pong", "length": 1} | more


@pytest.mark.parametrize("mode", ["raw", "lz4", "zstd", "lz4 disk", "raw prioritized"])
def test_our_pictures_are_full_and_true(mode: str, tape, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(sample_ours, "preview_of", lambda game: tape.frames)
    store = sample_ours.pictures(given("pictures", mode), tape, tmp_path)
    assert store.full
    assert store.takes_feedback == ("prioritized" in mode)
    serve.check(tape, sample_ours.look(store, 64))
    if mode == "raw":
        obs, next_obs = sample_ours.to_input(store, 8)()
        assert obs.shape == next_obs.shape == (8, 4, 16, 16)
        assert obs.dtype == torch.float32
        assert 0.5 < float(obs.max()) <= 1
        assert sample_ours.take(store, 8)().shape == (8, 5, 16, 16)


def test_our_windows_are_full_and_true(tape):
    store = sample_ours.windows(given("windows", "lz4", length=20), tape)
    assert len(store) > 30
    serve.check(tape, sample_ours.look_through(store, 64))


@pytest.mark.parametrize("sampler", ["uniform", "prioritized"])
def test_our_vectors_are_full_and_true(sampler: str):
    tape = sampling.Recording(**serve.vectors(), meta={})
    reads = sample_ours.reads_of(given("vectors", sampler, count=3_000), tape, Path())
    obs, next_obs = reads.look(64)
    assert obs.shape == next_obs.shape == (64, 1, 17)
    serve.check(tape, (obs, next_obs))
    assert len(reads.works["uniform"](256)()["id"]) == 256


def test_told_errors_change_what_is_drawn():
    tape = sampling.Recording(**serve.vectors(), meta={})
    store = sample_ours.flat(given("vectors", "prioritized", count=3_000), tape)
    before = store.sample(512)["weight"]
    sample_ours.told(store, 512)()
    after = store.sample(512)["weight"]
    assert np.ptp(before) == 0 < np.ptp(after)


def test_one_batch_for_ever_is_one_batch():
    batch = {"id": np.arange(3)}
    still = sample_ours.Same(batch)
    assert still.sample(3) is still.sample(5) is batch
    assert not still.takes_feedback
