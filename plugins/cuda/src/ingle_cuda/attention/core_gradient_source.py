"""The kernels of the gradient of attention of half types by tensor cores: scores are computed
again, tile by tile, from the logarithms that the forward pass left (Dao et al., arXiv 2205.14135).

One kernel finds for each query the logarithm to the base two and the product of its result with its
gradient. Of the blocks of the other, some have keys of their own and go through the queries, the
others have queries and go through the keys; what a block finds is its own, so nobody waits and sums
have one order. The gradients of keys and of values are those of one block where registers suffice,
and of two otherwise. How blocks are cut is told in `core_tiles`.
"""

from __future__ import annotations

from functools import lru_cache

from ingle.fusion.device.cuda import AFTER_OTHERS, rounded

from ..row_lines import BYTES
from .core_scores import OF_KEYS, OF_QUERIES, kept, scaled, walked
from .core_tiles import (
    LOG2E,
    OWN,
    THREADS,
    CoreShape,
    Tile,
    beginning,
    each,
    head,
    multiplied,
    own_rows,
    prelude,
    stored,
    summed,
    tiles,
    zeros,
)
from .flash_tiles import head_of_block, pointer, steps

NAME, LEVELS = "core_gradient", "core_levels"
_OF_ROW = 8
"""Threads that share a row of the result's gradient, to multiply it with the result."""


def is_together(shape: CoreShape) -> bool:
    """Whether the gradients of keys and values are found by the same blocks."""
    return shape.tile == OWN


def _names(shape: CoreShape) -> list[str]:
    names = ["given_g", "query", "key", "value", *(["mask"] if shape.mask else [])]
    return [*names, "out", "lse", "by_query", "by_key", "by_value"]


def _read(shape: CoreShape) -> tuple[tuple[str, int], ...]:
    features, columns = shape.features, shape.columns
    return (
        ("given_g", columns), ("query", features), ("key", features), ("value", columns),
        ("out", columns),
    )  # fmt: skip


_OF_HEAD = "(((i0 * at[1] + i1) * at[2] + i2) * at[3] + group) * queries"


@lru_cache(maxsize=256)
def levels_source(shape: CoreShape) -> str:
    """The kernel of what is known of each query: a pair of numbers, in the memory behind the
    pointers of `source`."""
    names, kind = _names(shape), rounded(shape.dtype)[0].stored
    read = _read(shape)
    pointers = [pointer(names, name, kind, "group") for name in ("given_g", "out")]
    pointers += [pointer(names, "lse", "float", "group")]
    elements = BYTES // 2
    return f"""{prelude(shape._replace(dropout=False), names, len(names) + 1, read)}
extern "C" __global__ void __launch_bounds__({THREADS}) {LEVELS}(
    const __grid_constant__ given_t given)
{{
    {AFTER_OTHERS}
    const int64_t *const at = given.at;
    const int queries = at[6], part = threadIdx.x % {_OF_ROW};
    uint32_t rest = blockIdx.x;
    {head_of_block(4)}
    const int64_t group = rest;
    {steps(names, names)}
    {chr(10).join(pointers)}
    float *const levels = (float *)given.buffer[{len(names)}] + {_OF_HEAD} * 2;
    for (int i = threadIdx.x / {_OF_ROW}; i < {OWN}; i += {THREADS // _OF_ROW}) {{
        const int64_t row = (int64_t)tile * {OWN} + i;
        float found = 0;
        for (int f = part * {elements}; f < {shape.columns}; f += {_OF_ROW * elements}) {{
            const line_t a = loaded_given_g(given_g + row * given_g_step[4], f, given_g_step[5],
                row < queries);
            const line_t b = loaded_out(out + row * out_step[4], f, out_step[5], row < queries);
            #pragma unroll
            for (int n = 0; n < {elements}; n++)
                found = fmaf(element(a, n), element(b, n), found);
        }}
        #pragma unroll
        for (int apart = {_OF_ROW // 2}; apart > 0; apart /= 2)
            found += __shfl_xor_sync(0xffffffffu, found, apart);
        if (part == 0 && row < queries) {{
            const float level = lse[row * lse_step[4]];
            levels[2 * row] = is_finite(level) ? level * {LOG2E} : 0;
            levels[2 * row + 1] = found;
        }}
    }}
}}
"""


