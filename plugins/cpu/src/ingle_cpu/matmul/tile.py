"""Shapes of a result in registers, and what the elements of the panels are that they read."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ingle.fusion.device.kernels import HALVES

QUADS = {
    ("uint8", "int8"): "quads", ("int8", "uint8"): "quads_swapped",
    ("int8", "int8"): "quads_flipped", ("uint8", "uint8"): "quads_flipped_swapped",
}  # fmt: skip
"""Kinds by the dtypes of both operands."""
WORDS = "words"
"""The kind for all of these where the processor takes no four bytes at once."""
_HALVES = "bfloat16", "bfloat16"
TILES = {
    _HALVES: "bf16ps", ("int8", "int8"): "bssd", ("int8", "uint8"): "bsud",
    ("uint8", "int8"): "busd", ("uint8", "uint8"): "buud",
}  # fmt: skip
"""Kinds in registers of tiles, named as their instructions are."""
LINES = "lines_"
"""Begins the kinds in registers of tiles that read rows of `a` where they lie."""
_OF_LINES = frozenset(LINES + kind for kind in TILES.values())
_IN_TILES = _OF_LINES | frozenset(TILES.values())
_NUMBERS = {
    **dict.fromkeys([*QUADS.values(), *_IN_TILES], 4),
    **dict.fromkeys(["pairs", WORDS, TILES[_HALVES], LINES + TILES[_HALVES]], 2),
}
"""Of kinds that take several steps of k at once, how many."""


class Tile(NamedTuple):
    """A shape of the result in registers.

    Attributes:
        kind: `"packed"`, `"pairs"`, `WORDS`, one of `QUADS` or `TILES` or of these behind `LINES`,
            `"direct"`, `"columns"`, `"sliding"`, `"stacked"`, `"dot"` or `"streamed"`.
        rows: along i.
        vectors: registers along j.
    """

    kind: str
    rows: int
    vectors: int

    @property
    def numbers(self) -> int:
        """Of how many steps of k an element of a panel is made."""
        return _NUMBERS.get(self.kind, 1)

    @property
    def in_tiles(self) -> bool:
        """Whether it is in registers of tiles."""
        return self.kind in _IN_TILES

    @property
    def instruction(self) -> str:
        """What the name of the instruction of registers of tiles ends with."""
        return self.kind.removeprefix(LINES)

    @property
    def takes_lines(self) -> bool:
        """Whether registers of tiles read rows of `a` where they lie, a line of 64 bytes each."""
        return self.kind in _OF_LINES

    @property
    def flips(self) -> bool:
        """Whether the uppermost bits of `a` are turned over."""
        return "flipped" in self.kind


Form = Literal[
    "single", "pairs", "low_pairs", "row_pairs", "words", "quads", "row_quads", "flipped"
]  # fmt: skip
"""What an element of a panel is: a number; two bfloat16, the first one in the upper half, or in the
lower one; two bytes as numbers of 16 bits, the first one in the lower half; four bytes, the first
one in the lowest bits; or these with the uppermost bit of each turned over. Forms of rows have 16
elements of a row side by side.
"""
NUMBERS: dict[Form, int] = {
    "single": 1, "pairs": 2, "low_pairs": 2, "row_pairs": 2, "words": 2,
    "quads": 4, "row_quads": 4, "flipped": 4,
}  # fmt: skip
"""How many numbers an element is made of."""
BYTES = frozenset({"int8", "uint8"})


def compute_dtype(dtype: str) -> str:
    """What products of a dtype are summed in."""
    return "int32" if dtype in BYTES else "float32" if dtype in HALVES else dtype


def a_form(tile: Tile) -> Form:
    """Of the left operand's panels."""
    if tile.in_tiles:
        return "row_pairs" if tile.numbers == 2 else "row_quads"
    return "flipped" if tile.flips else b_form(tile)


def b_form(tile: Tile) -> Form:
    """Of the right operand's panels."""
    if tile.kind == WORDS:
        return "words"
    if tile.in_tiles and tile.numbers == 2:
        return "low_pairs"
    return {1: "single", 2: "pairs", 4: "quads"}[tile.numbers]  # type: ignore[return-value]
