"""A plan as a picture: its kernels in order, and the memory that goes in, between and out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .buffers import Buffer

ROW, GAP, CHIP, LETTER = 24, 16, 22, 6.3
LEFT, CARD, RIGHT, WIDTH, PILL = 20, 250, 740, 960, 200
CARD_WIDTH = RIGHT - CARD - 70
HUES = ("#2f7ed8", "#d9822b", "#2a9d6f", "#b0479b", "#c2483d", "#6b7a12", "#5b5bd6")
STYLE = """
:root { --back: #ffffff; --text: #1f2430; --soft: #69707f; --edge: #c9ced8; --card: #f6f7f9;
  --nest: #2f7ed8; --product: #d9822b; --host: #c2483d; --chip: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --back: #14171d; --text: #e4e7ee; --soft: #9aa3b2;
  --edge: #3d4452; --card: #1d2129; --chip: #282e39; } }
text { fill: var(--text); font: 11px ui-sans-serif, system-ui, sans-serif; }
.soft { fill: var(--soft); }
.head { font-size: 14px; font-weight: 600; }
.name { font-weight: 600; }
.card { fill: var(--card); stroke: var(--edge); }
.chip { fill: var(--chip); stroke: var(--edge); }
.pill { fill: var(--back); }
.wire { fill: none; stroke-width: 1.4; opacity: 0.75; }
"""


class Card(NamedTuple):
    """One kernel of the picture; `reads` and `writes` are numbers of buffers."""

    kind: str
    title: str
    note: str
    operations: tuple[str, ...]
    again: tuple[str, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]


class _DrawnRow(NamedTuple):
    """A card with what stands beside it: buffers first read here, and those written here."""

    card: Card
    lines: list[list[str]]
    first: list[int]
    top: int
    height: int


def escaped(text: str) -> str:
    """Text as it stands in XML."""
    from html import escape  # with a table of all names of letters, for few programs

    return escape(text)


def drawn(title: str, cards: Sequence[Card], buffers: Sequence[Buffer]) -> str:
    """The picture as SVG; it follows the reader's preference for light or dark."""
    rows = _rows(cards)
    bottom = rows[-1].top + rows[-1].height + GAP if rows else 60
    ends = _ends(rows)
    parts = [*_wires(rows, ends), *_pills(ends, buffers)]
    parts += [part for number, row in enumerate(rows) for part in _card(number, row)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom}" '
        f'width="{WIDTH}" height="{bottom}"><style>{STYLE}</style>'
        f'<rect width="{WIDTH}" height="{bottom}" rx="8" fill="var(--back)"/>'
        f'<text class="head" x="{LEFT}" y="26">{escaped(title)}</text>'
        f'<text class="soft" x="{LEFT}" y="46">what it is given</text>'
        f'<text class="soft" x="{CARD}" y="46">kernels, in order</text>'
        f'<text class="soft" x="{RIGHT}" y="46">what they store</text>{"".join(parts)}</svg>'
    )


def _rows(cards: Sequence[Card]) -> list[_DrawnRow]:
    rows: list[_DrawnRow] = []
    known = {buffer for card in cards for buffer in card.writes}
    top = 58
    for card in cards:
        first = [b for b in card.reads if b not in known]
        known.update(first)
        lines = _wrapped([*_chips(card.operations), *_chips(card.again, " again")])
        height = max(34 + CHIP * len(lines), ROW * max(len(first), len(card.writes)))
        rows.append(_DrawnRow(card, lines, first, top, height))
        top += height + GAP
    return rows


def _chips(operations: Iterable[str], mark: str = "") -> list[str]:
    counted = Counter(operations).items()
    return [(name if count == 1 else f"{name} \u00d7{count}") + mark for name, count in counted]


