"""Products of few rows by codes in CUDA C++: a sum for each row of x and of the weight.

A block takes four rows of codes, whose words its warps share: a thread has one word of each of 32
neighbouring ones at a time, makes numbers of its codes in registers, and multiplies each row of x
by them. All words of two turns are on their way before any is used, those of the first turn before
the kernel waits for the launches in front of it: nothing computes a weight there.

A sum has one order, which depends on the number of words alone, neither on how many rows are
multiplied nor on how operands lie.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ingle.fusion.device.cuda import AFTER_OTHERS, NEST, given_struct, rounded
from ingle.fusion.device.kernels import SIZES

from .coded_words import (
    CODES_ROW,
    ROWS,
    SCALE,
    TAKEN,
    WIDTH,
    ZERO,
    ZERO_AT,
    CodedShape,
    entry,
    inside,
    lows,
    word_source,
)
from .coded_words import NUMBERS as WEIGHT
from .problem import WORD

WARP = 32
OUTS = 4
"""Rows of the weight of a block."""
AHEAD = 2
"""Words of each that a thread loads before it uses one."""
_MOST_WARPS = 8
X_ROWS, X_ROW, X_STEP, OUT_ROW, OUT_STEP = range(WEIGHT, WEIGHT + 5)
"""Places of a kernel's numbers behind those of the weight: rows of x, and strides."""
_NUMBERS = WEIGHT + 5


class RowsShape(NamedTuple):
    """What the source of a kernel depends on.

    Attributes:
        weight: how its codes are read.
        rows: of x.
        vector: bytes of x that are loaded at once, or 0.
        warps: of a block.
    """

    weight: CodedShape
    rows: int
    vector: int
    warps: int


def warps_of(words: int) -> int:
    """How many warps share rows of so many words: two turns, or one, have all of them.

    >>> warps_of(256), warps_of(704), warps_of(8)
    (4, 8, 1)
    """
    warps = 1
    while warps < _MOST_WARPS and words > warps * WARP * AHEAD:
        warps *= 2
    return warps


@lru_cache(maxsize=256)
def source(shape: RowsShape) -> str:
    """The kernel, for a weight of any size, whose launches can be members of another one.

    Its pointers are x, codes, the scale, the zero point if it is a tensor, and the result.
    """
    weight, rows, warps = shape.weight, shape.rows, shape.warps
    (of, back), each, part = rounded(weight.dtype), weight.each, weight.shared
    sums = 1 << (rows * OUTS - 1).bit_length()
    beside = WARP // sums
    struct = "\n".join(given_struct(4 + bool(weight.zero), _NUMBERS))
    return f"""{of.helpers}
{struct}
static float widened({of.stored} x) {{ return {of.shown}; }}
static {of.stored} rounded(float x) {{ return {back}; }}
{word_source(weight)}
{_numbers_source(shape, of.stored)}
INGLE_KERNEL({NEST}, __launch_bounds__({warps * WARP}))
{{
    const int64_t *const at = given.at;
    const uint32_t width = at[{WIDTH}], columns = at[{ROWS}], taken = at[{TAKEN}];
    const uint32_t words = (taken + {WORD - 1}) / {WORD};
    const uint32_t tiles = (columns + {OUTS - 1}) / {OUTS}, tile = INGLE_BLOCK;
    const uint32_t first = tile % tiles * {OUTS}, first_row = tile / tiles * {rows};
    const int lane = threadIdx.x % {WARP}, warp = threadIdx.x / {WARP};
    /* Behind the last row of either, the last one is read again, and nothing is stored. */
    uint32_t place[{OUTS}];
    const uint8_t *codes[{OUTS}];
    {_each_out()} {{
        place[w] = min(first + w, columns - 1);
        codes[w] = given.buffer[1] + place[w] * at[{CODES_ROW}];
    }}
    uint32_t now[{AHEAD}][{OUTS}], next[{AHEAD}][{OUTS}];
    {_loads("now", "0u", warps)}
    {AFTER_OTHERS}
    const {of.stored} *x[{rows}];
    {_each_row(rows)}
        x[r] = (const {of.stored} *)given.buffer[0]
            + min(first_row + r, (uint32_t)at[{X_ROWS}] - 1) * at[{X_ROW}];
    const int64_t x_step = at[{X_STEP}];
    {_rows_of("scale", of.stored, 2, SCALE) if weight.group else ""}
    {_rows_of("zero", f"{weight.zero}_t", 3, ZERO) if weight.zero else ""}
    float low[{OUTS}][{weight.places}];
    {_lows_of_rows(weight)}
    float sum[{sums}] = {{}};
    #pragma unroll 1
    for (uint32_t from = 0; from < words; from += {AHEAD * warps * WARP}) {{
        if (from + {AHEAD * warps * WARP} < words) {{
            {_loads("next", f"from + {AHEAD * warps * WARP}", warps)}
        }}
        #pragma unroll
        for (int u = 0; u < {AHEAD}; u++) {{
            const uint32_t own = from + (u * {warps} + warp) * {WARP} + lane;
            const bool there = own < words;
            const uint32_t k = own * {each};
            #pragma unroll
            for (int c = 0; c < {each}; c += {part}) {{
                float number[{OUTS}][{part}];
                {_factors(weight)}
                {_each_out()} {{
                    {_own_lows(weight)}
                    const uint32_t word = now[u][w];
                    #pragma unroll
                    for (int n = 0; n < {part}; n++)
                        number[w][n] = decoded(word, c + n, low[w]);
                }}
                {_each_row(rows)} {{
                    float given_x[{part}];
                    numbers_of_x(given_x, x[r], k + c, x_step, width, there);
                    {_each_out()} {{
                        float &total = sum[r * {OUTS} + w];
                        {_multiplied(weight)}
                    }}
                }}
            }}
        }}
        #pragma unroll
        for (int u = 0; u < {AHEAD}; u++)
            {_each_out()}
                now[u][w] = next[u][w];
    }}
    /* Half of the lanes go on with half of the sums each; in the end some lanes have one. */
    #pragma unroll
    for (int apart = {WARP // 2}, held = {sums}; apart > 0; apart /= 2) {{
        const bool upper = lane & apart;
        if (held > 1) {{
            held /= 2;
            #pragma unroll
            for (int n = 0; n < held; n++) {{
                const float mine = upper ? sum[n + held] : sum[n];
                const float other = upper ? sum[n] : sum[n + held];
                sum[n] = mine + __shfl_xor_sync(0xffffffffu, other, apart);
            }}
        }} else
            sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], apart);
    }}
    __shared__ float found[{warps}][{sums}];
    if (lane % {beside} == 0)
        found[warp][lane / {beside}] = sum[0];
    __syncthreads();
    const uint32_t r = threadIdx.x / {OUTS}, w = threadIdx.x % {OUTS};
    if (r >= {rows} || first_row + r >= at[{X_ROWS}] || first + w >= columns)
        return;
    float total = 0;
    #pragma unroll
    for (int n = 0; n < {warps}; n++)
        total += found[n][threadIdx.x];
    {"" if weight.group else f"total *= widened({entry(of.stored, 2, SCALE, 'first + w')});"}
    (({of.stored} *)given.buffer[{3 + bool(weight.zero)}])[
        (first_row + r) * at[{OUT_ROW}] + (first + w) * at[{OUT_STEP}]] = rounded(total);
}}
"""


