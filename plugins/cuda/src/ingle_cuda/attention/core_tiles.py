"""Attention of half types by tensor cores, what forward and gradient share.

A block of four warps has 64 rows of its own, queries or keys, each warp 16 of these as left
matrices in registers. It goes through the rows of the other side in tiles, two of which are in
shared memory: while it computes with one, the next is on its way. Tiles that a mask hides from the
whole block are passed over. Features are padded with zeros to multiples of 16; rows in shared
memory are 16 bytes longer, so that eight of them lie in all banks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device.cuda import given_struct, rounded

from ..row_lines import Split, line_source, load_source
from .dropped_keys import begun_dropout, drawn_source, of_head
from .flash_tiles import DROPOUT_AT, HEAD, SCALE_AT
from .head_axes import BATCH
from .tensor_cores import core_source

WARPS = 4
THREADS = 32 * WARPS
OWN = 16 * WARPS
"""Rows of a block."""
STEP = 16
"""Features of a left matrix."""
LINE = 8
"""Elements in 16 bytes."""
LOG2E = "1.4426950408889634f"


class CoreShape(NamedTuple):
    """What the source of a kernel depends on.

    Attributes:
        dtype: of queries, keys, values and results.
        features, columns: of a query and a key, and of a value.
        mask: its dtype; empty if there is none.
        causal: whether query i sees the keys up to i only.
        lse: whether the logarithms of the sums of exponentials are written, too.
        vectors: elements of a load of each operand that has features.
        dropout: whether keys are left out at random.
    """

    dtype: str
    features: int
    columns: int
    mask: str
    causal: bool
    lse: bool
    vectors: tuple[int, ...]
    dropout: bool

    @property
    def tile(self) -> int:
        """Rows of a tile, so that two have room."""
        return 64 if padded(self.features) + padded(self.columns) <= 128 else 32

    @property
    def across(self) -> int:
        """Sums that a thread has of a row of scores, times two."""
        return self.tile // LINE


def padded(elements: int) -> int:
    return -(-elements // STEP) * STEP


class Tile(NamedTuple):
    """A tile of an operand in shared memory, twice.

    Attributes:
        array: its name there.
        name: of the operand.
        elements: of a row.
        there: how many rows the operand has.
    """

    array: str
    name: str
    elements: int
    there: str

    @property
    def pitch(self) -> int:
        return padded(self.elements) + LINE


def prelude(
    shape: CoreShape, names: Sequence[str], pointers: int, read: Sequence[tuple[str, int]]
) -> str:
    """What stands in front of a kernel.

    Args:
        names: of operands with strides; behind them `draw`, if keys are left out.
        pointers: how many addresses there are.
        read: names and elements of those whose rows are loaded.
    """
    of, back = rounded(shape.dtype)
    struct = "\n".join(given_struct(pointers, HEAD + len(names) * (BATCH + 3)))
    loads = []
    for (name, elements), vector in zip(read, shape.vectors, strict=True):
        split = Split(1, 1, LINE, elements % STEP == 0)
        loads.append(load_source(name, split, elements, vector, of.stored, missing=True))
        loads.append(_fill_source(name, elements, vector))
    return f"""{of.helpers}
{struct}
static float widened({of.stored} x) {{ return {of.shown}; }}
static {of.stored} rounded(float x) {{ return {back}; }}
static bool is_finite(float x) {{ return x - x == 0; }}
{core_source(shape.dtype)}
{line_source(shape.dtype)}
{drawn_source() if shape.dropout else ""}
{chr(10).join(loads)}"""


def _fill_source(name: str, elements: int, vector: int) -> str:
    """A function that begins to bring rows of an operand into shared memory, zeros behind the
    last."""
    lines, pitch = padded(elements) // LINE, padded(elements) + LINE
    if vector == LINE:
        here = "" if elements % STEP == 0 else f" && f < {elements}"
        line = (
            f"const bool here = there{here};\n        copy_line(to, here ? from + f : from, here);"
        )
    else:
        line = f"""const line_t line = loaded_{name}(from, f, steps[{BATCH + 2}], there);
        *(uint4 *)to = uint4{{line.words[0], line.words[1], line.words[2], line.words[3]}};"""
    return f"""\
