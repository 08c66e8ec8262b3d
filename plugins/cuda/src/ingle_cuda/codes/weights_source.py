"""Weights of their codes in CUDA C++: words of codes become numbers in memory.

A thread has a few words, as far apart as a block is wide, whose loads all begin before any number
is made; what a word stands for is stored 16 bytes at a time where the result lies so.
"""

from __future__ import annotations

from functools import lru_cache

from ingle.fusion.device.cuda import AFTER_OTHERS, given_struct, rounded
from ingle.fusion.device.kernels import SIZES

from ..row_lines import BYTES
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

NAME = "decode_weight"
THREADS = 256
AHEAD = 4
"""Words of a thread."""
OUT_ROW, OUT_STEP = WEIGHT, WEIGHT + 1


@lru_cache(maxsize=64)
def source(shape: CodedShape) -> str:
    """The kernel, for a weight of any size.

    Its pointers are codes, the scale, the zero point if it is a tensor, and the result.
    """
    (of, back), each, part = rounded(shape.dtype), shape.each, shape.shared
    struct = "\n".join(given_struct(3 + bool(shape.zero), WEIGHT + 2))
    zero = f"__builtin_bit_cast(float, (int32_t)at[{ZERO_AT}])"
    if shape.zero:
        zero = _shared_entry(shape, f"{shape.zero}_t", 2, ZERO, shape.zero_group)
        zero = f"{inside(shape)} ? (float){zero} : 0"
    factor = _shared_entry(shape, of.stored, 1, SCALE, shape.group)
    size = SIZES[shape.dtype]
    line, wide = min(each * size, BYTES), {16: "uint4", 8: "uint64_t"}[min(each * size, BYTES)]
    return f"""{of.helpers}
{struct}
static float widened({of.stored} x) {{ return {of.shown}; }}
static {of.stored} rounded(float x) {{ return {back}; }}
{word_source(shape)}
struct alignas({line}) line_t {{ {of.stored} at[{line // size}]; }};
extern "C" __global__ void __launch_bounds__({THREADS}) {NAME}(
    const __grid_constant__ given_t given)
{{
    {AFTER_OTHERS}
    const int64_t *const at = given.at;
    const uint32_t width = at[{WIDTH}], taken = at[{TAKEN}];
    const uint32_t words = (taken + {WORD - 1}) / {WORD}, every = words * (uint32_t)at[{ROWS}];
    {aboves(shape)}
    uint32_t row[{AHEAD}], own[{AHEAD}], word[{AHEAD}];
    #pragma unroll
    for (int u = 0; u < {AHEAD}; u++) {{
        const uint32_t n = min(
            (blockIdx.x * {AHEAD} + u) * {THREADS} + threadIdx.x, every - 1);
        row[u] = n / words;
        own[u] = n - row[u] * words;
        word[u] = word_of(
            given.buffer[0] + row[u] * at[{CODES_ROW}] + own[u] * {WORD}, own[u] * {WORD}, taken);
    }}
    /* The last word may be made several times: of the same numbers. */
    #pragma unroll
    for (int u = 0; u < {AHEAD}; u++) {{
        const uint32_t k = own[u] * {each};
        {of.stored} made[{each}];
        #pragma unroll
        for (int c = 0; c < {each}; c += {part}) {{
            float low[{shape.places}];
            const float moved = {zero};
            {lows(shape, "low", "moved")}
            const float factor = {inside(shape)} ? widened({factor}) : 0;
            #pragma unroll
            for (int n = 0; n < {part}; n++)
                made[c + n] = rounded(decoded(word[u], c + n, low, above) * factor);
        }}
        {of.stored} *const out = ({of.stored} *)given.buffer[{2 + bool(shape.zero)}]
            + row[u] * at[{OUT_ROW}] + k * at[{OUT_STEP}];
        if (k + {each} <= width && at[{OUT_STEP}] == 1 && (uint64_t)out % {line} == 0) {{
            #pragma unroll
            for (int n = 0; n < {each}; n += {line // size}) {{
                line_t line;
                #pragma unroll
                for (int j = 0; j < {line // size}; j++)
                    line.at[j] = made[n + j];
                *({wide} *)(out + n) = __builtin_bit_cast({wide}, line);
            }}
        }} else {{
            #pragma unroll
            for (int n = 0; n < {each}; n++)
                if (k + n < width)
                    out[n * at[{OUT_STEP}]] = made[n];
        }}
    }}
}}
"""


def _shared_entry(shape: CodedShape, kind: str, pointer: int, numbers: int, group: int) -> str:
    """The entry of a parameter for a thread's word, and the codes from `c` on."""
    blocks = shape.blocks if numbers == SCALE else shape.zero_blocks
    place = first_entry(numbers, "row[u]", blocks)
    place = f"{place} + {own_entry(numbers, group)}" if group else place
    return f"((const {kind} *)given.buffer[{pointer}])[{place}]"
