"""The chart of `run.py --plot`: for each workload a bar for each system, as an SVG picture.

A bar's length is the speed beside the fastest of the peers, by the quickest call of each: what a
machine does when nobody disturbs it. The picture follows the reader's preference for light or dark.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

COLORS = {"ingle": ("#d9622b", "#ff9a62"), "peer": ("#9aa4b5", "#667086")}
NAMES = {
    "ingle-cpu": "Ingle, compiled", "ingle-cpu-eager": "Ingle", "ingle-numpy": "Ingle on NumPy",
    "ingle-cuda": "Ingle on CUDA, compiled", "ingle-cuda-eager": "Ingle on CUDA",
    "ingle-opencl": "Ingle on OpenCL, compiled", "ingle-opencl-eager": "Ingle on OpenCL",
    "numpy": "NumPy", "torch": "PyTorch", "compile": "torch.compile", "jax": "JAX",
}  # fmt: skip
LABELS, BARS, RIGHT, HEAD, BAR, GAP = 220, 500, 190, 74, 15, 16
MOST = 3.0
"""Longer bars end here, with an arrow; the number says how long they are."""


class Row(Protocol):
    """What the chart takes of a measurement."""

    @property
    def workload(self) -> str: ...
    @property
    def system(self) -> str: ...
    @property
    def ratio_min(self) -> float | None: ...


def style() -> str:
    """Colours for light and dark."""
    light = "".join(f"--{name}: {pair[0]}; " for name, pair in COLORS.items())
    dark = "".join(f"--{name}: {pair[1]}; " for name, pair in COLORS.items())
    return f"""
:root {{ --back: #ffffff; --text: #1f2430; --soft: #69707f; --grid: #e3e6ec; {light}}}
@media (prefers-color-scheme: dark) {{ :root {{ --back: #14171d; --text: #e4e7ee;
  --soft: #9aa3b2; --grid: #2a303b; {dark}}} }}
text {{ fill: var(--text); font: 12px ui-sans-serif, system-ui, sans-serif; }}
.told {{ paint-order: stroke; stroke: var(--back); stroke-width: 4px; }}
.soft {{ fill: var(--soft); font-size: 11px; }}
.head {{ font-size: 15px; font-weight: 600; }}
.strong {{ font-weight: 600; }}
.grid {{ stroke: var(--grid); }}
.one {{ stroke: var(--soft); stroke-dasharray: 4 3; }}
"""


def write(rows: Sequence[Row], file: str, *, where: str) -> None:
    """Draws the rows that have a ratio.

    Args:
        rows: of `run.py`.
        file: where to; an SVG file.
        where: the line below the chart: machine, versions and date.
    """
    Path(file).write_text(drawn([r for r in rows if r.ratio_min], where), "utf-8")


def drawn(rows: Sequence[Row], where: str) -> str:
    """The picture."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.workload, []).append(row)
    longest = min(MOST, max((r.ratio_min or 0.0 for r in rows), default=1.0))
    scale = BARS / (math.ceil(max(longest, 1.0) * 4) / 4)
    bodies, y = [], HEAD
    for workload, group in groups.items():
        middle = y + BAR * len(group) / 2 + 4
        bodies.append(f'<text x="{LABELS - 12}" y="{middle:.0f}" text-anchor="end">')
        bodies.append(f"{html.escape(workload)}</text>")
        for row in sorted(group, key=lambda r: -(r.ratio_min or 0.0)):
            bodies.append(_bar(row, y, scale))
            y += BAR
        y += GAP
    width, height = LABELS + BARS + RIGHT, y + 34
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}"><style>{style()}</style>'
        f'<rect width="{width}" height="{height}" rx="8" fill="var(--back)"/>'
        '<text class="head" x="20" y="28">Speed beside the fastest of the others</text>'
        '<text class="soft" x="20" y="46">by the quickest call of each; longer is faster</text>'
        f"{_grid(scale, y)}{''.join(bodies)}"
        f'<text class="soft" x="20" y="{height - 14}">{html.escape(where)}</text></svg>\n'
    )


def _bar(row: Row, y: int, scale: float) -> str:
    ratio = row.ratio_min or 0.0
    length = min(ratio * scale, BARS)
    cut = " \u203a" if ratio * scale > BARS else ""
    kind = "ingle" if row.system.startswith("ingle") else "peer"
    shown = "told strong" if kind == "ingle" else "told"
    name = html.escape(NAMES.get(row.system, row.system))
    return (
        f'<rect x="{LABELS}" y="{y + 1}" width="{length:.1f}" height="{BAR - 2}" rx="2" '
        f'fill="var(--{kind})"/><text class="{shown}" x="{LABELS + length + 6:.1f}" '
        f'y="{y + BAR - 3}">{ratio:.2f}\u00d7{cut} {name}</text>'
    )


def _grid(scale: float, bottom: int) -> str:
    lines = []
    for quarter in range(int(BARS / scale * 2) + 1):
        x = LABELS + quarter / 2 * scale
        kind = "one" if quarter == 2 else "grid"
        lines.append(
            f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{HEAD - 6}" y2="{bottom - 8}"/>'
            f'<text class="soft" x="{x:.1f}" y="{HEAD - 12}" text-anchor="middle">'
            f"{quarter / 2:g}\u00d7</text>"
        )
    return "".join(lines)
