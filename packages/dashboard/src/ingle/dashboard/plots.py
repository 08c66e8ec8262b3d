"""The plots of a run, one for each metric."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from rich.text import Text
from textual.widget import Widget

from .canvas import Canvas, Curve, Doubles, limits, short, smoothed, ticks
from .reading import Run
from .theme import COLOURS

LABELS = 7
"""Cells for the numbers at the left of a plot."""
RECENT = 0.15
"""What share of the steps is recent, at least `RECENT_STEPS` of what is kept."""
RECENT_POINTS = 200
FEW = 60
"""Points that are shown as they are, without smoothing."""
LAST = ("gradient norm", "lr", "samples/s", "process/memory", "waiting for data", "machine/cpu")
"""Plots that are not metrics, in their order."""
TITLES = {
    "lr": "learning rate",
    "samples/s": "samples per second",
    "process/memory": "memory of the process, MiB",
    "machine/cpu": "processors in use",
    "waiting for data": "share of time waiting for data",
}
HIDDEN = {"steps/s", "process/cpu"}
UNITS = {"process/memory": 2.0**20}
"""What the values of a plot are divided by."""


@dataclass
class View:
    """How plots are looked at.

    Attributes:
        smoothing: how much of the average stays at each point.
        recent: whether only the last steps are shown.
        logarithmic: whether the values' axis is.
    """

    smoothing: float = 0.8
    recent: bool = False
    logarithmic: bool = False


def names_of(run: Run) -> list[str]:
    """What there is to plot: metrics first, by the names behind "train/" and "valid/"."""
    found: dict[str, None] = {}
    for name in run.series:
        kind, slash, metric = name.partition("/")
        if slash and kind in ("train", "valid"):
            found.setdefault(metric)
        elif name not in LAST and name not in HIDDEN:
            found.setdefault(name)
    return [*found, *(name for name in LAST if name in run.series)]


class Plot(Widget):
    """One metric, in training and validation."""

    DEFAULT_CSS = """
    Plot {
        border: round $border;
        border-title-color: $foreground;
        border-title-style: bold;
        border-subtitle-color: $foreground 60%;
        padding: 0 1 0 0;
        height: 1fr;
        width: 1fr;
    }
    """

    def __init__(self, run: Run, view: View) -> None:
        super().__init__()
        self.run = run
        self.view = view
        self.metric: str | None = None

    def show(self, metric: str | None) -> None:
        """Chooses what is plotted; None for nothing."""
        self.metric = metric
        if self.display != (metric is not None):
            self.display = metric is not None
        if metric is not None:
            self.border_title = TITLES.get(metric, metric)
            self.border_subtitle = self._latest()
            self.refresh()

    def _colours(self) -> dict[str, str]:
        return COLOURS[self.app.current_theme.dark]

    def _latest(self) -> str:
        """The newest values, in the colours of their curves."""
        colours, parts = self._colours(), []
        for kind in ("train", "valid"):
            series = self.run.series.get(f"{kind}/{self.metric}")
            if series is not None and series.values:
                value = series.last
                if len(series.values) > FEW:
                    value = smoothed(np.array(series.values[-500:]), self.view.smoothing)[-1]
                parts.append(f"[{colours[kind]}]{kind} {short(float(value))}[/]")
        series = self.run.series.get(self.metric or "")
        if series is not None:
            value = series.last / UNITS.get(self.metric or "", 1.0)
            parts.append(f"[{colours['other']}]{short(value)}[/]")
        return "  ".join(parts)

    def _curves(self) -> list[Curve]:
        colours, found = self._colours(), []
        start = self._start()
        for kind in ("train", "valid"):
            series = self.run.series.get(f"{kind}/{self.metric}")
            if series is None or not series.values:
                continue
            x, y = _after(np.array(series.steps), np.array(series.values), start)
            few = len(series.values) <= FEW
            if not few and self.view.smoothing > 0:
                raw = colours["raw"] if kind == "train" else colours["faint"]
                found.append(Curve(x, y, raw))
                y = smoothed(y, self.view.smoothing)
            found.append(Curve(x, y, colours[kind], dots=few and kind == "valid"))
        series = self.run.series.get(self.metric or "")
        if series is not None:
            x, y = _after(np.array(series.steps), np.array(series.values), start)
            found.append(Curve(x, y / UNITS.get(self.metric or "", 1.0), colours["other"]))
        return found

    def _start(self) -> float:
        """The step at which the plot begins."""
        if not self.view.recent:
            return 0.0
        fine = self.run.series.get("train/loss")
        begin = self.run.step * (1 - RECENT)
        if fine is not None and len(fine.steps) > RECENT_POINTS:
            begin = min(begin, fine.steps[-RECENT_POINTS])
        return max(0.0, begin)

    def render(self) -> Text:
        """The plot as text: numbers at the left, curves, steps below."""
        width, height = self.size.width - LABELS, self.size.height - 1
        if self.metric is None or width < 8 or height < 2:
            return Text("")
        colours, curves = self._colours(), self._curves()
        if not any(len(c.x) for c in curves):
            return Text("waiting for the first numbers", colours["muted"])
        log = self.view.logarithmic
        low, high = limits([c.y for c in curves], log)
        canvas = Canvas(width, height)
        across = self._start(), max(float(self.run.step), self._start() + 1)
        up = (math.log10(low), math.log10(high)) if log else (low, high)
        for curve in curves:
            canvas.draw(_on(curve, log), across, up)
        marks = _marks(low, high, height, log)
        text = Text(no_wrap=True, end="")
        for row in range(height):
            label = marks.get(row, "")
            text.append(f"{label:>{LABELS - 2}} ", colours["muted"])
            text.append("┤" if label else "│", colours["faint"])
            _runs(text, canvas.cells(row))
            text.append("\n")
        text.append_text(_steps(across, width, colours["muted"], colours["faint"]))
        return text


def _after(x: Doubles, y: Doubles, start: float) -> tuple[Doubles, Doubles]:
    begin = max(0, int(np.searchsorted(x, start)) - 1) if start else 0
    return x[begin:], y[begin:]


def _on(curve: Curve, log: bool) -> Curve:
    """The curve on the axis that is drawn."""
    if not log:
        return curve
    with np.errstate(invalid="ignore", divide="ignore"):
        y = np.log10(curve.y)
    return Curve(curve.x, y, curve.style, curve.dots)


def _marks(low: float, high: float, height: int, log: bool) -> dict[int, str]:
    """The numbers at the left, by row."""
    if log:
        bottom, top = math.log10(low), math.log10(high)
        if top - bottom > 1:
            values = [10.0**p for p in range(math.ceil(bottom), math.floor(top) + 1)]
        else:
            values = [v for v in ticks(low, high, max(2, height // 3)) if v > 0]
        at = [(top - math.log10(v)) / (top - bottom) for v in values]
    else:
        values = ticks(low, high, max(1, height // 3))
        at = [(high - v) / (high - low) for v in values]
    rows = {}
    for value, share in zip(values, at, strict=True):
        row = round(share * (height * 4 - 1)) // 4
        if 0 <= row < height and row - 1 not in rows:
            rows[row] = short(value)
    return rows


def _runs(text: Text, cells: list[tuple[str, str]]) -> None:
    """Appends cells, those of one style at once."""
    run, last = "", ""
    for character, style in cells:
        if style != last:
            text.append(run, last or None)
            run, last = "", style
        run += character
    text.append(run, last or None)


def _steps(across: tuple[float, float], width: int, muted: str, faint: str) -> Text:
    """The steps below the plot."""
    row = [" "] * (LABELS + width)
    row[LABELS - 1] = "└"
    begin, end = across
    for value in ticks(begin, end, max(1, width // 14)):
        label = short(value)
        place = LABELS + round((value - begin) / (end - begin) * (width - 1)) - len(label) // 2
        place = min(max(place, LABELS), LABELS + width - len(label))
        before = row[max(0, place - 1) : place + len(label) + 1]
        if all(c in " └" for c in before):
            row[place : place + len(label)] = label
    return Text("".join(row), muted, end="")
