"""Draws what a terminal shows as a picture.

`tmux capture-pane -pe | python docs/terminal_picture.py X.png COLUMNS` makes one of a window.
Braille characters, which few fonts have, are drawn as their dots.
"""

import sys
from pathlib import Path

from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont
from rich.ansi import AnsiDecoder
from rich.color import Color
from rich.style import Style
from rich.text import Text

BACK, FRONT, FRAME = "#0e1218", "#d5dbe5", "#1c2430"
SIZE, SCALE = 15, 2
"""Of the letters in pixels, and how many pixels of the picture make one."""
DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
"""Column and row of each of a Braille character's dots, by bit."""
BLOCKS = {"█": (0, 0, 1, 1), "▔": (0, 0, 1, 0.12), "▁": (0, 0.88, 1, 1), "▪": (0.2, 0.3, 0.8, 0.62)}
"""What is drawn as a rectangle, in shares of a cell."""


def picture(screen: str, columns: int) -> Image.Image:
    """The screen with its colours, as `tmux capture-pane -pe` gives it."""
    lines = list(AnsiDecoder().decode(screen))
    fonts = {bold: _font(bold) for bold in (False, True)}
    width, height = round(fonts[False].getlength("M")), round(SIZE * SCALE * 1.3)
    edge = SIZE * SCALE
    image = Image.new("RGB", (columns * width + 2 * edge, len(lines) * height + 2 * edge), BACK)
    pen = ImageDraw.Draw(image)
    pen.rounded_rectangle(
        (2, 2, image.width - 3, image.height - 3), edge // 2, outline=FRAME, width=3
    )
    for row, line in enumerate(lines):
        for column, (character, style) in enumerate(zip(line.plain, _styles(line), strict=True)):
            box = (edge + column * width, edge + row * height, width, height)
            _cell(pen, box, character, style, fonts)
    return image


def _styles(line: Text) -> list[Style]:
    found = [Style()] * len(line.plain)
    for span in line.spans:
        for place in range(span.start, min(span.end, len(found))):
            style = span.style if isinstance(span.style, Style) else Style.parse(span.style)
            found[place] += style
    return found


def _cell(
    pen: ImageDraw.ImageDraw,
    box: tuple[int, int, int, int],
    character: str,
    style: Style,
    fonts: dict[bool, ImageFont.FreeTypeFont],
) -> None:
    x, y, width, height = box
    front, back = _colour(style.color, FRONT), _colour(style.bgcolor, BACK)
    if style.reverse:
        front, back = back, front
    if back != BACK:
        pen.rectangle((x, y, x + width - 1, y + height - 1), back)
    bits = ord(character) - 0x2800
    if 0 < bits < 256:
        radius = width / 7
        for bit, (column, row) in enumerate(DOTS):
            if bits >> bit & 1:
                cx, cy = x + (column + 0.5) * width / 2, y + (row + 0.5) * height / 4
                pen.ellipse((cx - radius, cy - radius, cx + radius, cy + radius), front)
    elif character in BLOCKS:
        left, top, right, bottom = BLOCKS[character]
        pen.rectangle((x + left * width, y + top * height, x + right * width - 1,
                       y + bottom * height - 1), front)  # fmt: skip
    elif character.strip():
        pen.text((x, y + height * 0.06), character, front, fonts[bool(style.bold)])


def _colour(colour: Color | None, default: str) -> str:
    if colour is None or colour.is_default:
        return default
    return colour.get_truecolor().hex


def _font(bold: bool) -> ImageFont.FreeTypeFont:
    weight = "bold" if bold else "normal"
    path = font_manager.findfont(f"DejaVu Sans Mono:weight={weight}")
    return ImageFont.truetype(path, SIZE * SCALE)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    found = picture(sys.stdin.read(), int(sys.argv[2]))
    smaller = found.resize((found.width * 2 // 3, found.height * 2 // 3), Image.Resampling.LANCZOS)
    smaller.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(target)
