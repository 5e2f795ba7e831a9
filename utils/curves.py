"""`curves.png`: the run's curves as a picture, drawn from its progress.csv."""

import csv
import math
import os
from pathlib import Path
from typing import Final

PANELS: Final = (
    ("return", ("return_mean", "eval_return_mean")),
    ("episode length", ("length_mean",)),
    ("loss", ("loss",)),
    ("mean Q", ("q_mean",)),
    ("epsilon", ("epsilon",)),
    ("steps per second", ("steps_per_second",)),
)


def draw(progress: Path, picture: Path) -> None:
    """Draws the panels that have numbers; a run without rows gets no picture.

    Written aside and renamed, so that a picture is whole or the one before.
    """
    series = read(progress)
    if not series.get("step"):
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 6), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (title, names) in zip(figure.subplots(2, 3).flat, PANELS, strict=True):
        for name in names:
            points = zip(series["step"], series[name], strict=True)
            known = [(step, value) for step, value in points if not math.isnan(value)]
            if known:
                axes.plot(*zip(*known, strict=True), label=name, linewidth=1.2)
        axes.set_title(title)
        axes.set_xlabel("env steps")
        axes.grid(alpha=0.3)
        if len(names) > 1 and axes.lines:
            axes.legend(frameon=False)
    temporary = picture.with_name(f".{picture.name}.{os.getpid()}.tmp")
    figure.savefig(temporary, format="png", dpi=100)
    temporary.replace(picture)


def read(progress: Path) -> dict[str, list[float]]:
    """Columns of a progress.csv as numbers, NaN where a cell is empty."""
    with progress.open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = rows[0].keys() if rows else ()
    return {name: [float(row[name] or "nan") for row in rows] for name in names}
