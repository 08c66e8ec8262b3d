"""The kernel of the gradient of attention: scores are computed again, tile by tile, from the
logarithms that the forward pass left (Dao et al., arXiv 2205.14135).

Some blocks have keys of their own and go through the queries, the others have queries and go
through the keys; what a block finds is its own, so nobody waits and sums have one order. How they
are cut is told in `flash_tiles`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ingle.fusion.device.cuda import AFTER_OTHERS, rounded
from ingle.fusion.device.kernels import SIZES

from ..row_lines import BYTES
from .dropped_keys import begun_dropout, of_head
from .flash_tiles import (
    DROPOUT_AT,
    EACH,
    LANES,
    SCALE_AT,
    THREADS,
    TILE,
    Fill,
    FlashShape,
    chunks,
    each_pair,
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

NAME = "flash_gradient"
_OF_ROW = 8
"""Threads that share a row of the result's gradient, to multiply it with the result."""


class _Side(NamedTuple):
    """Rows of queries, or of keys.

    Attributes:
        inner: the operand whose products with that of the other side are scores.
        outer: the one whose products are the gradients by shares.
        first, there: which row is the first, and how many there are.
    """

    inner: str
    outer: str
    first: str
    there: str


@lru_cache(maxsize=256)
def source(shape: FlashShape) -> str:
    """The kernel, for any number of queries and keys and any strides.

    Its pointers are the gradient of the result, queries, keys, values, the mask if there is one,
    the result, the logarithms, and the three results. The numbers that `HEAD` tells of are followed
    by the strides of each.
    """
    of, _ = rounded(shape.dtype)
    kind = of.stored
    names = ["given_g", "query", "key", "value", *(["mask"] if shape.mask else [])]
    names += ["out", "lse", "by_query", "by_key", "by_value"]
    names += ["draw"] if shape.dropout else []
    features, columns = shape.features, shape.columns
    read = (
        ("given_g", columns), ("query", features), ("key", features), ("value", columns),
        ("out", columns),
    )  # fmt: skip
    masked = "uint8_t" if shape.mask == "bool" else kind
    of_queries = [pointer(names, name, kind, "group") for name in ("given_g", "query", "out")]
    of_queries += [pointer(names, "lse", "float", "group")]
    of_queries += [pointer(names, "mask", masked, "group")] if shape.mask else []
    of_keys = [pointer(names, name, kind) for name in ("key", "value")]
    line = "\n        "
    return f"""{prelude(shape, names, read)}
{_levels_source(shape, kind)}
extern "C" __global__ void __launch_bounds__({THREADS}) {NAME}(
    const __grid_constant__ given_t given)
{{
    {AFTER_OTHERS}
    const int64_t *const at = given.at;
    {tiles(("own_inner", shape.own), ("own_outer", shape.own), ("inner", TILE), ("outer", TILE))}
    {shared_shares(shape)}
    __shared__ float levels[{TILE}], pulls[{TILE}];
    const int ty = threadIdx.x / {LANES}, tx = threadIdx.x % {LANES};
    const int queries = at[6], keys = at[7], groups = at[3];
    const float scale = __builtin_bit_cast(float, (int32_t)at[{SCALE_AT}]);
    const uint32_t of_keys = (uint32_t)(at[0] * at[1] * at[2] * at[5]);
    {steps(names, names)}
    {begun_dropout(DROPOUT_AT) if shape.dropout else ""}
    bool begun = false;
    if (blockIdx.x < of_keys) {{
        uint32_t rest = blockIdx.x;
        {head_of_block(5)}
        const int first = tile * {shape.own};
        {line.join(of_keys)}
        {line.join(pointer(names, n, kind, constant=False) for n in ("by_key", "by_value"))}
        {zeros(shape, ("sum_inner", features), ("sum_outer", columns))}
        const int first_begin = {f"first / {TILE} * {TILE}" if shape.causal else "0"};
        #pragma unroll 1
        for (int group = 0; group < groups; group++) {{
            {line.join(of_queries)}
            {of_head("group") if shape.dropout else ""}
            #pragma unroll 1
            for (int begin = first_begin; begin < queries; begin += {TILE}) {{
                {_by_keys(shape)}
            }}
        }}
        {stored(shape, "by_value", "sum_outer", columns, "first", "keys")}
        {stored(shape, "by_key", "sum_inner", features, "first", "keys")}
    }} else {{
        uint32_t rest = blockIdx.x - of_keys;
        {head_of_block(4)}
        const int64_t group = rest;
        /* Of a causal attention the last queries see most: their blocks begin first. */
        const int first = (of_tiles - 1 - tile) * {shape.own};
        {line.join([*of_keys, *of_queries])}
        {pointer(names, "by_query", kind, "group", constant=False)}
        {of_head("group") if shape.dropout else ""}
        {zeros(shape, ("sum_inner", features))}
        find_levels(given_g, given_g_step, out, out_step, lse, lse_step, first, queries,
            levels, pulls, {shape.own});
        const int end = {f"min(keys, first + {shape.own})" if shape.causal else "keys"};
        #pragma unroll 1
        for (int begin = 0; begin < end; begin += {TILE}) {{
            {_by_queries(shape)}
        }}
        {stored(shape, "by_query", "sum_inner", features, "first", "queries")}
    }}
}}
"""


