"""The kernel of attention of half types by tensor cores: softmax over keys as they come (Dao et
al., arXiv 2205.14135). How it is cut is told in `core_tiles`.

For each query the largest score so far is kept, the sum of exponentials relative to it, and the sum
of values weighted with these, in float32; what values are weighted with is rounded to their type.
"""

from __future__ import annotations

from functools import lru_cache

from ingle.fusion.device.cuda import AFTER_OTHERS, rounded

from .core_products import LINE
from .core_scores import OF_QUERIES, kept, scaled, walked
from .core_tiles import (
    OWN,
    THREADS,
    CoreShape,
    Tile,
    beginning,
    end_sums,
    ended,
    head,
    multiplied,
    own_rows,
    padded,
    prelude,
    stored,
    summed,
    tiles,
    weights_of,
    zeros,
)
from .flash_tiles import head_of_block, pointer, steps

NAME = "core_attention"


@lru_cache(maxsize=256)
def source(shape: CoreShape) -> str:
    """The kernel, for any number of queries and keys and any strides.

    Its pointers are the queries, keys, values, the mask if there is one, the result, and the
    logarithms if they are wanted. The numbers that `flash_tiles.HEAD` tells of are followed by the
    strides of each.
    """
    kind = rounded(shape.dtype)[0].stored
    names = ["query", "key", "value", *(["mask"] if shape.mask else []), "out"]
    names += ["lse"] if shape.lse else []
    count = len(names)
    names += ["draw"] if shape.dropout else []
    read = ("query", shape.features), ("key", shape.features), ("value", shape.columns)
    own = Tile("own", "query", shape.features, "queries")
    key = Tile("keys_in", "key", shape.features, "keys")
    value = Tile("values_in", "value", shape.columns, "keys")
    masked = "uint8_t" if shape.mask == "bool" else kind
    pointers = [pointer(names, name, kind) for name in ("key", "value")]
    pointers += [pointer(names, "query", kind, "group")]
    pointers += [pointer(names, "mask", masked, "group")] if shape.mask else []
    pointers += [pointer(names, "out", kind, "group", constant=False)]
    pointers += [pointer(names, "lse", "float", "group", constant=False)] if shape.lse else []
    end = f"min(keys, first + {OWN})" if shape.causal else "keys"
    body = f"""{multiplied(shape, "score", own, key)}
        {kept(shape, OF_QUERIES)}
        {ended(shape, "score")}
        {scaled(shape, "score")}
        {_softmax(shape)}
        {weights_of(shape, "score")}
        {summed(shape, "sum", "score", value)}
        {end_sums(shape, ("sum", "score", shape.columns))}"""
    # Of a multiprocessor at a time: for more, threads have too few registers.
    blocks = 4 if shape.tile == OWN and not shape.dropout else 3
    more = " * more" if shape.dropout else ""
    return f"""{prelude(shape, names, count, read)}
extern "C" __global__ void __launch_bounds__({THREADS}, {blocks}) {NAME}(
    const __grid_constant__ given_t given)
{{
    {AFTER_OTHERS}
    {tiles(shape, key, value)}
    {beginning(shape)}
    uint32_t rest = blockIdx.x;
    {head_of_block(4)}
    const int64_t group = rest;
    /* Of a causal attention the last queries see most: their blocks begin first. */
    const int first = (of_tiles - 1 - tile) * {OWN}, end = {end};
    {steps(names, names)}
    {chr(10).join(pointers)}
    {head(shape)}
    {own_rows(shape, own, key)}
    float top[2] = {{-INFINITY, -INFINITY}}, total[2] = {{}};
    {zeros("sum", shape.columns)}
    int begin = 0;
    {walked(shape, OF_QUERIES, (key, value), "end", body)}
    {_logarithms() if shape.lse else ""}
    #pragma unroll
    for (int r = 0; r < 2; r++)
        total[r] = total[r] == 0 ? 1 : total[r];
    {stored("out", "sum", shape.columns, "queries", kind, f" / total[e / 2]{more}")}
}}
"""


def _softmax(shape: CoreShape) -> str:
    """Exponentials in the place of scores; what was summed before is scaled down."""
    weight = "score[j][e] = stay >> (j * 4 + e) & 1 ? share : 0;"
    return f"""#pragma unroll
    for (int r = 0; r < 2; r++) {{
        float high = -INFINITY, part = 0;
        #pragma unroll
        for (int j = 0; j < {shape.across}; j++)
            high = fmaxf(high, fmaxf(score[j][2 * r], score[j][2 * r + 1]));
        high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
        high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2));
        high = fmaxf(high, top[r]);
        /* Where no key was seen yet every score was -inf, and so is their maximum. */
        const float level = is_finite(high * late) ? high * late : 0;
        const float before = is_finite(top[r] * late) ? top[r] * late : 0;
        const float factor = top[r] == -INFINITY ? 0 : power_of_two(before - level);
        #pragma unroll
        for (int j = 0; j < {shape.across}; j++)
            #pragma unroll
            for (int e = 2 * r; e < 2 * r + 2; e++) {{
                const float share = power_of_two(fmaf(score[j][e], late, -level));
                {weight if shape.dropout else "score[j][e] = share;"}
                part += share;
            }}
        part += __shfl_xor_sync(0xffffffffu, part, 1);
        part += __shfl_xor_sync(0xffffffffu, part, 2);
        total[r] = fmaf(total[r], factor, part);
        top[r] = high;
        #pragma unroll
        for (int c = 0; c < {padded(shape.columns) // LINE}; c++) {{
            sum[c][2 * r] *= factor;
            sum[c][2 * r + 1] *= factor;
        }}
    }}"""


def _logarithms() -> str:
    return """#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = first + warp * 16 + g + r * 8;
        const float level = is_finite(top[r] * late) ? top[r] * late : 0;
        if (t == 0 && row < queries)
            lse[row * lse_step[4]] = logf(total[r]) + level * 0.6931471805599453f;
    }"""
