"""Drawing curves with the dots of Braille characters: two by four of them in a cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.uint8)
"""The bit of each dot in Unicode's Braille patterns (U+2800), by row and column."""


@dataclass(frozen=True)
class Curve:
    """Points to be joined.

    Attributes:
        x, y: of equal length; a `y` that is not finite interrupts the curve.
        style: how it looks, as Rich has it.
        dots: whether the points themselves are marked, as where there are few.
    """

    x: Doubles
    y: Doubles
    style: str
    dots: bool = False


class Canvas:
    """Cells of characters and their styles; later curves lie over earlier ones.

    Args:
        width, height: in cells.

    >>> import numpy as np
    >>> from ingle.dashboard.canvas import Canvas, Curve
    >>> canvas = Canvas(4, 1)
    >>> canvas.draw(Curve(np.array([0.0, 1.0]), np.array([0.0, 1.0]), "red"), (0, 1), (0, 1))
    >>> canvas.text(0)
    '⣀⠤⠒⠉'
    """

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self._bits = np.zeros((height, width), np.uint8)
        self._marks = np.full((height, width), "", "<U1")
        self._styles: list[str] = [""]
        self._style = np.zeros((height, width), np.int16)

    def draw(self, curve: Curve, across: tuple[float, float], up: tuple[float, float]) -> None:
        """Draws a curve where `across` and `up` are the numbers at the borders."""
        columns, rows = self.width * 2, self.height * 4
        x = (np.asarray(curve.x) - across[0]) / ((across[1] - across[0]) or 1.0) * (columns - 1)
        y = (up[1] - np.asarray(curve.y)) / ((up[1] - up[0]) or 1.0) * (rows - 1)
        x, y = _thinned(x, y, columns)
        style = self._style_of(curve.style)
        if curve.dots:
            fine = np.isfinite(y)
            self._mark(x[fine], y[fine], style)
        px, py = _joined(x, y)
        column, row = np.rint(px).astype(int), np.rint(py).astype(int)
        inside = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
        column, row = column[inside], row[inside]
        cells = row // 4, column // 2
        # A cell has one colour: the dots of what lies below give way.
        other = self._style[cells] != style
        self._bits[cells[0][other], cells[1][other]] = 0
        self._style[cells] = style
        np.bitwise_or.at(self._bits, cells, _BITS[row % 4, column % 2])

    def _mark(self, x: Doubles, y: Doubles, style: int) -> None:
        column, row = np.rint(x / 2 - 0.25).astype(int), np.rint(y / 4 - 0.375).astype(int)
        inside = (column >= 0) & (column < self.width) & (row >= 0) & (row < self.height)
        self._marks[row[inside], column[inside]] = "•"
        self._style[row[inside], column[inside]] = style

    def _style_of(self, style: str) -> int:
        if style not in self._styles:
            self._styles.append(style)
        return self._styles.index(style)

    def text(self, row: int) -> str:
        """The characters of a row."""
        return "".join(character for character, _ in self.cells(row))

    def cells(self, row: int) -> list[tuple[str, str]]:
        """The characters of a row with their styles."""
        return [
            (mark or (chr(0x2800 + bits) if bits else " "), self._styles[style])
            for mark, bits, style in zip(
                self._marks[row].tolist(), self._bits[row].tolist(), self._style[row].tolist(),
                strict=True,
            )
        ]  # fmt: skip


def _thinned(x: Doubles, y: Doubles, columns: int) -> tuple[Doubles, Doubles]:
    """Of many points the lowest and the highest of each column of dots, in their order."""
    if len(x) <= 4 * columns:
        return x, y
    fine = np.isfinite(y)
    x, y = x[fine], y[fine]
    column = np.clip(np.rint(x), -1, columns).astype(int)
    starts = np.flatnonzero(np.diff(column, prepend=column[:1] - 1))
    low, high = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
    first = y[starts]
    # Upwards or downwards, as the curve comes in.
    falls = np.abs(first - low) <= np.abs(first - high)
    pairs = np.where(falls[:, None], np.stack([low, high], 1), np.stack([high, low], 1))
    return np.repeat(x[starts], 2), pairs.ravel()