def _levels_source(shape: FlashShape, kind: str) -> str:
    """A function that finds, for some queries, the logarithm of their sum of exponentials, and the
    product of their result with its gradient."""
    each = BYTES // SIZES[shape.dtype]
    return f"""\
static void find_levels(
    const {kind} *given_g, const int64_t *g_step, const {kind} *out, const int64_t *out_step,
    const float *lse, const int64_t *lse_step, int first, int queries, float *levels, float *pulls,
    int count)
{{
    const int lane = threadIdx.x % {_OF_ROW};
    for (int i = threadIdx.x / {_OF_ROW}; i < count; i += {THREADS // _OF_ROW}) {{
        const int64_t row = first + i;
        float found = 0;
        for (int f = lane * {each}; f < {shape.columns}; f += {_OF_ROW * each}) {{
            const line_t a = loaded_given_g(given_g + row * g_step[4], f, g_step[5], row < queries);
            const line_t b = loaded_out(out + row * out_step[4], f, out_step[5], row < queries);
            #pragma unroll
            for (int n = 0; n < {each}; n++)
                found = fmaf(element(a, n), element(b, n), found);
        }}
        #pragma unroll
        for (int apart = {_OF_ROW // 2}; apart > 0; apart /= 2)
            found += __shfl_xor_sync(0xffffffffu, found, apart);
        if (lane == 0) {{
            const float level = row < queries ? lse[row * lse_step[4]] : 0;
            levels[i] = is_finite(level) ? level : 0;
            pulls[i] = found;
        }}
    }}
}}"""


def _by_keys(shape: FlashShape) -> str:
    """What queries of a tile mean for own keys and values."""
    own = _Side("key", "value", "first", "keys")
    other = _Side("query", "given_g", "begin", "queries")
    levels = f"""find_levels(given_g, given_g_step, out, out_step, lse, lse_step, begin, queries,
        levels, pulls, {TILE});"""
    place, key = f"begin + tx + {LANES} * j", f"first + ty * {shape.rows} + r"
    of = f"[tx + {LANES} * j]"
    return "\n    ".join(
        (
            seen_pairs(shape, place, key),
            f"float score[{shape.rows}][{EACH}] = {{}}, pull[{shape.rows}][{EACH}] = {{}};",
            _products(shape, own, other, levels),
            _flows(shape, place, key, of, keep_shares=True),
            _weighted(shape, "sum_outer", shape.columns, "outer", other.outer, other),
            "__syncwarp();",
            _flow_shares(shape),
            _weighted(shape, "sum_inner", shape.features, "inner", other.inner, other),
        )
    )


