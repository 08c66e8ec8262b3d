"""The kernel of attention of many queries: softmax over keys as they come (Dao et al., arXiv
2205.14135), so that scores never go through memory. How it is cut is told in `flash_tiles`.

For each query the largest score so far is kept, the sum of exponentials relative to it, and the sum
of values weighted with these; a larger score scales both down. Tiles behind the last key that a
causal query sees are left out, and those that a mask hides from all queries of a block, which
changes no bit of what is finite. None depends on how many rows a thread has, on how operands lie,
nor on the GPU.
"""

from __future__ import annotations

from functools import lru_cache

from ingle.fusion.device.cuda import AFTER_OTHERS, rounded

from .dropped_keys import begun_dropout, of_head
from .flash_tiles import (
    DROPOUT_AT,
    EACH,
    LANES,
    SCALE_AT,
    THREADS,
    TILE,
    WIDE,
    Fill,
    FlashShape,
    chunks,
    each_row,
    filled,
    head_of_block,
    multiplied,
    pointer,
    prelude,
    score,
    seen_pairs,
    shared_shares,
    stay,
    steps,
    stored,
    summed,
    tiles,
    zeros,
)

NAME = "flash_attention"


@lru_cache(maxsize=256)
def source(shape: FlashShape) -> str:
    """The kernel, for any number of queries and keys and any strides.

    Its pointers are the queries, keys, values, the mask if there is one, the result, and the
    logarithms if they are wanted. The numbers that `HEAD` tells of are followed by the strides of
    each.
    """
    of, _ = rounded(shape.dtype)
    kind = of.stored
    names = ["query", "key", "value", *(["mask"] if shape.mask else []), "out"]
    names += [*(["lse"] if shape.lse else []), *(["draw"] if shape.dropout else [])]
    read = ("query", shape.features), ("key", shape.features), ("value", shape.columns)
    masked = "uint8_t" if shape.mask == "bool" else kind
    pointers = [pointer(names, name, kind) for name in ("key", "value")]
    pointers += [pointer(names, "query", kind, "group")]
    pointers += [pointer(names, "mask", masked, "group")] if shape.mask else []
    pointers += [pointer(names, "out", kind, "group", constant=False)]
    pointers += [pointer(names, "lse", "float", "group", constant=False)] if shape.lse else []
    logarithm = """
        if (tx == 0)
            lse[row * lse_step[4]] = logf(total[r]) + (is_finite(top[r]) ? top[r] : 0);"""
    pair = f"first + ty * {shape.rows} + r", f"begin + tx + {LANES} * j"
    mean = "sum[r][c][w] / (total[r] == 0 ? 1 : total[r])"
    mean += " * more" if shape.dropout else ""
    share = "stay ? share : 0" if shape.dropout else "share"
    many, of_keys = chunks(shape.columns), chunks(shape.features)
    return f"""{prelude(shape, names, read)}
extern "C" __global__ void __launch_bounds__({THREADS}) {NAME}(
    const __grid_constant__ given_t given)
{{
    {AFTER_OTHERS}
    const int64_t *const at = given.at;
    {tiles(("queries_in", shape.own), ("keys_in", TILE), ("values_in", TILE))}
    {shared_shares(shape)}
    const int ty = threadIdx.x / {LANES}, tx = threadIdx.x % {LANES};
    uint32_t rest = blockIdx.x;
    {head_of_block(4)}
    const int64_t group = rest;
    /* Of a causal attention the last queries see most: their blocks begin first. */
    const int queries = at[6], keys = at[7], first = (of_tiles - 1 - tile) * {shape.own};
    const float scale = __builtin_bit_cast(float, (int32_t)at[{SCALE_AT}]);
    {steps(names, names)}
    {chr(10).join(pointers)}
    {begun_dropout(DROPOUT_AT) if shape.dropout else ""}
    {of_head("group") if shape.dropout else ""}
    bool begun = false;
    float top[{shape.rows}], total[{shape.rows}];
    {each_row(shape)} {{
        top[r] = -INFINITY;
        total[r] = 0;
    }}
    {zeros(shape, ("sum", shape.columns))}
    const int end = {f"min(keys, first + {shape.own})" if shape.causal else "keys"};
    #pragma unroll 1
    for (int begin = 0; begin < end; begin += {TILE}) {{
        {seen_pairs(shape, *pair)}
        float score[{shape.rows}][{EACH}] = {{}};
        {_scores(shape, of_keys)}
        {each_row(shape)} {{
            float high = -INFINITY;
            #pragma unroll
            for (int j = 0; j < {EACH}; j++) {{
                {score(shape, *pair)}
                score[r][j] = found;
                high = fmaxf(high, found);
            }}
            #pragma unroll
            for (int apart = {LANES // 2}; apart > 0; apart /= 2)
                high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, apart));
            high = fmaxf(high, top[r]);
            /* Where no key was seen yet every score was -inf, and so is their maximum. */
            const float level = is_finite(high) ? high : 0;
            const float before = is_finite(top[r]) ? top[r] : 0;
            const float factor = top[r] == -INFINITY ? 0 : expf(before - level);
            float part = 0;
            #pragma unroll
            for (int j = 0; j < {EACH}; j++) {{
                const float share = expf(score[r][j] - level);
                {stay(shape, *pair)}
                shares[ty * {shape.rows} + r][tx + {LANES} * j] = {share};
                part += share;
            }}
            #pragma unroll
            for (int apart = {LANES // 2}; apart > 0; apart /= 2)
                part += __shfl_xor_sync(0xffffffffu, part, apart);
            total[r] = fmaf(total[r], factor, part);
            top[r] = high;
            #pragma unroll
            for (int c = 0; c < {many}; c++)
                #pragma unroll
                for (int w = 0; w < {WIDE}; w++)
                    sum[r][c][w] *= factor;
        }}
        __syncwarp();
        {_weighted(shape, many)}
    }}
    {each_row(shape)}
        #pragma unroll
        for (int c = 0; c < {many}; c++)
            #pragma unroll
            for (int w = 0; w < {WIDE}; w++)
                sum[r][c][w] = {mean};
    {stored(shape, "out", "sum", shape.columns, "first", "queries")}
    {_logarithms(shape, logarithm) if shape.lse else ""}
}}
"""