@lru_cache(maxsize=256)
def source(shape: CoreShape) -> str:
    """The kernel, for any number of queries and keys and any strides.

    Its pointers are the gradient of the result, queries, keys, values, the mask if there is one,
    the result, the logarithms, the three results, and the memory that `levels_source` has filled.
    The numbers that `flash_tiles.HEAD` tells of are followed by the strides of each but the last.
    """
    kind = rounded(shape.dtype)[0].stored
    names = _names(shape)
    count = len(names) + 1
    names += ["draw"] if shape.dropout else []
    masked = "uint8_t" if shape.mask == "bool" else kind
    of_queries = [pointer(names, name, kind, "group") for name in ("given_g", "query")]
    of_queries += [pointer(names, "mask", masked, "group")] if shape.mask else []
    of_queries.append(
        f"const float *const levels = (const float *)given.buffer[{count - 1}] + {_OF_HEAD} * 2;"
    )
    of_keys = [pointer(names, name, kind) for name in ("key", "value")]
    line = "\n        "
    query = Tile("inner", "query", shape.features, "queries")
    key = query._replace(name="key", there="keys")
    given_g = Tile("outer", "given_g", shape.columns, "queries")
    value = given_g._replace(name="value", there="keys")
    together = is_together(shape)
    whose = ["both"] if together else ["by_value", "by_key"]
    by_keys = "\n    ".join(
        f"""{"else " if n else ""}if (blockIdx.x < of_keys * {n + 1}) {{
        uint32_t rest = blockIdx.x{f" - of_keys * {n}" if n else ""};
        {head_of_block(5)}
        const int first = tile * {OWN};
        {line.join(of_keys)}
        {line.join(pointer(names, n, kind, constant=False) for n in ("by_key", "by_value"))}
        {_by_keys(shape, one, (query, given_g), (key, value), [*of_queries, head(shape)], kind)}
    }}"""
        for n, one in enumerate(whose)
    )
    return f"""{prelude(shape, names, count, _read(shape))}
extern "C" __global__ void __launch_bounds__({THREADS}) {NAME}(
    const __grid_constant__ given_t given)
{{
    {AFTER_OTHERS}
    {tiles(shape, query, given_g)}
    __shared__ float level_of[2][{shape.tile}], pull_of[2][{shape.tile}];
    {beginning(shape)}
    const float by = scale * {LOG2E};
    const int groups = at[3];
    const uint32_t of_keys = (uint32_t)(at[0] * at[1] * at[2] * at[5]);
    {steps(names, names)}
    {by_keys} else {{
        uint32_t rest = blockIdx.x - of_keys * {len(whose)};
        {head_of_block(4)}
        const int64_t group = rest;
        /* Of a causal attention the last queries see most: their blocks begin first. */
        const int first = (of_tiles - 1 - tile) * {OWN};
        {line.join([*of_keys, *of_queries])}
        {pointer(names, "by_query", kind, "group", constant=False)}
        {head(shape)}
        {_by_queries(shape, (query, given_g), (key, value), kind)}
    }}
}}
"""


