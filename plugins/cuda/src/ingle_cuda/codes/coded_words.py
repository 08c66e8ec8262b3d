"""Numbers of codes in CUDA C++: words of codes in memory, and what they stand for.

A code's bits in the place of the last ones of a float32 of 2^23 or more are that number and the
code, times the place; one multiply-add takes the place away, and what is not the code.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .problem import WORD, Blocks, CodedWeight

_ABOVE = 23
"""The bit of a float32 that is 1 of a whole number there."""
WIDTH, ROWS, TAKEN, CODES_ROW, ZERO_AT = range(5)
"""Places of a kernel's numbers: numbers in a row of the weight, its rows, the bytes of a row of
codes and those from row to row; the zero point's bits, where it is a number."""
SCALE, ZERO = 5, 8
"""Where numbers of a parameter begin: rows of the weight that share an entry, and its strides."""
NUMBERS = 11


class CodedShape(NamedTuple):
    """What the source of a kernel that reads codes depends on.

    Attributes:
        bits, signed: of a code.
        dtype: of the scale.
        words: whether codes are loaded 4 bytes at once.
        group: numbers of a row that share a scale; 0 for all of them.
        blocks: whether several rows share a scale that others do not.
        zero: the zero point's dtype; empty where it is a number.
        zero_group, zero_blocks: likewise.
    """

    bits: int
    signed: bool
    dtype: str
    words: bool
    group: int
    blocks: bool
    zero: str
    zero_group: int
    zero_blocks: bool

    @property
    def each(self) -> int:
        """Codes in a word."""
        return WORD * 8 // self.bits

    @property
    def places(self) -> int:
        """Codes in half a word: as many as are read where they lie in it."""
        return self.each // 2

    @property
    def shared(self) -> int:
        """Neighbouring codes of a word that share all parameters."""
        return math.gcd(self.each, self.group, self.zero_group)


def shape_of(weight: CodedWeight) -> CodedShape:
    """The shape of a weight."""
    zero = weight.zero or Blocks(1, 0, (0, 0))
    return CodedShape(
        weight.bits, weight.signed, weight.dtype, weight.words, weight.scale.group,
        weight.scale.of_rows, weight.zero_dtype, zero.group, zero.of_rows,
    )  # fmt: skip


def word_source(shape: CodedShape) -> str:
    """Functions that load a word of codes, and make numbers of it."""
    load = "return *(const uint32_t *)own;"
    if not shape.words:
        load = f"""\
uint32_t found = 0;
    #pragma unroll
    for (int n = 0; n < {WORD}; n++)
        found |= (first + n < taken ? (uint32_t)own[n] : 0) << 8 * n;
    return found;"""
    places, bits = shape.places, shape.bits
    sign = 1 << (bits - 1) if shape.signed else 0
    return f"""\
static uint32_t word_of(const uint8_t *own, uint32_t first, uint32_t taken)
{{
    {load}
}}
/* What a number is less than its float, for each place of half a word. */
static float low_of(int place, float zero)
{{ return -(float)({1 << _ABOVE} >> {bits} * place) - {sign}.0f - zero; }}
/* A code less its zero point. */
static float decoded(uint32_t word, int n, const float *low, const uint32_t *above)
{{
    const int place = n % {places}, at = {bits} * place;
    const uint32_t part = n < {places} ? word : word >> 16;
    const uint32_t number = (part & {(1 << bits) - 1}u << at) ^ above[place];
    return fmaf(__builtin_bit_cast(float, number), 1.0f / (1 << at), low[place]);
}}"""


def aboves(shape: CodedShape) -> str:
    """What stands above codes in a float, for each place, and makes their signs codes' own.

    The compiler may not know it: it would make it a part of each instruction, and load the masks
    of all places instead, time and again.
    """
    sign = 1 << (shape.bits - 1) if shape.signed else 0
    number = f"{(127 + _ABOVE) << _ABOVE}u ^ {sign}u << {shape.bits} * p"
    return f"""\
uint32_t above[{shape.places}];
    #pragma unroll
    for (int p = 0; p < {shape.places}; p++)
        above[p] = ({number}) | (uint32_t)at[{TAKEN}] >> 31;"""


def first_entry(numbers: int, row: str, blocks: bool) -> str:
    """The place of the first entry of a parameter for a row of the weight.

    Args:
        numbers: `SCALE` or `ZERO`.
        row: an expression.
        blocks: whether several rows share one that others do not.
    """
    shared = f"({row}) / (uint32_t)at[{numbers}]" if blocks else f"({row})"
    return f"(int)({shared}) * (int)at[{numbers + 1}]"


def lows(shape: CodedShape, to: str, zero: str) -> str:
    """What `decoded` takes, into an array, of a zero point."""
    return f"""\
#pragma unroll
            for (int p = 0; p < {shape.places}; p++)
                {to}[p] = low_of(p, {zero});"""


def own_entry(numbers: int, group: int) -> str:
    """The place of the entry for codes from `k + c` on, from a row's first one on."""
    return f"(int)((k + c) / {group}) * (int)at[{numbers + 2}]"


def inside(shape: CodedShape) -> str:
    """Whether codes from `k + c` on are numbers of the weight, which may end within a word."""
    return "true" if shape.shared == shape.each else "k + c < width"
