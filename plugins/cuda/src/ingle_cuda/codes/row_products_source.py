"""Products of few rows by codes in CUDA C++: a sum for each row of x and of the weight.

A block takes four rows of codes, whose words its warps share: a thread has one word of each of 32
neighbouring ones at a time, makes numbers of its codes in registers, and multiplies each row of x
by them. All words of two turns are on their way before any is used, those of the first turn before
the kernel waits for the launches in front of it: nothing computes a weight there.

A code's bits in the place of the last ones of a float32 of 2^23 or more are that number and the
code, times the place; one multiply-add takes the place away, and what is not the code.

A sum has one order, which depends on the number of words alone, neither on how many rows are
multiplied nor on how operands lie.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from ingle.fusion.device.cuda import AFTER_OTHERS, NEST, given_struct, rounded
from ingle.fusion.device.kernels import SIZES

from .problem import WORD

WARP = 32
OUTS = 4
"""Rows of the weight of a block."""
AHEAD = 2
"""Words of each that a thread loads before it uses one."""
_MOST_WARPS = 8
_ABOVE = 23
"""The bit of a float32 that is 1 of a whole number there."""

WIDTH, COLUMNS, TAKEN, CODES_ROW, ROWS, X_ROW, X_STEP, OUT_ROW, OUT_STEP, ZERO_AT = range(10)
"""Places of a kernel's numbers: numbers and bytes in a row of the weight, its rows, and so on; the
last one is the zero point's bits, where it is a number."""
SCALE, ZERO = 10, 13
"""Where numbers of a parameter begin: rows of the weight that share an entry, and its strides."""
NUMBERS = 16


class RowsShape(NamedTuple):
    """What the source of a kernel depends on.

    Attributes:
        bits, signed: of a code.
        dtype: of x, the scale and the result.
        rows: of x.
        words: whether codes are loaded 4 bytes at once.
        vector: bytes of x that are loaded at once, or 0.
        group: numbers of a row that share a scale; 0 for all of them.
        zero: the zero point's dtype; empty where it is a number.
        zero_group: likewise.
        warps: of a block.
    """

    bits: int
    signed: bool
    dtype: str
    rows: int
    words: bool
    vector: int
    group: int
    zero: str
    zero_group: int
    warps: int

    @property
    def each(self) -> int:
        """Codes in a word."""
        return WORD * 8 // self.bits

    @property
    def shared(self) -> int:
        """Neighbouring codes of a word that share all parameters."""
        return math.gcd(self.each, self.group, self.zero_group)


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
    of, back = rounded(shape.dtype)
    rows, each, part, warps = shape.rows, shape.each, shape.shared, shape.warps
    sums = 1 << (rows * OUTS - 1).bit_length()
    beside = WARP // sums
    struct = "\n".join(given_struct(4 + bool(shape.zero), NUMBERS))
    return f"""{of.helpers}
{struct}
static float widened({of.stored} x) {{ return {of.shown}; }}
static {of.stored} rounded(float x) {{ return {back}; }}
{_word_source(shape)}
{_numbers_source(shape, of.stored)}
INGLE_KERNEL({NEST}, __launch_bounds__({warps * WARP}))
{{
    const int64_t *const at = given.at;
    const uint32_t width = at[{WIDTH}], columns = at[{COLUMNS}], taken = at[{TAKEN}];
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
            + min(first_row + r, (uint32_t)at[{ROWS}] - 1) * at[{X_ROW}];
    const int64_t x_step = at[{X_STEP}];
    {_rows_of("scale", of.stored, 2, SCALE) if shape.group else ""}
    {_rows_of("zero", f"{shape.zero}_t", 3, ZERO) if shape.zero else ""}
    float low[{OUTS}][{_places(shape)}];
    {_lows_of_rows(shape)}
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
                {_parameters(shape)}
                {_each_out()} {{
                    {_own_lows(shape)}
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
                        {_multiplied(shape)}
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
    if (r >= {rows} || first_row + r >= at[{ROWS}] || first + w >= columns)
        return;
    float total = 0;
    #pragma unroll
    for (int n = 0; n < {warps}; n++)
        total += found[n][threadIdx.x];
    {"" if shape.group else f"total *= widened({_entry(of.stored, 2, SCALE, 'first + w')});"}
    (({of.stored} *)given.buffer[{3 + bool(shape.zero)}])[
        (first_row + r) * at[{OUT_ROW}] + (first + w) * at[{OUT_STEP}]] = rounded(total);
}}
"""


def _each_out() -> str:
    return f"#pragma unroll\n    for (int w = 0; w < {OUTS}; w++)"


