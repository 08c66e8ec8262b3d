"""Runs in lines and tables: one told briefly, several side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .canvas import Canvas, Curve, limits, short, smoothed
from .plots import names_of
from .reading import Run
from .telling import duration, nbytes
from .theme import COLOURS

CURVES = ("#6cb6f5", "#f0a35e", "#8fd18b", "#b9a2e8", "#ea7a80", "#e8c467")
"""The colours of runs, in the order in which they are named."""
RISING = ("accuracy", "r2", "iou", "dice", "auroc", "precision", "recall", "fbeta", "f1", "bleu",
          "map", "psnr", "ssim", "average_precision", "samples/s", "rouge")  # fmt: skip
"""Words in the names of metrics of which more is better."""


def described(run: Run) -> str:
    """A run in a few lines.

    Returns:
        What it is, how far it came, and the newest and best value of each metric.
    """
    of = f" of {run.epochs}" if run.epochs else ""
    lines = [
        f"{run.name}: {run.status}{f' ({run.reason})' if run.reason else ''}",
        f"epoch {run.epoch}{of}, step {run.step:,}, {duration(run.seconds)} gone"
        + (f", {duration(run.left)} left" if run.left and run.state != "ended" else ""),
    ]
    parameters = sum(sum(own.values()) for _, _, own in run.modules)
    if parameters:
        lines.append(f"{parameters:,} parameters on {', '.join(run.devices)}")
    memory = run.gauges.get("process/memory")
    if memory:
        lines.append(f"{nbytes(memory)} of memory")
    for name in _metrics(run):
        value, best, step = _best(run, name)
        lines.append(f"{name:24} {short(value):>9}   best {short(best)} at step {step:,.0f}")
    return "\n".join(lines) + "\n"


def _metrics(run: Run) -> list[str]:
    return sorted(n for n in run.series if n.startswith(("train/", "valid/")))


def rises(name: str) -> bool:
    """Whether more is better, judged by the name.

    >>> from ingle.dashboard.comparing import rises
    >>> rises("valid/accuracy"), rises("train/loss")
    (True, False)
    """
    return any(word in name.lower() for word in RISING)


def _best(run: Run, name: str) -> tuple[float, float, float]:
    """The newest value, the best one and its step."""
    series = run.series[name]
    values = np.array(series.values)
    if len(values) > 50:
        values = smoothed(values, 0.9)
    fine = np.flatnonzero(np.isfinite(values))
    if not len(fine):
        return math.nan, math.nan, math.nan
    at = fine[(np.argmax if rises(name) else np.argmin)(values[fine])]
    return float(values[-1]), float(values[at]), series.steps[int(at)]


def print_comparison(runs: Sequence[Run], console: Console | None = None) -> None:
    """Writes a table of the runs and a plot of each metric that they share.

    Args:
        runs: at least one.
        console: where to; standard output if not given.
    """
    console = console or Console()
    names = _distinct([run.name for run in runs])
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    for i, name in enumerate(names):
        table.add_column(Text(name, CURVES[i % len(CURVES)]), justify="right")

    def row(name: str, values: Sequence[str], best: int | None = None) -> None:
        cells = [Text(v, "bold" if i == best else "") for i, v in enumerate(values)]
        table.add_row(name, *cells)

    row("status", [run.status for run in runs])
    row("epochs", [str(run.epoch) for run in runs])
    row("steps", [f"{run.step:,}" for run in runs])
    row("time", [duration(run.seconds) for run in runs])
    counts = [sum(sum(own.values()) for _, _, own in run.modules) for run in runs]
    row("parameters", [f"{count:,}" if count else "-" for count in counts])
    for metric in dict.fromkeys(m for run in runs for m in _metrics(run)):
        found = [_best(run, metric)[1] if metric in run.series else math.nan for run in runs]
        fine = [i for i, v in enumerate(found) if not math.isnan(v)]
        best = (max if rises(metric) else min)(fine, key=found.__getitem__) if fine else None
        row(f"best {metric}", [short(v) for v in found], best if len(runs) > 1 else None)
    console.print(table)
    for metric in names_of(runs[0]):
        for kind in ("valid", "train"):
            curves = [
                (CURVES[i % len(CURVES)], run.series[f"{kind}/{metric}"])
                for i, run in enumerate(runs)
                if f"{kind}/{metric}" in run.series
            ]
            if len(curves) == len(runs):
                _plot(console, f"{kind}/{metric}", curves)
                break


def _plot(console: Console, name: str, curves: Sequence[tuple[str, object]]) -> None:
    width, height = min(console.width, 100) - 9, 10
    drawn = []
    for colour, series in curves:
        x, y = np.array(series.steps), np.array(series.values)  # type: ignore[attr-defined]
        drawn.append(Curve(x, smoothed(y, 0.9) if len(y) > 50 else y, colour, dots=len(y) <= 40))
    low, high = limits([c.y for c in drawn], False)
    end = max(float(c.x[-1]) for c in drawn)
    canvas = Canvas(width, height)
    for curve in drawn:
        canvas.draw(curve, (0.0, max(end, 1.0)), (low, high))
    muted = COLOURS[True]["muted"]
    console.print(f"\n[bold]{name}[/bold], 0 to {end:,.0f} steps", highlight=False)
    for row in range(height):
        label = short(high) if row == 0 else short(low) if row == height - 1 else ""
        line = Text(f"{label:>7} ", muted).append("│")
        for character, style in canvas.cells(row):
            line.append(character, style or None)
        console.print(line)


def _distinct(names: Sequence[str]) -> list[str]:
    """The names without the folders that all have in common."""
    parts = [name.rstrip("/").split("/") for name in names]
    while len(names) > 1 and all(len(p) > 1 for p in parts) and len({p[0] for p in parts}) == 1:
        parts = [p[1:] for p in parts]
    return ["/".join(p) for p in parts]