def _joined(x: Doubles, y: Doubles) -> tuple[Doubles, Doubles]:
    """Points close enough together that the dots between two of them touch."""
    if len(x) == 1:
        return (x, y) if np.isfinite(y[0]) else (x[:0], y[:0])
    fine = np.isfinite(y[1:]) & np.isfinite(y[:-1])
    x0, y0, dx, dy = (a[fine] for a in (x[:-1], y[:-1], np.diff(x), np.diff(y)))
    # What leads far out of the picture needs no dots there.
    count = np.clip(np.maximum(np.abs(dx), np.abs(dy)), 1, 4096).astype(int) + 1
    part = np.repeat(np.arange(len(x0)), count)
    at = np.arange(len(part)) - np.repeat(np.cumsum(count) - count, count)
    share = at / np.maximum(np.repeat(count, count) - 1, 1)
    return x0[part] + dx[part] * share, y0[part] + dy[part] * share


def smoothed(y: Doubles, weight: float) -> Doubles:
    """An exponential moving average that begins without a bias; what is not finite is skipped.

    >>> import numpy as np
    >>> from ingle.dashboard.canvas import smoothed
    >>> smoothed(np.array([1.0, 1.0, 4.0]), 0.5).tolist()
    [1.0, 1.0, 2.7142857142857144]
    """
    if weight <= 0:
        return y
    fine = np.isfinite(y)
    values, weights = np.where(fine, y, 0.0), fine.astype(float)
    # In blocks, within which the powers of the weight stay in range.
    block = max(1, min(len(y), int(-250 / math.log10(weight)) if weight < 1 else len(y)))
    top = bottom = 0.0
    found = np.empty(len(y))
    for begin in range(0, len(y), block):
        part = slice(begin, begin + block)
        size = len(values[part])
        powers = weight ** np.arange(size)
        tops = (np.cumsum(values[part] / powers) + weight * top) * powers
        bottoms = (np.cumsum(weights[part] / powers) + weight * bottom) * powers
        with np.errstate(invalid="ignore", divide="ignore"):
            found[part] = tops / bottoms
        top, bottom = tops[-1], bottoms[-1]
    return np.where(fine, found, np.nan)


def ticks(low: float, high: float, count: int) -> list[float]:
    """About `count` round numbers from `low` to `high`.

    >>> from ingle.dashboard.canvas import ticks
    >>> ticks(0.13, 0.87, 4)
    [0.2, 0.4, 0.6, 0.8]
    """
    if not high > low or count < 1:
        return [low]
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def short(value: float) -> str:
    """A number in few characters.

    >>> from ingle.dashboard.canvas import short
    >>> [short(x) for x in (0.00012, 0.5, 12.0, 1234.0, 2.5e6, float("nan"))]
    ['1.2e-4', '0.5', '12', '1.23k', '2.5M', '-']
    """
    if not math.isfinite(value):
        return "-" if math.isnan(value) else ("∞" if value > 0 else "-∞")
    size = abs(value)
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= unit:
            return f"{value / unit:.3g}{name}"
    if size and size < 1e-3:
        digits, _, power = f"{value:.2g}".partition("e")
        return f"{digits}e{int(power)}" if power else f"{value:.1e}".replace("e-0", "e-")
    return f"{value:.4g}" if size < 10 else f"{value:.3g}"


def limits(values: Sequence[Doubles], logarithmic: bool) -> tuple[float, float]:
    """The lowest and highest number to show of several curves, without the wildest spikes."""
    parts = [v[np.isfinite(v) & ((v > 0) | (not logarithmic))] for v in values]
    every = np.concatenate([np.asarray(p) for p in parts if len(p)] or [np.array([0.1, 1.0])])
    low, high = float(every.min()), float(every.max())
    if len(every) > 50:
        usual = np.percentile(every, [0.5, 99.5])
        reach = usual[1] - usual[0]
        low, high = max(low, usual[0] - 0.3 * reach), min(high, usual[1] + 0.3 * reach)
    if low == high:
        reach = abs(low) * 0.1 or 1.0
        return (low / 2, low * 2) if logarithmic else (low - reach, high + reach)
    edge = 0.04 * (high - low)
    if logarithmic:
        edge = (high / low) ** 0.04
        return low / edge, high * edge
    return low - edge, high + edge
