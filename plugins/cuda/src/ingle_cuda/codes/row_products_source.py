"""Products of few rows by codes in CUDA C++: a sum for each row of x and of the weight.

A block takes four rows of codes, whose words its warps share: a thread has one word of each of 32
neighbouring ones at a time, makes numbers of its codes in registers, and multiplies each row of x
by them. Words of the next turn are on their way while those of one are used, and those of the first
before the kernel waits for the launches in front of it: nothing computes a weight there.

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
    aboves,
    first_entry,
    inside,
    lows,
    own_entry,
    word_source,
)
from .coded_words import NUMBERS as WEIGHT
from .problem import WORD

WARP = 32
_TURNS = 2
"""In which the warps of a block have all words of a row, if they are not more."""
_MOST_WARPS = 4
OUTS = 4
"""Rows of the weight of a block."""
X_ROW, X_STEP, OUT_ROW, OUT_STEP = range(WEIGHT, WEIGHT + 4)
"""Places of a kernel's numbers behind those of the weight: strides of x and the result."""
_NUMBERS = WEIGHT + 4


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

    @property
    def ahead(self) -> int:
        """Words of each row of codes that a thread loads before it uses one: for one row of x less
        is computed by a word than it takes to keep more of them."""
        return 1 if self.rows == 1 else 2


def warps_of(words: int) -> int:
    """How many warps share rows of so many words, which they have in two turns or more.

    >>> warps_of(256), warps_of(704), warps_of(8)
    (4, 4, 1)
    """
    warps = 1
    while warps < _MOST_WARPS and words > warps * WARP * _TURNS:
        warps *= 2
    return warps


@lru_cache(maxsize=256)
def source(shape: RowsShape) -> str:
    """The kernel, for a weight of any size, whose launches can be members of another one.

    Its pointers are x, codes, the scale, the zero point if it is a tensor, and the result.
    """
    weight, rows, warps = shape.weight, shape.rows, shape.warps
    (of, back), each, part = rounded(weight.dtype), weight.each, weight.shared
    outs, ahead, low = OUTS, shape.ahead, "low[w]" if weight.zero else "low"
    sums = 1 << (rows * outs - 1).bit_length()
    beside = WARP // sums
    of_row = f"scale[{first_entry(SCALE, 'first + w', weight.blocks)}]"
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
    const uint32_t first = INGLE_BLOCK * {outs};
    const int lane = threadIdx.x % {WARP}, warp = threadIdx.x / {WARP};
    /* Behind the last row of either, the last one is read again, and nothing is stored. */
    uint32_t place[{outs}];
    const uint8_t *codes[{outs}];
    {_each_out()} {{
        place[w] = min(first + w, columns - 1);
        codes[w] = given.buffer[1] + (int)place[w] * (int)at[{CODES_ROW}] + threadIdx.x * {WORD};
    }}
    uint32_t now[{ahead}][{outs}], next[{ahead}][{outs}];
    {_loads(shape, "now", "0u")}
    {AFTER_OTHERS}
    const {of.stored} *const x = (const {of.stored} *)given.buffer[0];
    const {of.stored} *const scale = (const {of.stored} *)given.buffer[2];
    int x_row[{rows}];
    {_each_row(rows)}
        x_row[r] = r * (int)at[{X_ROW}];
    const int x_step = at[{X_STEP}];
    {_rows_of("scale", shape) if weight.group else ""}
    {_rows_of("zero", shape) if weight.zero else ""}
    {_lows_of_rows(shape)}
    {aboves(weight)}
    float sum[{sums}] = {{}};
    #pragma unroll 1
    for (uint32_t from = 0; from < words; from += {ahead * warps * WARP}) {{
        if (from + {ahead * warps * WARP} < words) {{
            {_loads(shape, "next", f"from + {ahead * warps * WARP}")}
        }}
        #pragma unroll
        for (int u = 0; u < {ahead}; u++) {{
            const uint32_t own = from + u * {warps * WARP} + threadIdx.x;
            const uint32_t k = own * {each};
            if (own < words)
            #pragma unroll
            for (int c = 0; c < {each}; c += {part}) {{
                float number[{outs}][{part}];
                {_factors(shape)}
                {_each_out()} {{
                    {_own_lows(shape)}
                    const uint32_t word = now[u][w];
                    #pragma unroll
                    for (int n = 0; n < {part}; n++)
                        number[w][n] = decoded(word, c + n, {low}, above);
                }}
                {_each_row(rows)} {{
                    float given_x[{part}];
                    numbers_of_x(given_x, x + x_row[r], k + c, x_step, width);
                    {_each_out()} {{
                        float &total = sum[r * {outs} + w];
                        {_multiplied(weight)}
                    }}
                }}
            }}
        }}
        #pragma unroll
        for (int u = 0; u < {ahead}; u++)
            {_each_out()}
                now[u][w] = next[u][w];
    }}
    const bool lower[] = {{{", ".join(f"!(lane & {WARP >> n + 1})" for n in range(5))}}};
    /* Half of the lanes go on with half of the sums each; in the end some lanes have one. */
    {_folded(sums)}
    __shared__ float found[{warps}][{sums}];
    if (lane % {beside} == 0)
        found[warp][lane / {beside}] = sum[0];
    __syncthreads();
    const uint32_t r = threadIdx.x / {outs}, w = threadIdx.x % {outs};
    if (r >= {rows} || first + w >= columns)
        return;
    float total = 0;
    #pragma unroll
    for (int n = 0; n < {warps}; n++)
        total += found[n][threadIdx.x];
    {"" if weight.group else f"total *= widened({of_row});"}
    (({of.stored} *)given.buffer[{3 + bool(weight.zero)}])[
        r * at[{OUT_ROW}] + (first + w) * at[{OUT_STEP}]] = rounded(total);
}}
"""


def _folded(sums: int) -> str:
    """The sums of all lanes, halves of which exchange what the others go on with."""
    rows, held, apart = [], sums, WARP // 2
    for step in range(WARP.bit_length() - 1):
        if held == 1:
            rows.append(f"sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], {apart});")
        held = max(held // 2, 1)
        for n in range(held if sums >> step > 1 else 0):
            mine, other = (
                f"lower[{step}] ? sum[{a}] : sum[{b}]" for a, b in ((n, n + held), (n + held, n))
            )
            rows.append(f"sum[{n}] = ({mine}) + __shfl_xor_sync(0xffffffffu, {other}, {apart});")
        apart //= 2
    return "\n    ".join(rows)


def _each_out() -> str:
    return f"#pragma unroll\n    for (int w = 0; w < {OUTS}; w++)"


def _rows_of(name: str, shape: RowsShape) -> str:
    """Where the entries of a parameter begin for the rows of a block."""
    weight, numbers, blocks, pointer = shape.weight, SCALE, shape.weight.blocks, ""
    if name == "zero":
        numbers, blocks = ZERO, weight.zero_blocks
        kind = f"const {weight.zero}_t *const zero"
        pointer = f"{kind} = (const {weight.zero}_t *)given.buffer[3];\n    "
    return f"""{pointer}int {name}_row[{OUTS}];
    {_each_out()}
        {name}_row[w] = {first_entry(numbers, "place[w]", blocks)};"""


def _each_row(rows: int) -> str:
    return f"#pragma unroll\n    for (int r = 0; r < {rows}; r++)"


def _loads(shape: RowsShape, name: str, start: str) -> str:
    ahead, warps = shape.ahead, shape.warps
    place = f"codes[w] + ({start}) * {WORD} + u * {warps * WARP * WORD}"
    return f"""\
