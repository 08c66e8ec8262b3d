"""Attention of few queries and many keys: what pieces of the keys have found is put together.

A piece leaves for each row the sums of its weighted values, its largest score and its sum of
exponentials relative to that. Which thread adds which piece depends on the number of columns alone.
"""

from __future__ import annotations

from functools import lru_cache

from ingle.fusion.device.cuda import AFTER_OTHERS, given_struct, rounded

from .decode_attention_source import HEAD, THREADS, WARP, WARPS
from .head_axes import BATCH

COMBINE = "combine_pieces"


@lru_cache(maxsize=64)
def combine_source(dtype: str, columns: int, lse: bool) -> str:
    """The kernel that does it: a block a row, whose threads share the columns and take every so
    many'th piece.

    Its pointers are that memory and the results; its numbers are those that `HEAD` tells of and the
    results' strides. The second result is the logarithm of the sum of exponentials.
    """
    logarithm = f"""
    const int64_t *const lse_step = out_step + {BATCH + 3};
    if (column == 0)
        ((float *)given.buffer[2])[
            i0 * lse_step[0] + i1 * lse_step[1] + i2 * lse_step[2]
            + (int64_t)(row / queries) * lse_step[3] + (int64_t)(row % queries) * lse_step[4]
        ] = logf(total) + level;"""
    of, back = rounded(dtype)
    wide = 1 << (columns - 1).bit_length()
    struct = "\n".join(given_struct(2 + lse, HEAD + (1 + lse) * (BATCH + 3)))
    return f"""{of.helpers}
{struct}
static {of.stored} rounded(float x) {{ return {back}; }}
static bool is_finite(float x) {{ return x - x == 0; }}
extern "C" __global__ void __launch_bounds__({THREADS}) {COMBINE}(
    const __grid_constant__ given_t given)
{{
    {AFTER_OTHERS}
    const int64_t *const at = given.at, *const out_step = given.at + {HEAD};
    __shared__ float tops[{WARPS}], weights[{THREADS}], totals[{THREADS}], sums[{THREADS}];
    const uint32_t count = at[{BATCH + 2}], queries = at[{BATCH + 3}];
    const uint32_t pieces = at[{BATCH + 1}], row = blockIdx.x % count;
    uint32_t rest = blockIdx.x / count;
    const int64_t i2 = rest % (uint32_t)at[2];
    rest /= (uint32_t)at[2];
    const int64_t i1 = rest % (uint32_t)at[1], i0 = rest / (uint32_t)at[1];
    const float *const found =
        (const float *)given.buffer[0] + (int64_t)blockIdx.x * pieces * {columns + 2};
    float top = -INFINITY;
    for (uint32_t p = threadIdx.x; p < pieces; p += {THREADS})
        top = fmaxf(top, found[p * (int64_t){columns + 2} + {columns}]);
    #pragma unroll
    for (int apart = {WARP // 2}; apart > 0; apart /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, apart));
    if (threadIdx.x % {WARP} == 0)
        tops[threadIdx.x / {WARP}] = top;
    __syncthreads();
    #pragma unroll
    for (int w = 0; w < {WARPS}; w++)
        top = fmaxf(top, tops[w]);
    const float level = is_finite(top) ? top : 0;
    const uint32_t column = threadIdx.x % {wide}, part = threadIdx.x / {wide};
    float total = 0, sum = 0;
    for (uint32_t begin = 0; begin < pieces; begin += {THREADS}) {{
        const uint32_t own = begin + threadIdx.x, here = min(pieces - begin, {THREADS}u);
        if (own < pieces) {{
            const float *const line = found + own * (int64_t){columns + 2} + {columns};
            const float of_piece = is_finite(line[0]) ? line[0] : 0;
            weights[threadIdx.x] = line[1] == 0 ? 0 : expf(of_piece - level);
            totals[threadIdx.x] = line[1];
        }}
        __syncthreads();
        if (column < {columns})
            for (uint32_t p = part; p < here; p += {THREADS // wide}) {{
                total = fmaf(weights[p], totals[p], total);
                sum = fmaf(
                    weights[p], found[(begin + p) * (int64_t){columns + 2} + column], sum);
            }}
        __syncthreads();
    }}
    totals[threadIdx.x] = total;
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (part > 0 || column >= {columns})
        return;
    total = sum = 0;
    #pragma unroll
    for (int n = 0; n < {THREADS // wide}; n++) {{
        total += totals[n * {wide} + column];
        sum += sums[n * {wide} + column];
    }}
    (({of.stored} *)given.buffer[1])[
        i0 * out_step[0] + i1 * out_step[1] + i2 * out_step[2]
        + (int64_t)(row / queries) * out_step[3] + (int64_t)(row % queries) * out_step[4]
        + column * out_step[5]
    ] = rounded(sum / (total == 0 ? 1 : total));{logarithm if lse else ""}
}}
"""