def _by_queries(shape: FlashShape) -> str:
    """What keys of a tile mean for own queries."""
    own = _Side("query", "given_g", "first", "queries")
    other = _Side("key", "value", "begin", "keys")
    place, key = f"first + ty * {shape.rows} + r", f"begin + tx + {LANES} * j"
    return "\n    ".join(
        (
            seen_pairs(shape, place, key),
            f"float score[{shape.rows}][{EACH}] = {{}}, pull[{shape.rows}][{EACH}] = {{}};",
            _products(shape, own, other, ""),
            _flows(shape, place, key, f"[ty * {shape.rows} + r]", keep_shares=False),
            _flow_shares(shape),
            _weighted(shape, "sum_inner", shape.features, "inner", other.inner, other),
        )
    )


def _products(shape: FlashShape, own: _Side, other: _Side, levels: str) -> str:
    """The scores of own rows and those of a tile, and the gradients by their shares.

    Args:
        levels: finds what is known of a tile's queries.
    """
    inner, outer = chunks(shape.features), chunks(shape.columns)
    own_inner = Fill("own_inner", own.inner, shape.own, own.first, own.there, "chunk")
    own_outer = Fill("own_outer", own.outer, shape.own, own.first, own.there, "chunk")
    of_inner = Fill("inner", other.inner, TILE, other.first, other.there, "chunk")
    of_outer = Fill("outer", other.outer, TILE, other.first, other.there, "chunk")
    kept = [own_inner] if inner == 1 else []
    kept += [own_outer] if outer == 1 else []
    once = f"if (!begun) {filled(shape, kept)}" if kept else ""
    each = [of_inner, own_inner] if inner > 1 else [of_inner]
    behind = [of_outer, own_outer] if outer > 1 else [of_outer]
    return f"""#pragma unroll 1
    for (int chunk = 0; chunk < {inner}; chunk++) {{
        __syncthreads();
        if (chunk == 0) {{
            {once}
            {filled(shape, [*each, *behind])}
            {levels}
        }} else
            {filled(shape, each)}
        __syncthreads();
        {multiplied(shape, "score", "own_inner", "inner")}
    }}
    #pragma unroll 1
    for (int chunk = 0; chunk < {outer}; chunk++) {{
        if (chunk > 0) {{
            __syncthreads();
            {filled(shape, behind)}
            __syncthreads();
        }}
        {multiplied(shape, "pull", "own_outer", "outer")}
    }}
    begun = true;"""


def _flows(shape: FlashShape, place: str, key: str, of: str, *, keep_shares: bool) -> str:
    """The gradients by scores, in the place of those by shares, and perhaps the shares in shared
    memory.

    Args:
        of: the place of what is known of a query.
    """
    weight, pull = "share", "pull[r][j]"
    if shape.dropout:
        weight, pull = "stay ? share * more : 0", "(stay ? pull[r][j] * more : 0)"
    kept = f"shares[ty * {shape.rows} + r][tx + {LANES} * j] = {weight};" if keep_shares else ""
    return f"""{each_pair(shape)} {{
        {score(shape, place, key)}
        const float share = expf(found - levels{of});
        {stay(shape, place, key)}
        {kept}
        pull[r][j] = share * ({pull} - pulls{of}) * scale;
    }}
    __syncwarp();"""


def _flow_shares(shape: FlashShape) -> str:
    return f"""{each_pair(shape)}
        shares[ty * {shape.rows} + r][tx + {LANES} * j] = pull[r][j];
    __syncwarp();"""


def _weighted(
    shape: FlashShape, sum_: str, columns: int, tile: str, name: str, other: _Side
) -> str:
    """Adds a tile's rows, weighted; the chunk that is there comes first."""
    found = []
    for chunk in reversed(range(chunks(columns))):
        if chunk < chunks(columns) - 1:
            fill = Fill(tile, name, TILE, other.first, other.there, chunk)
            found += ["__syncthreads();", filled(shape, [fill]), "__syncthreads();"]
        found.append(summed(shape, sum_, chunk, tile))
    return "\n    ".join(found)
