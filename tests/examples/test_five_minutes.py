"""docs/five-minutes.md is true: each of its commands is run, and says what stands there."""

import json
import re
import shlex
import signal
from pathlib import Path
from typing import Final

import pytest

from tests.core.envs.optional import needs
from tests.harness import ROOT, cli, start_cli, wait_until

pytestmark = [
    needs("Box2D", "pygame", unless="ENGRAM_REQUIRE_BOX2D"),
    needs("imageio_ffmpeg", unless="ENGRAM_REQUIRE_VIDEO"),
    pytest.mark.timeout(400),
]
FENCE: Final = re.compile(r"```\n(.*?)```", re.DOTALL)
REFUSED: Final = "--memory_cap 2GB"
STEPS: Final = 60  # a person lets it go on for longer


def blocks() -> list[str]:
    return FENCE.findall((ROOT / "docs" / "five-minutes.md").read_text())


def commands() -> list[str]:
    """The page's commands, without the one that installs."""
    lines = [line for block in blocks() for line in block.splitlines()]
    return [line for line in lines if line.startswith("python main.py ")]


def said_after(command: str) -> list[str]:
    """The lines that the page shows after a command, if it shows any."""
    found = blocks()
    block = found[found.index(f"{command}\n") + 1]
    return [] if block.startswith("python ") else block.splitlines()


def shape(line: str) -> str:
    """A line without its numbers, which are a machine's own; nor where its memory was read."""
    return re.sub(r"[\d.,]+( [kMGT]?B)?|\([^)]*\)", "#", line).strip()


def planned(command: str) -> None:
    """A plan says what the page shows of it."""
    done = cli(*shlex.split(command)[2:], timeout=120)
    assert done.returncode == (2 if REFUSED in command else 0), done.stderr
    shapes = {shape(line) for line in (done.stdout + done.stderr).splitlines()}
    shown = said_after(command)
    assert shown
    assert {shape(line) for line in shown} <= shapes


def stopped(runs: Path, words: list[str], begun: int) -> Path:
    """A run that goes on for a while and is then told to stop; gives its folder."""
    process = start_cli(*words, "--runs", str(runs), "--visdom", "off")

    def far() -> bool:
        assert process.poll() is None, process.communicate()
        found = [json.loads(path.read_text()) for path in runs.glob("*/live/status.json")]
        return any(
            status["pid"] == process.pid and status["step"] >= begun + STEPS for status in found
        )

    try:
        wait_until(far, 200)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, error) == (130, "")
    (folder,) = (path for path in runs.iterdir() if path.name in out)
    assert f"interrupted at step {steps_of(folder):,}" in out
    return folder


def steps_of(folder: Path) -> int:
    result: dict[str, int] = json.loads((folder / "result.json").read_text())
    return result["steps"]


def told(command: str, folder: Path | None) -> list[str]:
    """A command's words, RUN being a run."""
    words = shlex.split(command)[2:]
    return [folder.name if word == "RUN" and folder is not None else word for word in words]


def followed(tmp_path: Path, wanted: list[str]) -> Path:
    """Follows commands of the page one after the other; gives the folder of their run."""
    folder, begun = None, 0
    for command in wanted:
        words = told(command, folder)
        if words[0] == "plan":
            planned(command)
        elif words[0] == "test":
            done = cli(*words, "--runs", str(tmp_path), "--video_steps", "40", timeout=200)
            assert (done.returncode, done.stderr) == (0, "")
            assert Path(done.stdout.splitlines()[1]).is_file()
        else:
            folder = stopped(tmp_path, words, begun)
            begun = steps_of(folder)
    assert folder is not None
    return folder


def test_every_command_of_the_page_is_followed():
    assert set(first_part()) | set(second_part()) == set(commands())
    assert {shlex.split(command)[2] for command in commands()} == {
        "plan", "dqn_carracing", "resume", "test", "dqn_carracing_grey",
    }  # fmt: skip


def first_part() -> list[str]:
    return [line for line in commands() if REFUSED not in line and "_grey" not in line]


def second_part() -> list[str]:
    return [line for line in commands() if line not in first_part()]


def test_the_car_is_planned_trained_stopped_resumed_and_filmed(tmp_path: Path):
    folder = followed(tmp_path, first_part())
    assert steps_of(folder) >= 2 * STEPS
    assert len(list((folder / "videos").glob("*.mp4"))) == 1


@pytest.mark.soak
def test_what_does_not_fit_is_refused_and_less_to_see_is_trained(tmp_path: Path):
    folder = followed(tmp_path, second_part())
    options = json.loads((folder / "config.json").read_text())["options"]
    assert (options["greyscale"], options["resize"]) == ("luma", 48)


def test_the_table_of_the_page_is_arithmetic():
    """A transition has two stacks of four pictures; the figures of the plan are measured."""
    page = " ".join((ROOT / "docs" / "five-minutes.md").read_text().split())
    picture = 96 * 96 * 3
    assert f"{picture:,} numbers" in page
    assert f"| {picture * 4 * 2 * 4:,} | {round(picture * 4 * 2 * 4 / 1e4):.0f} GB |" in page
    assert f"| {picture * 4 * 2:,} | {round(picture * 4 * 2 / 1e4):.0f} GB |" in page


def test_the_install_line_names_files_that_are_there():
    (line,) = [line for line in blocks()[0].splitlines() if "pip install" in line]
    names = re.findall(r"-r (\S+)", line)
    assert len(names) == 2
    assert all((ROOT / name).is_file() for name in names)
