import math
from pathlib import Path

import pytest
from matplotlib.image import imread

from core.run_folder import FIRST_COLUMNS
from utils import curves
from utils.curves import PANELS, draw, read


def write(path: Path, *rows: dict[str, object]) -> Path:
    lines = [",".join(FIRST_COLUMNS)]
    lines += [",".join(str(row.get(name, "")) for name in FIRST_COLUMNS) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_every_panel_is_of_columns_that_a_run_has():
    assert {name for _, names in PANELS for name in names} <= set(FIRST_COLUMNS)


def test_cells_are_read_as_numbers_and_empty_ones_as_nan(tmp_path: Path):
    progress = write(tmp_path / "p.csv", {"step": 5, "loss": 0.5}, {"step": 10, "loss": "nan"})
    series = read(progress)
    assert series["step"] == [5.0, 10.0] and series["loss"][0] == 0.5
    assert math.isnan(series["loss"][1]) and math.isnan(series["epsilon"][0])
    assert set(series) == set(FIRST_COLUMNS)


def test_a_run_without_rows_gets_no_picture(tmp_path: Path):
    draw(write(tmp_path / "p.csv"), tmp_path / "curves.png")
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


def test_the_picture_is_replaced_whole(tmp_path: Path):
    progress = write(tmp_path / "p.csv", *({"step": i, "loss": 1 / i} for i in range(1, 9)))
    (tmp_path / "curves.png").write_text("the one before")
    draw(progress, tmp_path / "curves.png")
    assert imread(tmp_path / "curves.png").shape == (600, 1200, 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curves.png", "p.csv"]


def test_the_curves_are_the_columns_without_their_gaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    drawn: dict[str, list[list[float]]] = {}

    def keep(figure, *_: object, **__: object) -> None:
        for axes in figure.axes:
            for line in axes.lines:
                drawn[line.get_label()] = line.get_xydata().tolist()
        Path(str(_[0])).write_bytes(b"")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", keep)
    rows = [
        {"step": 500, "return_mean": 20.5, "epsilon": 1},
        {"step": 1000, "return_mean": 30, "eval_return_mean": 90, "epsilon": 0.5},
        {"step": 1500, "epsilon": 0.1},
    ]
    curves.draw(write(tmp_path / "p.csv", *rows), tmp_path / "curves.png")
    assert drawn == {
        "return_mean": [[500, 20.5], [1000, 30]],
        "eval_return_mean": [[1000, 90]],
        "epsilon": [[500, 1], [1000, 0.5], [1500, 0.1]],
    }