def _entry(kind: str, pointer: int, numbers: int, row: str) -> str:
    """The first entry of a parameter for a row of the weight."""
    place = f"({row}) / (uint32_t)at[{numbers}] * at[{numbers + 1}]"
    return f"((const {kind} *)given.buffer[{pointer}])[{place}]"


def _rows_of(name: str, kind: str, pointer: int, numbers: int) -> str:
    """Where the entries of a parameter begin for the rows of a block."""
    return f"""const {kind} *{name}[{OUTS}];
    {_each_out()}
        {name}[w] = &{_entry(kind, pointer, numbers, "place[w]")};"""


def _each_row(rows: int) -> str:
    return f"#pragma unroll\n    for (int r = 0; r < {rows}; r++)"


def _places(shape: RowsShape) -> int:
    """Codes in half a word: as many as are read where they lie in it."""
    return shape.each // 2


def _loads(name: str, start: str, warps: int) -> str:
    return f"""\
#pragma unroll
    for (int u = 0; u < {AHEAD}; u++) {{
        const uint32_t own = min({start} + (u * {warps} + warp) * {WARP} + lane, words - 1);
        {_each_out()}
            {name}[u][w] = word_of(codes[w], own * {WORD}, taken);
    }}"""


def _word_source(shape: RowsShape) -> str:
    """How a word of codes is loaded, and numbers are made of it."""
    load = "return *(const uint32_t *)(row + first);"
    if not shape.words:
        load = f"""\
uint32_t found = 0;
    #pragma unroll
    for (int n = 0; n < {WORD}; n++)
        found |= (first + n < taken ? (uint32_t)row[first + n] : 0) << 8 * n;
    return found;"""
    places, bits = _places(shape), shape.bits
    sign = 1 << (bits - 1) if shape.signed else 0
    above = (127 + _ABOVE) << _ABOVE
    return f"""\
static uint32_t word_of(const uint8_t *row, uint32_t first, uint32_t taken)
{{
    {load}
}}
/* What a number is less than its float, for each place of half a word. */
static float low_of(int place, float zero)
{{ return -(float)({1 << _ABOVE} >> {bits} * place) - {sign}.0f - zero; }}
/* A code less its zero point. */
static float decoded(uint32_t word, int n, const float *low)
{{
    const int place = n % {places}, at = {bits} * place;
    const uint32_t part = n < {places} ? word : word >> 16;
    const uint32_t number = (part & {(1 << bits) - 1}u << at) ^ ({above}u | {sign}u << at);
    return fmaf(__builtin_bit_cast(float, number), 1.0f / (1 << at), low[place]);
}}"""


def _numbers_source(shape: RowsShape, stored: str) -> str:
    """How numbers of a row of x are loaded; zeros where there are none."""
    part, size, vector = shape.shared, SIZES[shape.dtype], shape.vector
    head = f"""\
static void numbers_of_x(
    float *to, const {stored} *row, uint32_t k, int64_t step, uint32_t width, bool there)
{{
    #pragma unroll
    for (int n = 0; n < {part}; n += """
    if not vector or part != shape.each:
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


def _lows(shape: RowsShape, zero: str) -> str:
    return f"""\
#pragma unroll
            for (int p = 0; p < {_places(shape)}; p++)
                low[w][p] = low_of(p, {zero});"""


def _lows_of_rows(shape: RowsShape) -> str:
    """The zero points of all, or of rows."""
    if shape.zero_group:
        return ""
    moved = (
        "(float)*zero[w]" if shape.zero else f"__builtin_bit_cast(float, (int32_t)at[{ZERO_AT}])"
    )
    return f"""{_each_out()} {{
        const float moved = {moved};
        {_lows(shape, "moved")}
    }}"""


def _own_lows(shape: RowsShape) -> str:
    """The zero points of codes, where neighbours have another one."""
    if not shape.zero_group:
        return ""
    entry = f"zero[w][(k + c) / {shape.zero_group} * at[{ZERO + 2}]]"
    return f"""\
const float moved = {_inside(shape)} ? (float){entry} : 0;
                    {_lows(shape, "moved")}"""


def _parameters(shape: RowsShape) -> str:
    """The scales of codes, where neighbours have another one."""
    if not shape.group:
        return ""
    entry = f"scale[w][(k + c) / {shape.group} * at[{SCALE + 2}]]"
    return f"""\
float factor[{OUTS}];
                {_each_out()}
                    factor[w] = {_inside(shape)} ? widened({entry}) : 0;"""


def _inside(shape: RowsShape) -> str:
    """Whether codes from `k + c` on are numbers of the weight."""
    return "there" if shape.shared == shape.each else "there && k + c < width"


def _multiplied(shape: RowsShape) -> str:
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
