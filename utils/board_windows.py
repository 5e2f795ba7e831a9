"""What stands on the board: a run's curves and its config as visdom windows. No visdom in here."""

import html
from collections.abc import Mapping
from typing import Any, Final

from utils.series import Curve, Point

COLOURS: Final = ("#1f5fa8", "#e07b1a", "#2d8f4e")
WIDTH: Final = 400  # pixels: three to four windows a row on a common screen
HEIGHT: Final = 280
FEW: Final = 60
"""Up to so many points, each is marked: a curve of one point is invisible as a line."""

AXIS: Final = {"zeroline": False, "gridcolor": "#e4e4e4", "automargin": True}


def curve_window(curve: Curve, traces: Mapping[str, list[Point]]) -> dict[str, Any]:
    """The arguments of `Visdom.scatter` that draw a curve whole; X is `[points, 2]`.

    Scatter in line mode, since `Visdom.line` wants all the traces of a window equally long.
    """
    import numpy as np

    names = [name for name, _ in curve.traces]
    points = [point for name in traces for point in traces[name]]
    labels = [names.index(name) + 1 for name in traces for _ in traces[name]]
    return {
        "X": np.array(points, dtype=np.float64),
        "Y": np.array(labels, dtype=np.int64),
        "win": curve.window,
        "opts": {
            "title": curve.title,
            "width": WIDTH,
            "height": HEIGHT,
            "legend": names,
            "mode": "lines",
            "marginleft": 46,
            "marginright": 14,
            "margintop": 34,
            "marginbottom": 44,
            "traceopts": {"plotly": _styles(names, traces)},
            "layoutopts": {"plotly": _layout(curve)},
        },
    }


def _styles(names: list[str], traces: Mapping[str, list[Point]]) -> dict[str, Any]:
    styles = {}
    for name, points in traces.items():
        colour = COLOURS[names.index(name) % len(COLOURS)]
        styles[name] = {
            "mode": "lines+markers" if len(points) <= FEW else "lines",
            "line": {"color": colour, "width": 1.6},
            "marker": {"color": colour, "size": 5},
        }
    return styles


def _layout(curve: Curve) -> dict[str, Any]:
    return {
        "title": {"text": curve.title, "font": {"size": 14}},
        "showlegend": len(curve.traces) > 1,
        "legend": {"x": 0.02, "y": 0.98, "bgcolor": "rgba(255,255,255,0.7)"},
        "xaxis": {**AXIS, "title": {"text": "env steps", "font": {"size": 11}}},
        "yaxis": dict(AXIS),
    }


def config_window(
    name: str, config: Mapping[str, Any], versions: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of `Visdom.text` for the pane with a run's config and versions.

    The pane renders raw HTML, so everything that comes from the run is escaped.
    """
    parts = (
        f"<h4>{_text(config.get('row', name))}</h4><p>{_text(name)}</p>",
        _table(config.get("options") or {}),
        "<h5>versions</h5>",
        _table(versions),
    )
    opts = {"title": "run", "width": WIDTH, "height": HEIGHT}
    return {
        "text": f"<div style='padding:0 8px'>{''.join(parts)}</div>",
        "win": "run",
        "opts": opts,
    }


def _table(values: Mapping[str, Any]) -> str:
    cells = (
        f"<tr><td style='padding-right:1em'>{_text(key)}</td><td>{_text(value)}</td></tr>"
        for key, value in values.items()
    )
    return f"<table style='font-size:12px'>{''.join(cells)}</table>"


def _text(value: object) -> str:
    return html.escape(str(value))