static void fill_{name}(
    uint16_t *tile, const uint16_t *rows, const int64_t *steps, int first, int count, int all)
{{
    for (int i = threadIdx.x; i < count * {lines}; i += {THREADS}) {{
        const int r = i / {lines}, f = i % {lines} * {LINE};
        const bool there = first + r < all;
        const uint16_t *const from = rows + (there ? (int64_t)(first + r) * steps[{BATCH + 1}] : 0);
        uint16_t *const to = tile + r * {pitch} + f;
        {line}
    }}
}}"""


def beginning(shape: CoreShape) -> str:
    """What a thread knows of itself and of the problem."""
    return f"""const int64_t *const at = given.at;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int queries = at[6], keys = at[7];
    const float scale = __builtin_bit_cast(float, (int32_t)at[{SCALE_AT}]);
    {begun_dropout(DROPOUT_AT) if shape.dropout else ""}"""


def head(shape: CoreShape) -> str:
    return of_head("group") if shape.dropout else ""


def tiles(shape: CoreShape, *found: Tile) -> str:
    """Shared memory for two tiles of each."""
    return "\n    ".join(
        f"alignas(16) __shared__ uint16_t {one.array}[2][{shape.tile} * {one.pitch}];"
        for one in found
    )


def own_rows(shape: CoreShape, own: Tile, through: Tile) -> str:
    """Own rows as left matrices, by way of the memory of both tiles of `through`, which are as
    wide."""
    steps, half = padded(own.elements) // STEP, shape.tile
    parts = [
        f"fill_{own.name}({through.array}[{n}], {own.name}, {own.name}_step, first + {n * half}, "
        f"{half}, {own.there});"
        for n in range(OWN // half)
    ]
    row = "warp * 16 + lane % 16"
    place = f"{through.array}[({row}) / {half}] + (({row}) % {half}) * {through.pitch}"
    return f"""uint32_t {own.array}[{steps}][4];
    __syncthreads();
    {" ".join(parts)}
    end_copies();
    wait_for_copies<0>();
    __syncthreads();
    #pragma unroll
    for (int s = 0; s < {steps}; s++)
        load_four({own.array}[s], {place} + s * {STEP} + lane / 16 * {LINE});
    __syncthreads();"""


def multiplied(shape: CoreShape, sums: str, own: Tile, other: Tile) -> str:
    """The products of own rows with those of a tile."""
    return f"""float {sums}[{shape.across}][4] = {{}};
    #pragma unroll
    for (int s = 0; s < {padded(own.elements) // STEP}; s++)
        #pragma unroll
        for (int j = 0; j < {shape.across}; j += 2) {{
            uint32_t right[4];
            load_four(right, {other.array}[now]
                + (j * 8 + lane / 16 * 8 + lane % 8) * {other.pitch} + s * {STEP}
                + lane / 8 % 2 * {LINE});
            add_product({sums}[j], {own.array}[s], right[0], right[1]);
            add_product({sums}[j + 1], {own.array}[s], right[2], right[3]);
        }}"""


def summed(shape: CoreShape, sums: str, weights: str, other: Tile) -> str:
    """Adds the rows of a tile, weighted with what has the place of scores."""
    return f"""#pragma unroll
    for (int s = 0; s < {shape.tile // STEP}; s++) {{
        const uint32_t left[4] = {{
            pair({weights}[2 * s][0], {weights}[2 * s][1]),
            pair({weights}[2 * s][2], {weights}[2 * s][3]),
            pair({weights}[2 * s + 1][0], {weights}[2 * s + 1][1]),
            pair({weights}[2 * s + 1][2], {weights}[2 * s + 1][3]),
        }};
        #pragma unroll
        for (int c = 0; c < {padded(other.elements) // LINE}; c += 2) {{
            uint32_t right[4];
            load_four_turned(right, {other.array}[now]
                + (s * {STEP} + lane % 16) * {other.pitch} + c * {LINE} + lane / 16 * {LINE});
            add_product({sums}[c], left, right[0], right[1]);
            add_product({sums}[c + 1], left, right[2], right[3]);
        }}
    }}"""


def zeros(sums: str, elements: int) -> str:
    return f"float {sums}[{padded(elements) // LINE}][4] = {{}};"


def each(shape: CoreShape) -> str:
    return f"""#pragma unroll
    for (int j = 0; j < {shape.across}; j++)
        #pragma unroll
        for (int e = 0; e < 4; e++)"""


def stored(
    name: str, sums: str, elements: int, count: str, kind: str, factor: str = ""
) -> str:  # fmt: skip
    """Writes the sums of own rows.

    Args:
        count: how many rows there are.
        kind: of an element in memory.
        factor: what sums of a row `e / 2` are multiplied with, if anything.
    """
    return f"""#pragma unroll
    for (int e = 0; e < 4; e++) {{
        const int row = first + warp * 16 + g + e / 2 * 8;
        if (row < {count}) {{
            {kind} *const line = {name} + (int64_t)row * {name}_step[{BATCH + 1}];
            #pragma unroll
            for (int c = 0; c < {padded(elements) // LINE}; c++) {{
                const int column = c * {LINE} + t * 2 + e % 2;
                if (column < {elements})
                    line[column * {name}_step[{BATCH + 2}]] = rounded({sums}[c][e]{factor});
            }}
        }}
    }}"""
