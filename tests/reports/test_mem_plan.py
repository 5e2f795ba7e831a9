"""Reports of users about memory that is planned, each kept from coming back.

The reports' CounterPixel-v0 is the toy counter with pixels.
"""

import json
import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import main
from core.envs.toy import decode
from core.limits import usable_memory
from core.memory_watch import private_bytes
from core.rollout import Rollout
from core.sampling.uniform import Draw, all_starts
from tests.core.envs.optional import needs
from tests.harness import EMPTY, Run, cli, flags, only_folder, python
from tests.reports.pixel_worlds import CHANNELS, SIDE
from utils.options import CONFIGS

COUNTER: dict[str, Any] = {
    **EMPTY, "game": "counter", "observation": "pixels", "size": 84, "frame_codec": "raw",
}  # fmt: skip
FLOATS: dict[str, Any] = {
    **{key: value for key, value in EMPTY.items() if key != "size"},
    "env_type": "gym", "frame_codec": "raw", "memory_limit": 3_000, "steps": 2_000, "eval_freq": 0,
    "checkpoint_freq": 0, "log_freq": 1_000,
}  # fmt: skip
ROWS_OF = ["--game", "counter", "--observation", "pixels", "--size", "84", "--frame_codec", "raw"]
A_STEP = 84 * 84 + 16 + 1  # a frame, a packed row of everything else, a counter of draws
FRAME = SIDE * SIDE * CHANNELS
SIZE = r"[\d.,]+ [kMGTP]?B"
GB = 10**9


@pytest.fixture(autouse=True)
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONFIGS, "counter", COUNTER)
    monkeypatch.setitem(CONFIGS, "floats", FLOATS)
    monkeypatch.setattr("core.report.EPISODES", 2)
    monkeypatch.setattr("core.preview.SECONDS", 0.1)