def _scores(shape: FlashShape, of_keys: int) -> str:
    """The products of queries and keys; with the first chunk of these come the first values."""
    queries = Fill("queries_in", "query", shape.own, "first", "queries", "chunk")
    keys = Fill("keys_in", "key", TILE, "begin", "keys", "chunk")
    values = Fill("values_in", "value", TILE, "begin", "keys", 0)
    once = f"if (!begun) {filled(shape, [queries])}" if of_keys == 1 else ""
    each = [keys] if of_keys == 1 else [keys, queries]
    return f"""#pragma unroll 1
    for (int chunk = 0; chunk < {of_keys}; chunk++) {{
        __syncthreads();
        {once}
        if (chunk == 0)
            {filled(shape, [*each, values])}
        else
            {filled(shape, each)}
        __syncthreads();
        {multiplied(shape, "score", "queries_in", "keys_in")}
    }}
    begun = true;"""


def _weighted(shape: FlashShape, many: int) -> str:
    """Adds the values."""
    found = []
    for chunk in range(many):
        if chunk > 0:
            fill = Fill("values_in", "value", TILE, "begin", "keys", chunk)
            found += ["__syncthreads();", filled(shape, [fill]), "__syncthreads();"]
        found.append(summed(shape, "sum", chunk, "values_in"))
    return "\n    ".join(found)


def _logarithms(shape: FlashShape, written: str) -> str:
    return f"""{each_row(shape)} {{
        const int64_t row = first + ty * {shape.rows} + r;
        if (row >= queries)
            continue;
        {written}
    }}"""
