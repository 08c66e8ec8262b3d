"""Rows of memory among the threads of a warp, in lines of 16 bytes, in kernels written by hand."""

from __future__ import annotations

from typing import NamedTuple

from ingle.fusion.device.kernels import SIZES

BYTES = 16
"""Of a line."""
_WARP = 32
_WORD = 4
"""Bytes of a part of a line, in registers."""
_IN_FLIGHT = 16
"""Loads of keys, and of values, that a thread begins before it waits, at most."""
_REGISTERS = 256
"""For numbers of the queries times such loads: with more, the compiler runs out of registers."""


class Split(NamedTuple):
    """How the elements of a row are split among threads of a warp.

    Attributes:
        lanes: threads that share a row; a power of two.
        steps: 16 bytes that each has of it, `lanes` times 16 bytes apart.
        each: elements in 16 bytes.
        full: whether all of them are there.
    """

    lanes: int
    steps: int
    each: int
    full: bool


def split_of(elements: int, dtype: str) -> Split:
    """How rows of so many elements are split; by nothing but that.

    >>> split_of(64, "bfloat16")
    Split(lanes=8, steps=1, each=8, full=True)
    """
    each = BYTES // SIZES[dtype]
    vectors = -(-elements // each)
    lanes = min(1 << (vectors - 1).bit_length(), _WARP)
    steps = -(-vectors // lanes)
    return Split(lanes, steps, each, lanes * steps * each == elements)


def loads_ahead(split: Split, rows: int) -> int:
    """How many turns of a warp have their loads begun at a time."""
    most = min(_REGISTERS // (rows * split.each * split.steps), _IN_FLIGHT)
    return min(split.lanes, max(most // split.steps, 1))


def line_source(dtype: str) -> str:
    """The type of a line, 16 bytes in registers, and how its elements are read, in float32."""
    value = "widened((uint16_t)(line.words[n / 2] >> n % 2 * 16))"
    if SIZES[dtype] == _WORD:
        value = "__builtin_bit_cast(float, line.words[n])"
    return f"""\
struct line_t {{ uint32_t words[{BYTES // _WORD}]; }};
static float element(const line_t &line, int n) {{ return {value}; }}"""


def load_source(
    name: str, split: Split, elements: int, vector: int, stored: str, missing: bool = False
) -> str:
    """A function that loads a line of a row, zeros in the place of elements that it has not.

    Args:
        name: of the operand.
        split: of its rows.
        elements: of a row.
        vector: elements that are loaded at once.
        stored: the type of an element in memory.
        missing: whether rows may be, all of whose elements are zeros then.
    """
    test = "" if split.full else f"first + n < {elements}"
    if missing:
        test = f"there && {test}" if test else "there"
    head = f"if ({test}) " if test else ""
    size, part = BYTES // split.each, "*(const {} *)(row + first + n)"
    match vector * size:
        case 16:
            read = [f"const uint4 part = {part.format('uint4')};"]
            read += [f"found.words[{n}] = part.{letter};" for n, letter in enumerate("xyzw")]
        case 8:
            read = [f"const uint64_t part = {part.format('uint64_t')};"]
            read += [f"found.words[n / {_WORD // size}] = (uint32_t)part;"]
            read += [f"found.words[n / {_WORD // size} + 1] = (uint32_t)(part >> 32);"]
        case 4 if vector > 1:
            read = [f"found.words[n / 2] = {part.format('uint32_t')};"]
        case 4:
            read = ["found.words[n] = ((const uint32_t *)row)[(first + n) * column];"]
        case _:
            read = ["found.words[n / 2] |= (uint32_t)row[(first + n) * column] << n % 2 * 16;"]
    body = "\n            ".join(read)
    return f"""\
static line_t loaded_{name}(const {stored} *row, int first, int64_t column, bool there)
{{
    line_t found = {{}};
    #pragma unroll
    for (int n = 0; n < {split.each}; n += {vector})
        {head}{{
            {body}
        }}
    return found;
}}"""
