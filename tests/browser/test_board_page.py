"""The board as a person sees it: its page in a real browser.

`ENGRAM_REQUIRE_BROWSER=1` turns the skip where there is no chromium into a failure, and
`ENGRAM_SCREENSHOT=FILE` keeps the picture.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.utils.fake_run import FakeRun, plausible
from tests.utils.stub_server import VisdomServer
from utils.board import Board, BoardOptions
from utils.board_page import prepare
from utils.series import CURVES, LIMIT

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
STEPS = 50_000

# Plotly keeps its curves in the element that it draws into; visdom names those at random.
TRACES = """title => {
    const plots = Array.from(document.querySelectorAll(".js-plotly-plot"));
    const plot = plots.find(p => p.layout && p.layout.title && p.layout.title.text === title);
    if (!plot || !plot.data) return null;
    return plot.data.map(t => ({name: t.name, x: Array.from(t.x), y: Array.from(t.y)}));
}"""

STACK = """() => Array.from(document.querySelectorAll("img"))
    .filter(image => image.src.startsWith("data:image/png"))
    .map(image => [image.naturalWidth, image.naturalHeight])"""


def need(found: object, what: str) -> None:
    if not found:
        if os.environ.get("ENGRAM_REQUIRE_BROWSER") == "1":
            pytest.fail(what)
        pytest.skip(what)


@pytest.fixture
def run(tmp_path: Path) -> FakeRun:
    """Half of a run that learns, in 1,250 rows."""
    run = FakeRun(tmp_path / "dqn_cartpole-20260301-101500-s1", STEPS)
    run.rows([plausible(step, STEPS) for step in range(20, STEPS // 2 + 1, 20)])
    run.status(STEPS // 2)
    run.actions("noop", "left", "right")
    run.view(STEPS // 2, padding=1)
    return run


@pytest.fixture
def server(tmp_path: Path) -> Iterator[VisdomServer]:
    need(prepare() is None, "the files of visdom's page: python -m utils.board_server --prepare")
    with VisdomServer(tmp_path / "visdom") as server:
        yield server


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Any]:
    """A page of headless chromium with an empty profile."""
    need(Path(CHROMIUM).exists(), f"{CHROMIUM}: apt-get install -y chromium")
    need(shutil.which("chromium"), "chromium on PATH: apt-get install -y chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            tmp_path / "profile",
            executable_path=CHROMIUM,
            args=FLAGS,
            viewport={"width": 1680, "height": 920},
        )
        yield browser.pages[0]
        browser.close()


def test_a_running_board_shows_its_curves_and_config(
    run: FakeRun, server: VisdomServer, page: Any, tmp_path: Path
):
    errors: list[str] = []
    hosts: set[str] = set()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    options = BoardOptions(visdom="connect", visdom_port=server.port)
    board = Board(run.folder, options, lambda line: None)
    board.turn()
    page.goto(board.address)
    for curve in CURVES:
        page.wait_for_function(TRACES, arg=curve.title, timeout=30_000)

    train, evaluated = page.evaluate(TRACES, "return")
    assert (train["name"], evaluated["name"]) == ("train", "eval")
    assert train["x"][-1] == STEPS / 2
    assert len(train["x"]) <= LIMIT
    values = [plausible(step, STEPS)["return_mean"] for step in range(20, STEPS // 2 + 1, 20)]
    assert max(train["y"]) == pytest.approx(max(values), rel=1e-5)
    assert evaluated["x"] == [float(step) for step in range(2500, STEPS // 2 + 1, 2500)]

    rest, taken = page.evaluate(TRACES, f"Q of the actions, step {STEPS // 2:,}")
    assert rest["x"] == ["0 noop", "1 left", "2 right"]
    assert (rest["y"], taken["y"]) == ([0.5, 0, -1], [0, 2, 0])
    assert page.evaluate(STACK) == [[376, 112]]  # 4 frames of 12 x 10, 9 times as large

    text = page.inner_text("body")
    for word in ("memory_limit", "10000", "CartPole-v1", "torch", "2.13.0"):
        assert word in text

    # What the run writes now comes up in the page that is open.
    run.row(STEPS // 2 + 20)
    board.turn()
    page.wait_for_function(
        f"title => ({TRACES})(title)[0].x.at(-1) === {STEPS // 2 + 20}", arg="return"
    )
    picture = os.environ.get("ENGRAM_SCREENSHOT") or str(tmp_path / "board.png")
    page.screenshot(path=picture)
    assert Path(picture).stat().st_size > 20_000
    assert errors == []
    assert hosts == {f"127.0.0.1:{server.port}"}


def test_a_run_with_infinities_does_not_break_the_page(
    run: FakeRun, server: VisdomServer, page: Any
):
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    run.row(STEPS // 2 + 20, loss=float("inf"), q_mean=float("nan"))
    options = BoardOptions(visdom="connect", visdom_port=server.port)
    board = Board(run.folder, options, lambda line: None)
    board.turn(final=True)
    page.goto(board.address)
    page.wait_for_function(TRACES, arg="loss", timeout=30_000)
    (loss,) = page.evaluate(TRACES, "loss")
    assert loss["x"][-1] == STEPS / 2
    assert None not in json.loads(json.dumps(loss["y"]))
    assert errors == []