def _wrapped(chips: Iterable[str]) -> list[list[str]]:
    """Chips in lines that fit into a card."""
    lines: list[list[str]] = [[]]
    used = 0.0
    for chip in chips:
        wide = _wide(chip) + 6
        if lines[-1] and used + wide > CARD_WIDTH - 20:
            lines.append([])
            used = 0.0
        lines[-1].append(chip)
        used += wide
    return lines


def _wide(chip: str) -> float:
    return len(chip) * LETTER + 12


def _ends(rows: Sequence[_DrawnRow]) -> dict[int, tuple[int, float]]:
    """Where the pill of each buffer is: its left edge, and the middle of its height."""
    ends: dict[int, tuple[int, float]] = {}
    for row in rows:
        middle = row.top + row.height / 2
        for x, found in ((LEFT, row.first), (RIGHT, [b for b in row.card.writes if b not in ends])):
            for place, buffer in enumerate(found):
                ends[buffer] = (x, middle + ROW * (place - (len(found) - 1) / 2))
    return ends


def _wires(rows: Sequence[_DrawnRow], ends: dict[int, tuple[int, float]]) -> list[str]:
    parts = []
    for row in rows:
        for wires, direction in ((row.card.writes, 1), (row.card.reads, -1)):
            for place, buffer in enumerate(wires):
                x, y = ends[buffer]
                at = row.top + row.height * (place + 1) / (len(wires) + 1)
                given = x == LEFT
                pill, card = (x + PILL, CARD) if given else (x, RIGHT - 70)
                bend = (card - pill) * (0.5 if abs(at - y) < 2 * ROW else 0.9)
                tip = f'<circle cx="{card}" cy="{at:.0f}" r="2.6" fill="{_hue(buffer)}"/>'
                parts.append(
                    f'<path class="wire" stroke="{_hue(buffer)}" d="M{pill} {y:.0f} '
                    f'C{pill + bend:.0f} {y:.0f} {card - bend:.0f} {at:.0f} {card} {at:.0f}"/>'
                    + (tip if direction < 0 else "")
                )
    return parts


def _pills(ends: dict[int, tuple[int, float]], buffers: Sequence[Buffer]) -> list[str]:
    return [
        f'<rect class="pill" x="{x}" y="{y - 9:.0f}" width="{PILL}" height="18" rx="9" '
        f'stroke="{_hue(number)}"'
        + (' stroke-dasharray="4 3"' if buffers[number].role == "between" else "")
        + f'/><text x="{x + PILL / 2:.0f}" y="{y + 4:.0f}" text-anchor="middle">'
        f"{escaped(str(buffers[number]))}</text>"
        for number, (x, y) in ends.items()
    ]


def _hue(buffer: int) -> str:
    return HUES[buffer % len(HUES)]


def _card(number: int, row: _DrawnRow) -> list[str]:
    card, top = row.card, row.top
    parts = [
        f'<rect class="card" x="{CARD}" y="{top}" width="{CARD_WIDTH}" height="{row.height}" '
        f'rx="6"/><rect x="{CARD}" y="{top}" width="4" height="{row.height}" rx="2" '
        f'fill="var(--{card.kind})"/>'
        f'<text x="{CARD + 14}" y="{top + 18}"><tspan class="soft">{number}</tspan>  '
        f'<tspan class="name">{escaped(card.title)}</tspan></text>'
        f'<text class="soft" x="{CARD + CARD_WIDTH - 10}" y="{top + 18}" text-anchor="end">'
        f"{escaped(card.note)}</text>"
    ]
    for line, chips in enumerate(row.lines):
        x, y = CARD + 14.0, top + 28 + CHIP * line
        for chip in chips:
            parts.append(
                f'<rect class="chip" x="{x:.1f}" y="{y}" width="{_wide(chip):.1f}" height="18" '
                f'rx="4"/><text x="{x + _wide(chip) / 2:.1f}" y="{y + 13}" '
                f'text-anchor="middle">{escaped(chip)}</text>'
            )
            x += _wide(chip) + 6
    return parts