@pytest.fixture
def no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails the test where a run takes a step."""

    def step(*_: Any) -> int:
        pytest.fail("a step was taken")

    monkeypatch.setattr(Rollout, "step", step)
    monkeypatch.setattr(Rollout, "begin", step)


def refused(capsys: pytest.CaptureFixture[str], row: str, **keys: Any) -> str:
    """The last line of a command line that is refused."""
    assert main.run([row, *flags(**keys)]) != 0
    out, error = capsys.readouterr()
    assert out == "", "nothing has begun"
    assert "Traceback" not in error
    return error.splitlines()[-1]


def remedies_of(line: str) -> list[str]:
    """Keys that a refusal advises to set."""
    return re.findall(r"--(\w+) ", line.partition("; set ")[2])


def processor_seconds() -> float:
    """What this process and its children have used: a busy machine changes nothing about it."""
    return sum(os.times()[:4])


# MEM-02: a buffer larger than memory was accepted, and the run killed hours later.


def test_mem_02_more_than_there_is_is_refused_before_the_first_step(tmp_path: Path) -> None:
    # pass: exit code != 0 within 10 s and before the first env step; message names the config key,
    # GB needed, GB usable and at least two remedies
    begun = processor_seconds()
    keys = flags(memory_limit=50_000_000, runs=tmp_path)
    done = cli("dqn_catch", *ROWS_OF, *keys)
    assert processor_seconds() - begun < 10
    assert done.returncode == 2
    assert (done.stdout, list(tmp_path.iterdir())) == ("", []), "no run was begun"
    (line,) = done.stderr.splitlines()
    needed = 50_000_000 * A_STEP / GB
    assert line.startswith(f"engram: memory_limit takes up to {needed:.1f} GB when full: ")
    assert re.search(rf"of the rest of the run {SIZE} are usable \(.+\); set ", line)
    assert remedies_of(line) == ["memory_limit", "frame_codec", "memory_bytes", "memory_cap"]


def fake_cgroup(root: Path, version: int, limit: int, used: int) -> partial:
    """`usable_memory` where a control group of that kind limits this process."""
    if version == 1:
        line, group = "4:memory:/docker/abc\n", "sys/fs/cgroup/memory/docker/abc"
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    else:
        line, group = "0::/docker/abc\n", "sys/fs/cgroup/docker/abc"
        names = ("memory.max", "memory.current")
    (root / group).mkdir(parents=True)
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(line)
    for name, value in zip(names, (limit, used), strict=True):
        (root / group / name).write_text(f"{value}\n")
    return partial(usable_memory, root)


@pytest.mark.parametrize("version", [1, 2])
def test_mem_02_the_limit_of_a_container_counts(
    version: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    no_step: None,
) -> None:
    # pass: as above, where the limit is lower than what the machine has
    wanted, runs = 30_000, tmp_path / "runs"
    limit, used = 700 * 10**6, 600 * 10**6
    assert psutil.virtual_memory().available > wanted * A_STEP > limit - used
    fake = fake_cgroup(tmp_path, version, limit, used)
    monkeypatch.setattr("utils.planning.usable_memory", fake)
    begun = processor_seconds()
    line = refused(capsys, "counter", memory_limit=wanted, runs=runs)
    assert processor_seconds() - begun < 10
    assert not runs.exists()
    assert line.startswith(f"engram: memory_limit takes up to {wanted * A_STEP / 1e6:.1f} MB")
    by = {1: "cgroup memory.limit_in_bytes", 2: "cgroup memory.max"}[version]
    assert f"({by})" in line
    assert len(remedies_of(line)) >= 2
    # and what fits beside what this process has, less what is left, runs
    assert main.run(["plan", "counter", *flags(memory_limit=10_000)]) == 0
    assert f"({by})" in capsys.readouterr().out


def test_mem_02_so_it_does_in_a_process_of_its_own(tmp_path: Path) -> None:
    fake_cgroup(tmp_path, 2, 500 * 10**6, 400 * 10**6)
    words = ["plan", "dqn_catch", *ROWS_OF, *flags(memory_limit=30_000), "--json"]
    said = json.loads(
        python(
            "from functools import partial; from pathlib import Path; import main\n"
            "import core.limits, utils.planning\n"
            f"root = Path({str(tmp_path)!r})\n"
            "utils.planning.usable_memory = partial(core.limits.usable_memory, root)\n"
            f"assert main.run({words!r}) == 2"
        )
    )
    assert not said["fits"]
    # 100 MB are left beside what the process has taken
    assert 100 * 10**6 < said["usable_bytes"] < 700 * 10**6
    assert said["bytes_full_high"] == 30_000 * A_STEP
    assert len(said["remedies"]) >= 2


# MEM-03: frames stayed 64-bit floats, and a reasonable memory took 52 GB.


def stored(run: Run) -> tuple[str, float]:
    """The dtype frames are stored as, and the bytes of a step."""
    memory = run.parts.memory
    (dtype,) = (plan.stored for plan in memory._ring.plan.columns if plan.name == "obs")
    return str(dtype), sum(memory.usage().values()) / memory.rows


@pytest.mark.parametrize("codec", ["raw", "lz4"])
def test_mem_03_floats_that_are_whole_are_stored_as_bytes(tmp_path: Path, codec: str) -> None:
    # pass: integer-valued floats are stored as uint8 and decode exactly;
    # bytes/step <= 1.1 x 27,648
    game = "tests.reports.pixel_worlds:Whole-v0"
    run = Run(tmp_path, FLOATS, game=game, frame_codec=codec).go()
    assert run.result["status"] == "finished"
    memory = run.parts.memory
    dtype, a_step = stored(run)
    assert dtype == "uint8"
    assert a_step <= 1.1 * 27_648
    assert (memory.bytes_full / memory.capacity) <= 1.1 * 27_648
    lanes, starts = all_starts(memory.starts)
    assert len(starts) == 2_000
    some = slice(None, None, 13)
    weight = np.ones(len(starts[some]), np.float32)
    batch = memory.reader.read(Draw(lanes[some], starts[some], weight))
    assert batch["obs"].dtype == np.float64
    for obs, following in zip(batch["obs"], batch["next_obs"], strict=True):
        now, then = (decode(frame[-1, ..., 0].astype(np.uint8)) for frame in (obs, following))
        assert then == now._replace(step=now.step + 1)
        assert (obs == obs[..., :1]).all() and (obs == obs.astype(np.uint8)).all()
    moments = {decode(obs[-1, ..., 2].astype(np.uint8)) for obs in batch["obs"]}
    assert len(moments) == len(batch["obs"]), "every one is another moment"


def test_mem_03_floats_between_0_and_1_are_a_named_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # pass: 0..1 floats give a named error or an explicit-opt-in warning
    game = "tests.reports.pixel_worlds:Unit-v0"
    assert main.run(["floats", *flags(game=game, runs=tmp_path)]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "engram: 'obs' holds float64 frames that are not whole numbers of 0..255: deliver uint8, "
        "or set --float_frames keep, at 8 times the bytes"
    )
    result = json.loads((only_folder(tmp_path) / "result.json").read_text())
    assert result["status"] == "failed"
    assert result["error"].startswith("UsageError: 'obs' holds float64 frames")


def test_mem_03_who_wants_floats_is_told_what_they_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    game = "tests.reports.pixel_worlds:Unit-v0"
    assert main.run(["plan", "floats", "--json", *flags(game=game, float_frames="keep")]) == 0
    said = json.loads(capsys.readouterr().out)
    assert 8 * FRAME < said["bytes_per_step"] < 8 * FRAME + 32
    run = Run(tmp_path, FLOATS, game=game, float_frames="keep", steps=100, learn_start=10).go()
    dtype, a_step = stored(run)
    assert (dtype, a_step) == ("float64", said["bytes_per_step"])
    assert f"{said['bytes_per_step']:,.0f} bytes a step" in run.log


@needs("Box2D")
# SWIG's types are made in C, which dies of a warning that is made an error
@pytest.mark.filterwarnings("ignore:builtin type .* has no __module__ attribute:DeprecationWarning")
@pytest.mark.parametrize(("world", "fits"), [("WholeCar", True), ("UnitCar", False)])
def test_mem_03_so_it_is_with_car_racing(
    world: str, fits: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = {"game": f"tests.reports.pixel_worlds:{world}-v0", "steps": 60, "eval_limit": 10}
    code = main.run(["floats", *flags(**keys, runs=tmp_path)])
    log = (only_folder(tmp_path) / "log.txt").read_text()
    if fits:
        assert code == 0
        result = json.loads((only_folder(tmp_path) / "result.json").read_text())
        assert result["memory_bytes"] / 60 <= 1.1 * 27_648
    else:
        assert code == 2
        assert "--float_frames keep, at 8 times the bytes" in log
        assert capsys.readouterr().err.startswith("engram: 'obs' holds float64 frames")


# MEM-11: an absurd size was a raw array error, and the user searched in the batch size.


@pytest.mark.parametrize(
    ("row", "keys", "key", "a_step"),
    [
        ("counter", {"memory_limit": 10**9}, "memory_limit", A_STEP),
        ("counter", {"memory_limit": 10**15}, "memory_limit", A_STEP),
        ("counter", {"memory_limit": 10**30}, "memory_limit", A_STEP),
        ("counter", {"memory_limit": 10**9, "num_envs": 7}, "memory_limit", A_STEP),
        ("counter", {"size": 160, "memory_limit": 10**8}, "memory_limit", 160 * 160 + 16 + 1),
        ("counter", {"memory_limit": 10**9, "memory_bytes": "9TB"}, "memory_bytes", A_STEP),
        (
            "floats",
            {"game": "tests.reports.pixel_worlds:Unit-v0", "float_frames": "keep",
             "memory_limit": 3_000_000},
            "memory_limit",
            8 * FRAME + 16 + 1,
        ),
        ("es_cartpole", {"memory_limit": 10**12}, "memory_limit", None),
    ],
)  # fmt: skip
def test_mem_11_an_absurd_size_is_answered_with_the_formula(
    row: str,
    keys: dict[str, Any],
    key: str,
    a_step: int | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    no_step: None,
) -> None:
    # pass: last line of output is the product's own message with key name and formula, not a raw
    # array error
    line = refused(capsys, row, **keys, runs=tmp_path)
    found = re.fullmatch(
        rf"engram: (\w+) takes up to ({SIZE}) when full: ([\d,]+) rows x ([\d,]+) bytes; beside "
        rf"the {SIZE} of the rest of the run {SIZE} are usable \(.+\); set --.+",
        line,
    )
    assert found, line
    assert found[1] == key
    held, each = (int(number.replace(",", "")) for number in found.group(3, 4))
    if a_step is not None:
        assert each == a_step
        lanes = keys.get("num_envs", 1)
        assert held in (keys["memory_limit"] // lanes * lanes, 9 * 10**12 // A_STEP)
    power = {"GB": 3, "TB": 4, "PB": 5}[found[2].split()[1]]
    assert float(found[2].split()[0]) * 1e3**power == pytest.approx(
        held * each, abs=0.051 * 1e3**power
    )
    assert list(tmp_path.iterdir()) == []


def test_mem_11_so_are_pictures_that_are_compressed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], no_step: None
) -> None:
    keys = {"memory_limit": 10**13, "frame_codec": "lz4", "runs": tmp_path}
    line = refused(capsys, "counter", **keys)
    assert line.startswith("engram: memory_limit takes up to ")
    assert "10,000,000,000,000 rows x " in line


@needs("ale_py", "cv2")
def test_mem_11_so_is_a_wrong_resize(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], no_step: None
) -> None:
    keys = {"env_type": "atari", "game": "ALE/Pong-v5", "resize": 0, "greyscale": "off"}
    line = refused(capsys, "floats", **keys, memory_limit=10**7, runs=tmp_path)
    assert "10,000,000 rows x 100,817 bytes" in line, "210 x 160 x 3, and 17 of everything else"


# MEM-15: the memory silently grew with the length of the run.


def test_mem_15_without_a_capacity_it_is_modest_and_said(tmp_path: Path) -> None:
    # pass: header shows resolved capacity, bytes and location; reserved size within the budget
    config = {key: value for key, value in COUNTER.items() if key != "memory_limit"}
    before = private_bytes()
    run = Run(tmp_path, config, steps=30_000_000, eval_freq=0)
    run.go(stop=lambda: run.parts.clock.step >= 200)
    assert run.parts.clock.step == 200
    assert run.result["status"] == "interrupted"
    full = 100_000 * A_STEP
    picture, header, *_ = run.log.splitlines()
    assert "obs is a picture" in picture
    assert f"memory when full: {full / 1e6:.1f} MB in heap memory" in header
    assert "memory_limit 100,000" in header
    assert run.parts.memory.capacity == 100_000
    assert full < psutil.virtual_memory().available
    # what is reserved costs nothing until it is written
    assert private_bytes() - before < 200 * A_STEP + 20 * 10**6


@pytest.mark.parametrize("steps", [1_000, 30_000_000])
def test_mem_15_the_length_of_the_run_changes_nothing(
    steps: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {key: value for key, value in COUNTER.items() if key != "memory_limit"}
    monkeypatch.setitem(CONFIGS, "counter", config)
    assert main.run(["plan", "counter", "--json", *flags(steps=steps)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["holds"]["steps"], said["tiers"]["heap"]) == (100_000, 100_000 * A_STEP)
