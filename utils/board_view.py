"""What an agent sees and makes of it, as windows of the board: its stack, values of actions.

They show the newest `live/view.safetensors` of a run. numpy is imported when there is one.
"""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from utils.board_windows import AXIS, COLOURS, HEIGHT, WIDTH

if TYPE_CHECKING:
    from core.view import View

ACTIONS: Final = "actions.json"
"""What the actions are called, in the same folder."""
STACK: Final = "stack"
VALUES: Final = "action_values"
TITLES: Final = {"Q": "Q of the actions", "probability": "probability of the actions"}


class Sight:
    """Follows the view in a run's folder, and posts it when it is another."""

    def __init__(self, folder: Path) -> None:
        self._live = folder / "live"
        self._posted: object = None

    def touch(self) -> None:
        """Posts it again next time: the page that had it is lost."""
        self._posted = None

    def post(self, client: Any) -> str | None:
        """Posts what is new; gives the window posted last, if there was one."""
        path = self._live / "view.safetensors"
        try:
            version = path.stat().st_mtime_ns, path.stat().st_ino
        except OSError:
            return None
        if version == self._posted:
            return None
        from core.view import read

        self._posted = version
        if (found := read(path)) is None:
            return None
        step, view = found
        if view.frames is not None:
            client.image(**stack_window(step, view))
        if len(view.values) > 1:  # visdom draws no single bar
            client.bar(**values_window(step, view, self._names()))
            return VALUES
        return STACK if view.frames is not None else None

    def _names(self) -> list[str]:
        try:
            names = json.loads((self._live / ACTIONS).read_text("utf-8"))["names"]
            return [str(name) for name in names]
        except (OSError, ValueError, TypeError, LookupError):
            return []


def stack_window(step: int, view: "View") -> dict[str, Any]:
    """The arguments of `Visdom.image` that draw a view's stack, oldest left, pixel by pixel."""
    from utils.painting import strip

    assert view.frames is not None
    picture = strip(view.frames, view.padding, WIDTH)
    title = f"seen at step {step:,}, newest right"
    if view.padding:
        title += f"; {view.padding} of {len(view.frames)} are padding"
    height, width = picture.shape[:2]
    opts = {"title": title, "width": max(width, WIDTH), "height": max(height, 40)}
    return {"img": picture.transpose(2, 0, 1), "win": STACK, "opts": opts}


def values_window(step: int, view: "View", names: list[str]) -> dict[str, Any]:
    """The arguments of `Visdom.bar` that draw the values of the actions, the one taken marked.

    A value that is not finite has no bar: infinities are no JSON.
    """
    import numpy as np

    values = [float(value) if math.isfinite(value) else 0.0 for value in view.values]
    bars = np.zeros((len(values), 2))
    for action, value in enumerate(values):
        bars[action, int(action == view.action)] = value
    rows = [f"{action} {name}" for action, name in enumerate(names)]
    if len(rows) != len(values):
        rows = [f"action {action}" for action in range(len(values))]
    title = f"{TITLES[view.meaning]}, step {step:,}"
    layout = {
        "title": {"text": title, "font": {"size": 14}},
        "legend": {"x": 0.02, "y": 1.12, "orientation": "h"},
        "colorway": [COLOURS[0], COLOURS[1]],
        "xaxis": {**AXIS, "type": "category"},
        "yaxis": dict(AXIS),
    }
    opts = {
        "title": title,
        "width": WIDTH,
        "height": HEIGHT,
        "rownames": rows,
        "legend": ["not taken", "taken"],
        "stacked": True,
        "marginleft": 46,
        "marginright": 14,
        "margintop": 50,
        "marginbottom": 44,
        "layoutopts": {"plotly": layout},
    }
    return {"X": bars, "win": VALUES, "opts": opts}