def _by_keys(
    shape: CoreShape, whose: str, of_queries: tuple[Tile, Tile], of_keys: tuple[Tile, Tile],
    pointers: list[str], kind: str,
) -> str:  # fmt: skip
    """What queries mean for own keys, for own values, or for both."""
    query, given_g = of_queries
    inner, outer = (
        tile._replace(array=f"own_{tile.array}") for tile in of_keys
    )  # fmt: skip
    for_value, for_key = whose in ("both", "by_value"), whose in ("both", "by_key")
    owns = [own_rows(shape, inner, query)]
    body = [_levels(shape), multiplied(shape, "score", inner, query)]
    body += [scaled(shape, OF_KEYS, "score"), kept(shape, OF_KEYS)]
    place = "j * 8 + t * 2 + e % 2"
    if for_key:
        owns.append(own_rows(shape, outer, given_g))
        body.append(multiplied(shape, "pull", outer, given_g))
    body.append(
        _flows(shape, f"level_of[now][{place}]", f"pull_of[now][{place}]", for_value, for_key)
    )
    sums, ends = [], []
    if for_value:
        sums.append(zeros("sum_outer", shape.columns))
        body.append(summed(shape, "sum_outer", "score", given_g))
        ends.append(stored("by_value", "sum_outer", shape.columns, "keys", kind))
    if for_key:
        sums.append(zeros("sum_inner", shape.features))
        body.append(summed(shape, "sum_inner", "pull", query))
        ends.append(stored("by_key", "sum_inner", shape.features, "keys", kind))
    line = "\n        "
    begin = f"first / {shape.tile} * {shape.tile}" if shape.causal else "0"
    return f"""{line.join(owns)}
        {line.join(sums)}
        #pragma unroll 1
        for (int group = 0; group < groups; group++) {{
            {line.join(pointers)}
            int begin = {begin};
            {walked(shape, OF_KEYS, (query, given_g), "queries", line.join(body))}
            __syncthreads();
        }}
        {line.join(ends)}"""


def _by_queries(
    shape: CoreShape, of_queries: tuple[Tile, Tile], of_keys: tuple[Tile, Tile], kind: str
) -> str:
    """What keys mean for own queries."""
    inner, outer = (tile._replace(array=f"own_{tile.array}") for tile in of_queries)
    key, value = of_keys
    body = (
        multiplied(shape, "score", inner, key), scaled(shape, OF_QUERIES, "score"),
        kept(shape, OF_QUERIES), multiplied(shape, "pull", outer, value),
        _flows(shape, "own_level[e / 2]", "own_pull[e / 2]", False, True),
        summed(shape, "sum_inner", "pull", key),
    )  # fmt: skip
    line = "\n        "
    return f"""{own_rows(shape, inner, key)}
        {own_rows(shape, outer, value)}
        float own_level[2], own_pull[2];
        #pragma unroll
        for (int r = 0; r < 2; r++) {{
            const int row = first + warp * 16 + g + r * 8;
            own_level[r] = row < queries ? levels[2 * row] : 0;
            own_pull[r] = row < queries ? levels[2 * row + 1] : 0;
        }}
        {zeros("sum_inner", shape.features)}
        const int end = {f"min(keys, first + {OWN})" if shape.causal else "keys"};
        int begin = 0;
        {walked(shape, OF_QUERIES, (key, value), "end", line.join(body))}
        {stored("by_query", "sum_inner", shape.features, "queries", kind)}"""


def _levels(shape: CoreShape) -> str:
    """Brings what is known of a tile's queries into shared memory."""
    return f"""if (threadIdx.x < {shape.tile}) {{
            const int row = begin + (int)threadIdx.x;
            level_of[now][threadIdx.x] = row < queries ? levels[2 * (int64_t)row] : 0;
            pull_of[now][threadIdx.x] = row < queries ? levels[2 * (int64_t)row + 1] : 0;
        }}
        __syncthreads();"""


def _flows(shape: CoreShape, level: str, pull: str, for_value: bool, for_scores: bool) -> str:
    """Shares in the place of scores, and gradients by scores in the place of those by shares."""
    weight, flow = "share", "pull[j][e]"
    if shape.dropout:
        stays = "stay >> (j * 4 + e) & 1"
        weight, flow = f"{stays} ? share * more : 0", f"({stays} ? pull[j][e] * more : 0)"
    lines = [f"const float share = power_of_two(score[j][e] - {level});"]
    if for_scores:
        lines.append(f"pull[j][e] = share * ({flow} - {pull}) * scale;")
    if for_value:
        lines.append(f"score[j][e] = {weight};")
    return f"{each(shape)} {{\n        " + "\n        ".join(lines) + "\n    }"


def blocks_of_keys(shape: CoreShape) -> int:
    """How many blocks a tile of keys has."""
    return 1 if is_together(shape) else 2