#pragma unroll
    for (int u = 0; u < {ahead}; u++) {{
        const uint32_t own = {start} + u * {warps * WARP} + threadIdx.x;
        {_each_out()}
            {name}[u][w] = own < words ? word_of({place}, own * {WORD}, taken) : 0;
    }}"""


def _numbers_source(shape: RowsShape, stored: str) -> str:
    """How numbers of a row of x are loaded; zeros where there are none."""
    part, size, vector = shape.weight.shared, SIZES[shape.weight.dtype], shape.vector
    head = f"""\
static void numbers_of_x(
    float *to, const {stored} *row, uint32_t k, int step, uint32_t width)
{{
    #pragma unroll
    for (int n = 0; n < {part}; n += """
    if not vector or part != shape.weight.each:
        return f"""{head}1)
        to[n] = k + n < width ? widened(row[(int)(k + n) * step]) : 0;
}}"""
    kind = {16: "uint4", 8: "uint64_t", 4: "uint32_t"}[vector]
    parts = [f"(uint{8 * size}_t)({_bits(vector, n * size)})" for n in range(vector // size)]
    read = "\n        ".join(
        f"to[n + {n}] = widened(__builtin_bit_cast({stored}, {part}));"
        for n, part in enumerate(parts)
    )
    return f"""{head}{vector // size}) {{
        const {kind} line = *(const {kind} *)(row + k + n);
        {read}
    }}
}}"""


def _bits(vector: int, at: int) -> str:
    """The bits of a line from a byte on."""
    if vector == 16:
        return f"line.{'xyzw'[at // WORD]} >> {at % WORD * 8}"
    return f"line >> {at * 8}"


def _lows_of_rows(shape: RowsShape) -> str:
    """What is taken from floats for the zero points of all, or of rows."""
    weight, every = shape.weight, _each_out()
    if not weight.zero:
        moved = f"__builtin_bit_cast(float, (int32_t)at[{ZERO_AT}])"
        return f"""float low[{weight.places}];
    const float moved = {moved};
    {lows(weight, "low", "moved")}"""
    of_rows = f"""{every} {{
        const float moved = (float)zero[zero_row[w]];
        {lows(weight, "low[w]", "moved")}
    }}"""
    return f"""float low[{OUTS}][{weight.places}];
    {"" if weight.zero_group else of_rows}"""


def _own_lows(shape: RowsShape) -> str:
    """The zero points of codes, where neighbours have another one."""
    weight = shape.weight
    if not weight.zero_group:
        return ""
    own = f"zero[zero_row[w] + {own_entry(ZERO, weight.zero_group)}]"
    return f"""\
const float moved = {inside(weight)} ? (float){own} : 0;
                    {lows(weight, "low[w]", "moved")}"""


def _factors(shape: RowsShape) -> str:
    """The scales of codes, where neighbours have another one."""
    weight = shape.weight
    if not weight.group:
        return ""
    own = f"scale[scale_row[w] + {own_entry(SCALE, weight.group)}]"
    return f"""\
float factor[{OUTS}];
                {_each_out()}
                    factor[w] = {inside(weight)} ? widened({own}) : 0;"""


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