def _each_out() -> str:
    return f"#pragma unroll\n    for (int w = 0; w < {OUTS}; w++)"


def _rows_of(name: str, kind: str, pointer: int, numbers: int) -> str:
    """Where the entries of a parameter begin for the rows of a block."""
    return f"""const {kind} *{name}[{OUTS}];
    {_each_out()}
        {name}[w] = &{entry(kind, pointer, numbers, "place[w]")};"""


def _each_row(rows: int) -> str:
    return f"#pragma unroll\n    for (int r = 0; r < {rows}; r++)"


def _loads(name: str, start: str, warps: int) -> str:
    return f"""\
#pragma unroll
    for (int u = 0; u < {AHEAD}; u++) {{
        const uint32_t own = min({start} + (u * {warps} + warp) * {WARP} + lane, words - 1);
        {_each_out()}
            {name}[u][w] = word_of(codes[w], own * {WORD}, taken);
    }}"""


def _numbers_source(shape: RowsShape, stored: str) -> str:
    """How numbers of a row of x are loaded; zeros where there are none."""
    part, size, vector = shape.weight.shared, SIZES[shape.weight.dtype], shape.vector
    head = f"""\
static void numbers_of_x(
    float *to, const {stored} *row, uint32_t k, int64_t step, uint32_t width, bool there)
{{
    #pragma unroll
    for (int n = 0; n < {part}; n += """
    if not vector or part != shape.weight.each:
        return f"""{head}1)
        to[n] = there && k + n < width ? widened(row[(k + n) * step]) : 0;
}}"""
    kind = {16: "uint4", 8: "uint64_t", 4: "uint32_t"}[vector]
    parts = [f"(uint{8 * size}_t)({_bits(vector, n * size)})" for n in range(vector // size)]
    read = "\n        ".join(
        f"to[n + {n}] = widened(__builtin_bit_cast({stored}, {part}));"
        for n, part in enumerate(parts)
    )
    return f"""{head}{vector // size}) {{
        {kind} line = {{}};
        if (there)
            line = *(const {kind} *)(row + k + n);
        {read}
    }}
}}"""


def _bits(vector: int, at: int) -> str:
    """The bits of a line from a byte on."""
    if vector == 16:
        return f"line.{'xyzw'[at // WORD]} >> {at % WORD * 8}"
    return f"line >> {at * 8}"


def _lows_of_rows(shape: CodedShape) -> str:
    """The zero points of all, or of rows."""
    if shape.zero_group:
        return ""
    moved = (
        "(float)*zero[w]" if shape.zero else f"__builtin_bit_cast(float, (int32_t)at[{ZERO_AT}])"
    )
    return f"""{_each_out()} {{
        const float moved = {moved};
        {lows(shape, "low[w]", "moved")}
    }}"""


def _own_lows(shape: CodedShape) -> str:
    """The zero points of codes, where neighbours have another one."""
    if not shape.zero_group:
        return ""
    own = f"zero[w][(k + c) / {shape.zero_group} * at[{ZERO + 2}]]"
    return f"""\
const float moved = {inside(shape)} ? (float){own} : 0;
                    {lows(shape, "low[w]", "moved")}"""


def _factors(shape: CodedShape) -> str:
    """The scales of codes, where neighbours have another one."""
    if not shape.group:
        return ""
    own = f"scale[w][(k + c) / {shape.group} * at[{SCALE + 2}]]"
    return f"""\
float factor[{OUTS}];
                {_each_out()}
                    factor[w] = {inside(shape)} ? widened({own}) : 0;"""


def _multiplied(shape: CodedShape) -> str:
    """What neighbours of one scale add to a sum."""
    each = f"""\
#pragma unroll
                        for (int n = 0; n < {shape.shared}; n++)"""
    if not shape.group:
        return f"{each}\n    total = fmaf(number[w][n], given_x[n], total);"
    return f"""\
float piece = 0;
                        {each}
                            piece = fmaf(number[w][n], given_x[n], piece);
                        total = fmaf(piece, factor[w], total);"""
