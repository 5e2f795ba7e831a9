"""The memory benchmark: what is written comes back, and a target that is missed is seen."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks import fill, memory, memory_peers
from benchmarks.memory import (
    ATARI,
    AVERAGE,
    BUSIEST,
    DEFAULT,
    FULL,
    GAMES,
    MB,
    QUICK,
    SETTINGS,
    Peer,
    Row,
)
from benchmarks.recordings import Recording
from core.errors import UsageError
from core.memories.sequential import SequentialMemory, SequentialOptions
from core.sampling.uniform import Draw, all_starts
from core.types import ContinuousActions, DiscreteActions

LENGTHS = (1, 2, 30, 7, 90, 3, 60)
N = sum(LENGTHS) + len(LENGTHS)


def recording(lengths=LENGTHS, continuous: bool = False) -> Recording:
    """Noise over a still picture; every other episode is cut, the others terminate."""
    rng = np.random.default_rng(0)
    closing = np.concatenate([np.arange(length + 1) == length for length in lengths])
    count = len(closing)
    frames = np.repeat(rng.integers(0, 256, (1, 16, 16), np.uint8), count, 0)
    frames[:, 3:6] = rng.integers(0, 256, (count, 3, 16), np.uint8)
    last = np.append(closing[1:], False)
    shape = (count, 3) if continuous else (count,)
    action = rng.uniform(-1, 1, shape) if continuous else rng.integers(0, 6, shape)
    episode = np.cumsum(closing) - closing
    return Recording(
        frames=frames,
        action=action.astype(np.float32 if continuous else np.int64),
        reward=np.where(closing, 0, rng.integers(-2, 3, count)).astype(np.float32),
        terminated=last & (episode % 2 == 0),
        closing=closing,
        meta={},
    )


def played(closing: list[bool], begin: int) -> Iterator[tuple[int, bool]]:
    """Rows of a recording that a lane writes, one after the other, and which begin an episode."""
    row, first = begin, True
    while True:
        yield row, first
        row, first = (row + 1) % len(closing), closing[row]


def check_held(store: SequentialMemory, tape: Recording, lane: int, begin: int) -> int:
    """Compares every transition of a lane with the recording; gives how many there are."""
    lanes, rows = all_starts(store.starts)
    mine = rows[lanes == lane]
    draw = Draw(np.full(len(mine), lane), mine, np.ones(len(mine), np.float32))
    batch = store.reader.read(draw)
    closing = tape.closing.tolist()
    walk = [row for row, _ in zip(played(closing, begin), range(mine[-1] + 2), strict=False)]
    for i, at in enumerate(mine.tolist()):
        row, first = walk[at][0], at
        while not walk[first][1]:
            first -= 1
        assert not closing[row]
        for name, end in (("obs", at), ("next_obs", at + 1)):
            stack = [walk[max(end - back, first)][0] for back in (3, 2, 1, 0)]
            np.testing.assert_array_equal(batch[name][i], tape.frames[stack])
        assert batch["action"][i].tolist() == tape.action[row].tolist()
        assert batch["reward"][i] == tape.reward[row]
        assert batch["discount"][i] == (0 if tape.terminated[row] else np.float32(0.99))
    return len(mine)


@pytest.mark.parametrize(("continuous", "chunk"), [(False, 16), (True, 16), (False, 2)])
@pytest.mark.parametrize("setting", SETTINGS)
def test_what_is_filled_comes_back(setting: str, continuous: bool, chunk: int):
    """In chunks of two, there are so many that a dictionary is learnt from them."""
    tape = recording(continuous=continuous)
    options = fill.options_of(
        {**SETTINGS[setting], "chunk_frames": chunk}, fill.rows_for(tape, 500)
    )
    store = fill.filled(tape, options, fill.context_of(tape, 1), beyond=333)
    assert store.full
    store.check()
    held = check_held(store, tape, 0, 0)
    assert held == len(store)
    assert held == pytest.approx(500, abs=20)  # chunks are let go whole
    fill.compare(store, tape)


@pytest.mark.parametrize("setting", SETTINGS)
def test_lanes_play_the_recording_from_other_places(setting: str):
    tape, lanes = recording(), 5
    store = SequentialMemory(fill.options_of(SETTINGS[setting], 900), fill.context_of(tape, lanes))
    writer, player = store.writer(), fill.Tape(tape, lanes)
    writer.start(player.begin())
    for count in fill.blocks(700):
        fill.write(writer, player.take(count))
    steps = np.flatnonzero(~tape.closing)
    begins = [int(steps[lane * len(steps) // lanes]) for lane in range(lanes)]
    assert len(set(begins)) == lanes
    assert sum(check_held(store, tape, lane, begins[lane]) for lane in range(lanes)) == len(store)


def test_a_memory_that_gives_back_something_else_is_seen():
    tape = recording()
    store = fill.filled(tape, fill.options_of({}, 300), fill.context_of(tape, 1))
    other = recording()
    other.reward[~other.closing] += 1
    with pytest.raises(RuntimeError, match="does not give back"):
        fill.compare(store, other)


def test_steps_come_in_blocks_and_none_is_left_out():
    assert list(fill.blocks(2 * fill.BLOCK + 3)) == [fill.BLOCK, fill.BLOCK, 3]
    assert list(fill.blocks(fill.BLOCK)) == [fill.BLOCK]


def test_rows_hold_the_transitions_that_were_asked_for():
    tape = recording()
    assert fill.rows_for(tape, N - len(LENGTHS)) == N + 1
    for count in (200, 777):
        options = fill.options_of({"frame_codec": "raw"}, fill.rows_for(tape, count))
        store = fill.filled(tape, options, fill.context_of(tape, 1), beyond=150)
        assert len(store) == pytest.approx(count, abs=len(LENGTHS))


def test_the_world_is_read_off_the_recording():
    assert fill.env_of(recording()).actions == DiscreteActions(6)
    assert fill.env_of(recording(continuous=True)).actions == ContinuousActions((-1,) * 3, (1,) * 3)


def test_bytes_are_measured_beside_a_plan():
    tape = recording((40,) * 30)
    found = fill.measure_bytes(tape, SETTINGS["lz4"], 2_000, tape.frames)
    assert found["held"] == pytest.approx(2_000, abs=60)
    assert found["asked"] == 2_000
    assert found["low"] < found["full"] < found["high"]
    assert 48 <= found["forecast"] <= 100  # of three rows of noise and a still picture
    raw = fill.measure_bytes(tape, SETTINGS["raw"], 10_000, tape.frames)
    assert raw["forecast"] is None
    assert raw["pss"] == pytest.approx(10_250 * 272, rel=0.1)
    assert raw["usage"] == raw["full"]


def test_appends_are_timed_with_the_ring_full():
    tape = recording()
    found = fill.measure_append(tape, SETTINGS["lz4"], 800, 8, 2)
    assert found["full"] is True
    assert min(found["rate"], found["first"]) > 0


def test_the_default_setting_is_that_of_the_options():
    assert SequentialOptions(**SETTINGS[DEFAULT]) == SequentialOptions()


def test_sizes_are_those_of_the_game_and_the_setting():
    assert FULL.of("pong", "zstd") == 1_000_000
    assert FULL.of("pong", "raw") == 300_000
    assert FULL.of("carracing", "zstd") == FULL.of("carracing", "raw") == 100_000
    pairs = [(game, setting) for game in GAMES for setting in SETTINGS]
    assert all(QUICK.of(*pair) < FULL.of(*pair) for pair in pairs)


@pytest.mark.parametrize(
    ("row", "ok"),
    [
        (Row("", 5), True),
        (Row("", 5, "<=", None), True),
        (Row("", 130, "<=", 130), True),
        (Row("", 131, "<=", 130), False),
        (Row("", 150, ">=", 150), True),
        (Row("", 149, ">=", 150), False),
        (Row("", -8, "+-", 8), True),
        (Row("", -9, "+-", 8), False),
        (Row("", 9, "+-", 8), False),
        (Row("", 3, "in", (3, 4)), True),
        (Row("", 2.9, "in", (3, 4)), False),
        (Row("", 4.1, "in", (3, 4)), False),
    ],
)
def test_a_row_knows_whether_its_target_is_met(row: Row, ok: bool):
    assert row.ok == ok
    assert ("MISSED" in row.line()) != ok


def found_bytes(a_transition: dict[str, float] | None = None) -> dict:
    """Figures of fills of 1,000,000; the given games take so much, in every setting."""
    each = dict.fromkeys(GAMES, 50.0) | (a_transition or {})
    return {
        (game, setting): {
            "asked": 10**6,
            "held": 10**6,
            "pss": int(each[game] * 10**6),
            "usage": int(each[game] * 10**6) - 3 * MB,
            "forecast": None if setting == "raw" else 40.0,
            "low": 20 * MB,
            "full": 60 * MB,
            "high": 20_000 * MB,
        }
        for game in GAMES
        for setting in SETTINGS
    }


def others() -> dict[str, dict[str, Peer]]:
    """Two peers; one of them was never measured on carracing."""
    return {
        game: {
            "a stacks": Peer(1_000.0 + i, recorded=True),
            "b frames": Peer(None if game == "carracing" else 900.0 + 200 * i, recorded=i > 1),
        }
        for i, game in enumerate(GAMES)
    }


def missed(rows: list[Row]) -> list[str]:
    return [row.name for row in rows if not row.ok]


def by_name(rows: list[Row]) -> dict[str, Row]:
    assert len({row.name for row in rows}) == len(rows)
    return {row.name: row for row in rows}


def test_the_best_peer_is_the_least_of_the_modes_that_have_all_games():
    best = memory.best_peers(others())
    assert [best[game] for game in GAMES] == [900, 1_001, 1_002, 1_003, 1_004]
    assert best[AVERAGE] == 1_001.5  # of a: b has 1,200
    assert best[BUSIEST] == 1_003
    alone = {game: {"b": Peer(None if game == "pong" else 5, False)} for game in GAMES}
    assert memory.best_peers(alone) == dict.fromkeys(GAMES[1:], 5)


def test_targets_stand_at_their_settings(monkeypatch):
    monkeypatch.setattr(memory, "DEFAULT", "lz4")
    rows = by_name(memory.bytes_rows(found_bytes(), memory.best_peers(others())))
    aimed = {name: row.target for name, row in rows.items() if row.target is not None}
    assert aimed == {
        **{f"raw: {game}, bytes a transition": 7_140 for game in ATARI},
        f"lz4 (default): {AVERAGE}, bytes a transition": 130,
        f"lz4 (default): {BUSIEST}, bytes a transition": 260,
        "lz4 (default): carracing, bytes a transition": 1_700,
        f"zstd: {AVERAGE}, bytes a transition": 100,
        "zstd: carracing, bytes a transition": 1_400,
        f"zstd+dictionary: {AVERAGE}, bytes a transition": 80,
        "zstd+dictionary: pong, bytes a transition": 80,
        f"zstd+dictionary: {BUSIEST}, bytes a transition": 200,
    }
    assert len(rows) == len(SETTINGS) * (len(GAMES) + 2)
    assert rows[f"raw: {BUSIEST}, bytes a transition"].peer == 1_003


def test_the_default_has_the_stricter_of_two_targets(monkeypatch):
    monkeypatch.setattr(memory, "DEFAULT", "zstd")
    rows = by_name(memory.bytes_rows(found_bytes(), {}))
    assert rows[f"zstd (default): {AVERAGE}, bytes a transition"].target == 100
    assert rows[f"zstd (default): {BUSIEST}, bytes a transition"].target == 260
    assert rows["zstd (default): carracing, bytes a transition"].target == 1_400


def test_averages_and_the_busiest_are_of_atari_alone(monkeypatch):
    monkeypatch.setattr(memory, "DEFAULT", "lz4")
    found = found_bytes({"pong": 10, "seaquest": 20, "space_invaders": 201, "carracing": 1_500})
    rows = by_name(memory.bytes_rows(found, {}))
    assert rows[f"zstd: {AVERAGE}, bytes a transition"].value == (10 + 20 + 201 + 50) / 4
    assert rows[f"zstd: {BUSIEST}, bytes a transition"].value == 201
    assert missed(list(rows.values())) == [
        "zstd: carracing, bytes a transition",
        f"zstd+dictionary: {BUSIEST}, bytes a transition",
    ]


def test_the_account_may_be_off_by_a_part_and_some_bytes():
    found = found_bytes({"pong": 100.0})
    assert missed(memory.usage_rows(found)) == []
    found["pong", "lz4"]["usage"] = 110 * MB  # 2 % of 100 MB and 8 MB allow 10 MB
    assert missed(memory.usage_rows(found)) == []
    found["pong", "lz4"]["usage"] = 110 * MB + 1
    found["pong", "zstd"]["usage"] = 90 * MB - 1
    assert len(missed(memory.usage_rows(found))) == 2


def test_what_is_taken_has_to_lie_within_the_plan():
    found = found_bytes()
    rows = memory.forecast_rows(found)
    assert missed(rows) == []
    assert not any(row.name.startswith("raw") for row in rows)
    found["seaquest", "zstd"]["pss"] = 19 * MB
    found["seaquest", "lz4"]["high"] = 49 * MB
    assert len(missed(memory.forecast_rows(found))) == 2


def test_a_memory_that_holds_less_than_it_was_asked_for_is_named():
    found = found_bytes()
    found["pong", "lz4"]["held"] = 990_000
    assert list(memory.short_lines(found)) == []
    found["pong", "zstd"]["held"] = 866_000
    (line,) = memory.short_lines(found)
    assert line.startswith(f"{memory.named('zstd')}: pong: holds 866,000 of 1,000,000 transitions")


def test_rates_have_their_targets_on_the_busier_game(monkeypatch):
    monkeypatch.setattr(memory, "DEFAULT", "lz4")
    rates = {"raw": 299_999, "lz4": 150_000, "zstd": 5, "zstd+dictionary": 5}
    found = {
        (game, setting): {"rate": rate, "first": 1}
        for game in ("seaquest", "breakout")
        for setting, rate in rates.items()
    }
    rows = memory.append_rows(found)
    assert missed(rows) == ["raw: seaquest, append, steps/s"]
    assert [row.target for row in rows if row.target] == [300_000, 150_000]


def test_a_process_is_held_to_its_megabytes():
    row = memory.private_rows({"held": 99_997, "private": 250 * MB})[0]
    assert (row.ok, row.value) == (True, 250)
    assert not memory.private_rows({"held": 99_997, "private": 250 * MB + 1})[0].ok


def test_the_table_of_games_says_where_figures_are_from():
    lines = list(memory.peer_lines(found_bytes(), others()))
    assert [line[:36].strip() for line in lines[1:5]] == [memory.named(name) for name in SETTINGS]
    texts = {line[:36].strip(): line[36:].split() for line in lines}
    assert texts["a stacks (recorded)"] == ["1,000", "1,001", "1,002", "1,003", "1,004"]
    assert texts["b frames"] == ["900.0", "1,100"]
    assert texts["b frames (recorded)"] == ["1,300", "1,500", "missing"]


@pytest.fixture
def faked(monkeypatch):
    """A benchmark that takes no time: fills of hand-made figures; gives them, to be changed."""
    found = found_bytes()
    rates = {"rate": 10**6, "first": 10**5}

    def child(what: str, game: str, setting: str, count: int, *flags: str) -> dict:
        figures = {"bytes": found[game, setting], "append": rates}
        return figures.get(what, {"held": count, "private": 100 * MB})

    monkeypatch.setattr(memory, "child", child)
    monkeypatch.setattr(memory.Recording, "load", lambda game: None)
    return found


def test_a_missed_target_is_exit_code_1(faked, tmp_path: Path, capsys):
    assert memory.main(["--json", str(tmp_path / "rows.json")]) == 0
    assert "MISSED" not in capsys.readouterr().out
    faked["carracing", "zstd"]["pss"] = 1_401 * 10**6
    assert memory.main(["--quick", "--json", str(tmp_path / "rows.json")]) == 1
    out = capsys.readouterr().out
    assert "missed: zstd: carracing, bytes a transition" in out
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert {"name", "value", "target", "ok"} <= set.intersection(*(set(row) for row in rows))
    named = {row["name"]: row for row in rows}
    assert len(named) == len(rows)
    row = named["zstd: carracing, bytes a transition"]
    assert (row["value"], row["target"], row["bound"], row["ok"]) == (1_401, 1_400, "<=", False)
    peer = named["reverb frames_chunk64: pong, bytes a transition"]
    assert (peer["target"], peer["ok"], peer["recorded"]) == (None, True, True)


def test_peers_are_measured_where_that_is_asked_for_and_works(monkeypatch, capsys):
    figures = {"one": 5, "two": None}
    monkeypatch.setattr(memory_peers.peers, "installed", lambda peer: peer == "a")
    monkeypatch.setattr(
        memory_peers.peers,
        "measure",
        lambda peer, mode, folder, count: {
            "bytes_per_transition": figures[mode],
            "error": "it broke",
        },
    )
    recorded = {"bytes_per_transition": 7}
    monkeypatch.setattr(memory_peers.peers, "recorded", lambda peer, mode, game: recorded)
    assert memory_peers.one_peer("a", "one", "pong", again=False) == Peer(7, recorded=True)
    assert memory_peers.one_peer("a", "one", "pong", again=True) == Peer(5, recorded=False)
    assert memory_peers.one_peer("a", "two", "pong", again=True) == Peer(7, recorded=True)
    assert "pong, a two: it broke" in capsys.readouterr().err
    assert memory_peers.one_peer("b", "one", "pong", again=True) == Peer(7, recorded=True)
    monkeypatch.setattr(memory_peers.peers, "recorded", lambda peer, mode, game: None)
    assert memory_peers.one_peer("b", "one", "pong", again=True) == Peer(None, recorded=True)


def test_a_missing_recording_is_one_line_and_exit_code_2(monkeypatch, tmp_path: Path, capsys):
    load = Recording.load
    monkeypatch.setattr(memory.Recording, "load", lambda game: load(game, tmp_path))
    assert memory.main([]) == UsageError.exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    command = f"python -m benchmarks.recordings pong --folder {tmp_path}"
    assert captured.err == f"there is no recording of pong; make one with: {command}\n"


def test_a_child_measures_in_a_process_of_its_own(monkeypatch, capfd):
    code = "import sys, json; print('noise'); print(json.dumps(sys.argv[1:]))"
    monkeypatch.setattr(memory, "COMMAND", (sys.executable, "-c", code))
    found = memory.child("append", "pong", "zstd+dictionary", 40_000, "--rounds", "7")
    options = json.dumps(SETTINGS["zstd+dictionary"])
    assert found == [
        *("append", "--game", "pong", "--count", "40000", "--options", options),
        *("--rounds", "7"),
    ]
    assert "append: pong, zstd+dictionary, 40,000" in capfd.readouterr().err
