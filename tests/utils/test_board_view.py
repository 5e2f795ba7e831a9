"""What an agent sees, on the board."""

import base64
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from core.view import NAME, View
from tests.utils.fake_run import FakeRun
from tests.utils.stub_server import VisdomServer, windows
from utils.board import Board, BoardOptions, post
from utils.board_view import STACK, VALUES, stack_window, values_window
from utils.board_windows import WIDTH
from utils.painting import strip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VisdomServer]:
    with VisdomServer(tmp_path_factory.mktemp("visdom")) as server:
        yield server


@pytest.fixture
def run(tmp_path: Path, request: pytest.FixtureRequest) -> FakeRun:
    run = FakeRun(tmp_path / re.sub(r"\W|_", "-", request.node.name))
    run.row(100)
    return run


def board_of(run: FakeRun, server: VisdomServer) -> Board:
    return Board(run.folder, options(server), lambda line: None)


def options(server: VisdomServer) -> BoardOptions:
    return BoardOptions(visdom="connect", visdom_port=server.port)


def shown(server: VisdomServer, run: FakeRun, window: str) -> dict[str, Any]:
    return windows(server.port, run.folder.name)[window]


def image(server: VisdomServer, run: FakeRun) -> np.ndarray:
    """The picture that the page has of the stack."""
    source = shown(server, run, STACK)["content"]["src"]
    return np.array(Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2]))))


def test_the_stack_is_on_the_board_pixel_by_pixel(run: FakeRun, server: VisdomServer):
    view = run.view(700, padding=2)
    board_of(run, server).turn()
    assert view.frames is not None
    assert np.array_equal(image(server, run), strip(view.frames, 2, WIDTH))
    assert shown(server, run, STACK)["title"] == (
        "seen at step 700, newest right; 2 of 4 are padding"
    )


def test_the_values_are_bars_and_the_action_taken_is_another_colour(
    run: FakeRun, server: VisdomServer
):
    run.actions("noop", "left", "fire")
    run.view(1700, action=2)
    board_of(run, server).turn()
    content = shown(server, run, VALUES)["content"]
    rest, taken = content["data"]
    assert (rest["name"], taken["name"]) == ("not taken", "taken")
    assert rest["x"] == taken["x"] == ["0 noop", "1 left", "2 fire"]
    assert (rest["y"], taken["y"]) == ([0.5, 2.0, 0.0], [0.0, 0.0, -1.0])
    assert content["layout"]["title"]["text"] == "Q of the actions, step 1,700"
    assert content["layout"]["barmode"] == "stack"


def test_a_policy_says_that_it_is_one():
    view = View(None, 0, np.array([0.25, 0.75]), "probability", 0)
    window = values_window(5, view, [])
    assert window["opts"]["title"] == "probability of the actions, step 5"
    assert window["X"].tolist() == [[0, 0.25], [0.75, 0]]
    assert window["opts"]["rownames"] == ["action 0", "action 1"]


def test_names_that_are_not_of_these_actions_are_left_out():
    view = View(None, 0, np.array([1.0, 2.0]), "Q", 0)
    assert values_window(5, view, ["a", "b", "c"])["opts"]["rownames"] == ["action 0", "action 1"]


def test_numbers_that_are_no_json_have_no_bar():
    view = View(None, 0, np.array([np.nan, np.inf, -1.0], np.float32), "Q", 2)
    window = values_window(5, view, [])
    assert window["X"].tolist() == [[0, 0], [0, 0], [0, -1]]
    assert "NaN" not in json.dumps(window["X"].tolist())


def test_a_full_stack_says_nothing_of_padding():
    frames = np.zeros((4, 84, 84), np.uint8)
    window = stack_window(5, View(frames, 0, np.zeros(2), "Q", 0))
    assert window["opts"]["title"] == "seen at step 5, newest right"
    assert window["img"].shape == (3, 88, 352)


def test_it_is_posted_when_it_is_another_and_only_then(run: FakeRun, server: VisdomServer):
    board = board_of(run, server)
    run.view(700)
    board.turn()
    before = windows(server.port, run.folder.name)
    board.turn()
    assert windows(server.port, run.folder.name) == before
    run.view(800)
    board.turn()
    after = windows(server.port, run.folder.name)
    renewed = {key for key in after if after[key]["contentID"] != before[key]["contentID"]}
    assert renewed == {STACK, VALUES}


def test_numbers_alone_have_values_and_no_picture(run: FakeRun, server: VisdomServer):
    run.view(700, frames=None)
    board_of(run, server).turn()
    assert {VALUES} == {STACK, VALUES} & set(windows(server.port, run.folder.name))


def test_a_run_without_a_view_has_neither(run: FakeRun, server: VisdomServer):
    board_of(run, server).turn()
    assert not {STACK, VALUES} & set(windows(server.port, run.folder.name))


def test_one_action_has_no_bars(run: FakeRun, server: VisdomServer):
    run.view(700, action=0, values=np.array([3.0]))
    board_of(run, server).turn()
    assert {STACK} == {STACK, VALUES} & set(windows(server.port, run.folder.name))


@pytest.mark.parametrize("content", [b"", b"half a file", bytes(40)])
def test_a_file_that_is_none_is_passed_over(run: FakeRun, server: VisdomServer, content: bytes):
    (run.folder / "live" / NAME).write_bytes(content)
    board_of(run, server).turn()
    assert "return" in windows(server.port, run.folder.name)
    assert STACK not in windows(server.port, run.folder.name)


def test_a_finished_run_is_posted_with_it(run: FakeRun, server: VisdomServer):
    run.view(700)
    run.status(5000, "finished")
    assert post(run.folder, options(server), lambda line: None) == 0
    assert {STACK, VALUES} <= set(windows(server.port, run.folder.name))


def test_a_server_that_lost_everything_gets_it_again(run: FakeRun, tmp_path: Path):
    run.view(700)
    with VisdomServer(tmp_path / "visdom") as own:
        board = board_of(run, own)
        board.turn()
        own.kill()
        own.forget()
        own.start()
        board.turn()
        assert {STACK, VALUES, "return"} <= set(windows(own.port, run.folder.name))
